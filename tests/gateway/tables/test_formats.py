"""Storage formats, and access to the files.

Source: [temporary-tables §5.1.4, §5.1.5, §5.1.9, §5.2, §5.14].
"""

import uuid

import pytest
from pyspark.errors import AnalysisException

FORMATS = ("parquet", "orc", "json", "csv")
REFUSED_OPTIONS = ("path", "location", "fs.permissions.umask-mode", "fs.file.impl", "mode", "timeZone", "lineSep")


def data_files(client):
    return [name for name in client.files() if "/part-" in name]


@pytest.mark.slow
@pytest.mark.parametrize("value", ["json", "'json'", "JSON", '"Json"', "`json`"])
def test_store_format_sets_default_format(client, value):
    client.run(f"set store.format={value}")
    try:
        client.run("create temporary table t as select 1 a")
        client.run("create temporary table u using parquet as select 1 a")
        assert sorted(name.rpartition(".")[2] for name in data_files(client)) == ["json", "parquet"]
        assert client.rows("select * from t") == [(1,)]
    finally:
        client.run("reset store.format")


def test_default_format_is_parquet(client):
    client.run("create temporary table t as select 1 a")
    assert [name.rpartition(".")[2] for name in data_files(client)] == ["parquet"]


@pytest.mark.parametrize("storage", ["avro", "text", "delta", "parquet/..", "csv x"])
def test_unknown_format_is_refused_with_list_of_formats(client, storage):
    client.spark.conf.set("store.format", storage)
    try:
        text = f"Table [t] cannot be stored as [{storage}]. Use one of parquet, orc, json, csv"
        client.refuses("create temporary table t as select 1 a", "LODGE_STORAGE_FORMAT", "0A000", text)
    finally:
        client.spark.conf.unset("store.format")
    client.refuses("create temporary table t using avro as select 1 a", "LODGE_STORAGE_FORMAT", "0A000", "[avro]")


@pytest.mark.parametrize("storage", FORMATS)
def test_later_change_of_setting_does_not_change_table(client, storage):
    client.run(f"create temporary table t using {storage} as select 'x' a")
    client.spark.conf.set("store.format", "csv" if storage == "json" else "json")
    try:
        client.run("insert into t values ('y')")
        assert client.sorted("select * from t") == [("x",), ("y",)]
        assert {name.rpartition(".")[2] for name in data_files(client)} == {storage}
    finally:
        client.spark.conf.unset("store.format")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("storage", "options"),
    [
        ("csv", "header true, sep ';'"),
        ("csv", "SEP '|', nullValue 'NA', compression 'gzip'"),
        ("csv", "encoding 'UTF-16'"),
        ("json", "compression 'bzip2', ignoreNullFields false"),
        ("parquet", "compression 'gzip', parquet.block.size 100000"),
        ("orc", "orc.compress 'ZLIB'"),
    ],
)
def test_format_options_are_kept(client, storage, options):
    client.rows(
        f"create temporary table t using {storage} options ({options}) as select 'a;|b' s, '' e, null n, 7 i".replace(
            "null n", "cast(null as string) n"
        )
    )
    client.run("insert into t values ('c', '', null, 8)")
    assert client.sorted("select * from t") == [("a;|b", "", None, 7), ("c", "", None, 8)]


@pytest.mark.parametrize("storage", FORMATS)
def test_options_that_change_the_path_are_refused(client, storage):
    for option in REFUSED_OPTIONS:
        text = f"create temporary table t using {storage} options ('{option}' '/tmp/x') as select 1 a"
        client.refuses(text, "LODGE_TABLE_OPTIONS", "42000", f"do not support the option [{option}]")


@pytest.mark.parametrize("storage", FORMATS)
def test_directories_have_mode_0700_and_files_0600(client, storage):
    parts = "partition by (p)" if storage == "parquet" else ""
    client.run(f"create temporary table t using {storage} {parts} as select id, id % 2 p from range(4)")
    client.run("insert into t values (7, 8)")
    client.run("insert overwrite t select * from t")
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
