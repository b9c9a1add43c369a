"""Storage formats, and access to the files.

Source: [temporary-tables §5.1.4, §5.1.5, §5.1.9, §5.2, §5.14].
"""

import itertools
import uuid
from collections import Counter

import pytest
from pyspark.errors import AnalysisException

FORMATS = ("parquet", "orc", "json", "csv")
REFUSED_OPTIONS = ("path", "location", "fs.permissions.umask-mode", "fs.file.impl", "mode", "timeZone", "lineSep")


def formats(client):
    """Return how many data files have each format."""
    return Counter(name.rpartition(".")[2] for name in client.files() if "/part-" in name)


@pytest.mark.slow
def test_store_format_sets_default_format(client):
    values = {"json": "json", "'orc'": "orc", "CSV": "csv", '"Json"': "json", "`orc`": "orc"}
    try:
        for number, value in enumerate(values):
            client.run(f"set store.format={value}")
            client.run(f"create temporary table t{number} as select 1 a")
        client.run("create temporary table u using parquet as select 1 a")
    finally:
        client.run("reset store.format")
    assert formats(client) == Counter([*values.values(), "parquet"])
    assert client.contents(*(f"t{number}" for number in range(len(values)))) == [[(1,)]] * len(values)


def test_default_format_is_parquet(client):
    client.run("create temporary table t as select 1 a")
    assert formats(client) == {"parquet": 1}


def test_unknown_format_is_refused_with_list_of_formats(client):
    try:
        for storage in ("avro", "text", "delta", "parquet/..", "csv x"):
            client.set("store.format", storage)
            text = f"Table [t] cannot be stored as [{storage}]. Use one of parquet, orc, json, csv"
            client.refuses("create temporary table t as select 1 a", "LODGE_STORAGE_FORMAT", "0A000", text)
    finally:
        client.unset("store.format")
    client.refuses("create temporary table t using avro as select 1 a", "LODGE_STORAGE_FORMAT", "0A000", "[avro]")


def test_later_change_of_setting_does_not_change_table(client):
    tables = [f"in_{storage}" for storage in FORMATS]
    for storage, table in zip(FORMATS, tables, strict=True):
        client.run(f"create temporary table {table} using {storage} as select 'x' a")
    try:
        for storage, table in zip(FORMATS, tables, strict=True):
            client.set("store.format", "csv" if storage == "json" else "json")
            client.run(f"insert into {table} values ('y')")
    finally:
        client.unset("store.format")
    assert client.contents(*tables) == [[("x",), ("y",)]] * len(tables)
    assert formats(client) == dict.fromkeys(FORMATS, 2)


@pytest.mark.slow
def test_format_options_are_kept(client):
    clauses = [
        "using csv options (header true, sep ';')",
        "using csv options (SEP '|', nullValue 'NA', compression 'gzip')",
        "using csv options (encoding 'UTF-16')",
        "using json options (compression 'bzip2', ignoreNullFields false)",
        "using parquet options (compression 'gzip', parquet.block.size 100000)",
        "using orc options (orc.compress 'ZLIB')",
    ]
    tables = [f"t{number}" for number in range(len(clauses))]
    for table, clause in zip(tables, clauses, strict=True):
        values = "'a;|b' s, '' e, cast(null as string) n, 7 i"
        client.run(f"create temporary table {table} {clause} as select {values}")
        client.run(f"insert into {table} values ('c', '', null, 8)")
    assert client.contents(*tables) == [[("a;|b", "", None, 7), ("c", "", None, 8)]] * len(tables)


def test_options_that_change_the_path_are_refused(client):
    for storage, option in itertools.product(FORMATS, REFUSED_OPTIONS):
        text = f"create temporary table t using {storage} options ('{option}' '/tmp/x') as select 1 a"
        client.refuses(text, "LODGE_TABLE_OPTIONS", "42000", f"do not support the option [{option}]")


def test_directories_have_mode_0700_and_files_0600(client):
    for storage in FORMATS:
        parts = "partition by (p)" if storage == "parquet" else ""
        client.run(f"create temporary table {storage} using {storage} {parts} as select id, id % 2 p from range(4)")
    assert client.modes() == {"drwx------", "-rw-------"}
    for table in ("parquet", "json"):
        client.run(f"insert into {table} values (7, 8)")
    assert client.modes() == {"drwx------", "-rw-------"}
    for table in ("parquet", "json"):
        client.run(f"insert overwrite {table} select * from {table}")
    assert client.modes() == {"drwx------", "-rw-------"}


def test_session_cannot_open_its_files_to_others(client):
    for key in ("fs.permissions.umask-mode", "spark.hadoop.fs.permissions.umask-mode"):
        client.spark.conf.set(key, "000")
    try:
        client.run("create temporary table t as select 1 a")
        assert client.modes() == {"drwx------", "-rw-------"}
    finally:
        for key in ("fs.permissions.umask-mode", "spark.hadoop.fs.permissions.umask-mode"):
            client.spark.conf.unset(key)


def test_location_and_tables_have_random_uuids_as_names(client):
    client.run("create temporary table t as select 1 a")
    (table,) = client.location.iterdir()
    for path in (client.location, table):
        assert str(uuid.UUID(path.name)) == path.name
        assert uuid.UUID(path.name).version == 4
    assert client.location.parent == client.gateway.root
    assert client.location.name != client.spark.session_id


def test_location_exists_from_first_table_to_session_end(lodge, connect, wait_until):
    before = set(lodge.locations())
    spark = connect()
    spark.sql("select 1").collect()
    assert set(lodge.locations()) == before
    spark.sql("create temporary table a as select 1 a").collect()
    spark.sql("create temporary table b as select 1 a").collect()
    (location,) = set(lodge.locations()) - before
    assert len(list(location.iterdir())) == 2
    spark.stop()
    wait_until(lambda: not location.exists(), "the location is removed")


def test_other_session_cannot_read_table_by_name_or_workspace_path(client, connect):
    client.run("create temporary table t as select 1 a")
    other = connect()
    (table,) = client.location.iterdir()
    for name in ("t", "dfs.tmp.t", f"dfs.tmp.`{client.location.name}/{table.name}`", "session.t"):
        with pytest.raises(AnalysisException):
            other.sql(f"select * from {name}").collect()
