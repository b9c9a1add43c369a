"""``PARTITION BY`` [temporary-tables §5.1.1, §5.1.4, §5.14]."""

import pytest

FORMATS = ("parquet", "orc", "json", "csv")
NOT_LISTED = ("COLUMN_NOT_FOUND", "42703")


def test_partitions_are_directories_and_the_last_columns(client):
    client.run("create temporary table t partition by (p, Q) as select id % 2 p, id, id % 3 q from range(6)")
    assert client.spark.table("t").columns == ["id", "p", "q"]
    assert client.sorted("select * from t where p = 1 and q = 2") == [(5, 1, 2)]
    assert any("/p=1/" in name for name in client.files())
    client.run("create temporary table u partitioned by (a) as select 1 a, 2 b")
    assert client.rows("select * from u") == [(2, 1)]


def test_partition_columns_must_be_in_column_list(client):
    text = "Partition column a is not in the SELECT list of CTAS!"
    client.refuses("create temporary table t (x, y) partition by (a) as select 1 a, 2 b", *NOT_LISTED, text)
    client.run("create temporary table t (x, y) partition by (Y) as select 1 a, 2 b")
    assert client.rows("select x, y from t") == [(1, 2)]


def test_partition_columns_must_be_in_query_without_column_list(client):
    text = "Partition column c1 is not in the SELECT list of CTAS!"
    client.refuses("create temporary table t partition by (c1) as select 1 a", *NOT_LISTED, text)
    client.refuses("create temporary table t (a int) partition by (c1)", *NOT_LISTED, text)


def test_partition_columns_can_have_types(client):
    client.run("create temporary table t (a int comment 'c') partitioned by (p string, q decimal(3, 1))")
    assert client.spark.table("t").schema.simpleString() == "struct<a:int,p:string,q:decimal(3,1)>"
    client.run("insert into t partition (p = 'x', q) values (1, 2.5)")
    assert any("/p=x/q=2.5/" in name for name in client.files())
    refused = ("COLUMN_ALREADY_EXISTS", "42711")
    client.refuses("create temporary table u (a int, b int) partitioned by (A int)", *refused)
    refused = ("UNSUPPORTED_FEATURE.TABLE_OPERATION", "0A000")
    client.refuses("create temporary table u (a int) partitioned by (p char(2))", *refused)
    client.refuses("create temporary table u (a int) partitioned by (p, q int)", "PARSE_SYNTAX_ERROR", "42601")


def test_tables_in_all_formats_can_be_partitioned(client):
    for storage in ("json", "csv", "orc"):
        client.run(f"create temporary table {storage} using {storage} partition by (b) as select 1 a, 2 b")
        client.run(f"insert into {storage} values (3, 4), (5, null)")
        client.run(f"insert overwrite {storage} partition (b = 2) values (6)")
        client.run(f"update {storage} set a = a + 1 where b = 4")
        assert client.sorted(f"select * from {storage}") == [(4, 4), (5, None), (6, 2)]
        assert client.rows(f"show partitions {storage}") == [("b=2",), ("b=4",), ("b=__HIVE_DEFAULT_PARTITION__",)]


def test_invalid_partition_columns_are_refused(client):
    for columns, query, condition, state in (
        ("(a)", "select 1 a", "ALL_PARTITION_COLUMNS_NOT_ALLOWED", "KD005"),
        ("(a, b)", "select 1 a, 2 b", "ALL_PARTITION_COLUMNS_NOT_ALLOWED", "KD005"),
        ("(a, A)", "select 1 a, 2 b", "COLUMN_ALREADY_EXISTS", "42711"),
        ("(a)", "select array(1) a, 2 b", "INVALID_PARTITION_COLUMN_DATA_TYPE", "0A000"),
        ("(a)", "select X'ff' a, 2 b", "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE", "0A000"),
    ):
        client.refuses(f"create temporary table t partition by {columns} as {query}", condition, state)


@pytest.mark.parametrize("storage", FORMATS)
def test_partition_values_round_trip(client, storage):
    values = ["'a=b/c %\"{}?*:;#'", "' x '", "'007'", "'null'", "'.hidden'", "'_x'", "'true'", "'1.50'"]
    rows = ", ".join(f"({index}, {value})" for index, value in enumerate([*values, "null"]))
    client.run(f"create temporary table t using {storage} partition by (p) as select * from values {rows} v(i, p)")
    assert client.sorted("select i, p from t") == client.sorted(f"select * from values {rows}")
    assert client.rows("select i from t where p = '007'") == [(2,)]


@pytest.mark.parametrize("storage", FORMATS)
def test_partition_values_of_all_types_round_trip(client, storage):
    values = {
        "d": "date'1500-01-01'",
        "t": "timestamp'1800-01-01 00:00:00.123456'",
        "u": "timestamp'2024-11-03 01:30:00-05:00'",
        "n": "timestamp_ntz'0001-01-01 00:00:00.000001'",
        "e": "1.50BD",
        "f": "double('nan')",
        "b": "true",
        "i": "cast(null as int)",
        "v": "interval '1' day",
        "`a.b`": "7",
        "`c``d e`": "8",
    }
    columns = ", ".join(f"{value} {name}" for name, value in values.items())
    client.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        query = f"select 1 k, {columns}"
        client.run(f"create temporary table t using {storage} partition by ({', '.join(values)}) as {query}")
        client.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        checks = [f"{name} <=> {value}" for name, value in values.items() if "800" not in value]
        exact = client.rows(f"select {', '.join(checks)}, unix_micros(t) from t")
        client.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        assert client.rows(f"select {', '.join(checks)} from t") == [(True,) * len(checks)]
        assert exact[0][-1] == client.rows(f"select unix_micros({values['t']})")[0][0]
        assert client.spark.table("t").dtypes == client.spark.sql(query).dtypes
    finally:
        client.spark.conf.unset("spark.sql.session.timeZone")


def test_empty_partition_value_is_read_as_null(client):
    client.run("create temporary table t partition by (p) as select 1 a, '' p")
    assert client.rows("select a, p from t") == [(1, None)]


def test_empty_partitioned_table_keeps_columns_and_takes_rows(client):
    client.run("create temporary table t partition by (p) as select id, 'x' p from range(0)")
    assert client.spark.table("t").dtypes == [("id", "bigint"), ("p", "string")]
    assert client.rows("select * from t") == []
    for number in range(3):
        client.run(f"insert into t values ({number}, 'p{number % 2}')")
    assert client.sorted("select * from t") == [(0, "p0"), (1, "p1"), (2, "p0")]
    client.run("insert overwrite t select * from t where p = 'p0'")
    assert client.sorted("select id from t") == [(0,), (2,)]
    client.run("truncate table t")
    assert client.rows("select * from t") == []


def test_dynamic_overwriting_keeps_other_partitions(client):
    client.run("create temporary table t partition by (p) as select id a, id % 3 p from range(6)")
    added = client.spark.createDataFrame([(9, 1)], "a long, p long")
    client.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        client.run("insert overwrite t values (8, 2), (8, 7)")
        added.write.insertInto("t", overwrite=True)
        assert client.sorted("select * from t") == [(0, 0), (3, 0), (8, 2), (8, 7), (9, 1)]
        assert [table.rows for table in client.record().tables] == [5]
        client.run("insert overwrite t select 1, 1 where false")
        assert len(client.rows("select * from t")) == 5
    finally:
        client.unset("spark.sql.sources.partitionOverwriteMode")
    client.spark.createDataFrame([(10, 1)], "a long, p long").write.option(
        "partitionOverwriteMode", "dynamic"
    ).insertInto("t", overwrite=True)
    assert client.sorted("select a from t where p = 1") == [(10,)]
    client.run("insert overwrite t partition (p = 0) select 1 where false")
    assert client.sorted("select * from t") == [(8, 2), (8, 7), (10, 1)]
    client.run("truncate table t")
    assert client.rows("select * from t") == []


def test_removed_partitions_have_the_values_of_the_parameters(client):
    client.run("create temporary table t partitioned by (p, q) as select id, id % 4 p, id % 2 q from range(8)")
    client.run("alter table t drop partition (p = ?), partition (q = ?, p = ?)", args=[1, 0, 2])
    assert client.sorted("select distinct p, q from t") == [(0, 0), (3, 1)]
    client.run("truncate table t partition (q = :q)", args={"q": 1})
    assert client.sorted("select id from t") == [(0,), (4,)]
    client.run("alter table t drop if exists partition (p = 0), partition (p = 9)")
    assert client.rows("select * from t") == []
    (table,) = client.record().tables
    assert not table.replacements


@pytest.mark.slow
def test_removal_of_many_partitions_is_stored_as_one_prefix_or_refused(client):
    client.run("create temporary table t partitioned by (q, p) as select id, id q, id % 2 p from range(1004)")
    refused = ("LODGE_TEMPORARY_TABLE_OPERATION", "0A000", "DELETE FROM")
    client.refuses("alter table t drop partition (p = 1)", *refused)
    clauses = ", ".join(f"partition (q = {number})" for number in range(101))
    client.refuses(f"alter table t drop {clauses}", *refused)
    client.run("create temporary table u partitioned by (p, q) as select id, id % 2 p, id q from range(8)")
    client.run("alter table u drop partition (p = 1)")
    assert client.rows("select count(*), max(p) from u") == [(4, 0)]
    assert [each.partitions for each in client.record().tables[1].replacements] == [("p=1",)]


def test_replaced_partitions_are_read_no_more_and_their_parts_are_removed(client):
    client.run("create temporary table t partition by (p) as select id a, id % 2 p from range(4)")
    for number in range(3):
        client.run(f"insert overwrite t partition (p = 1) values ({number})")
    assert client.sorted("select * from t") == [(0, 0), (2, 0), (2, 1)]
    (table,) = client.record().tables
    assert len(table.parts) == 2
    assert {file.partition("/")[0] for file in client.files()} == set(table.parts)
