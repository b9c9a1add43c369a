"""``PARTITION BY`` [temporary-tables §5.1.1, §5.1.4, §5.14]."""

import pytest
from pyspark.errors import PySparkException

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


def test_only_parquet_tables_can_be_partitioned(client):
    try:
        for storage in ("json", "csv", "orc"):
            text = f"{storage.capitalize()} format does not support auto-partitioning."
            refused = ("LODGE_PARTITION_FORMAT", "0A000", text)
            client.unset("store.format")
            client.refuses(f"create temporary table t using {storage} partition by (b) as select 1 a, 2 b", *refused)
            client.set("store.format", storage)
            client.refuses("create temporary table t partition by (b) as select 1 a, 2 b", *refused)
    finally:
        client.unset("store.format")


def test_invalid_partition_columns_are_refused(client):
    for columns, query, condition, state in (
        ("(a)", "select 1 a", "ALL_PARTITION_COLUMNS_NOT_ALLOWED", "KD005"),
        ("(a, b)", "select 1 a, 2 b", "ALL_PARTITION_COLUMNS_NOT_ALLOWED", "KD005"),
        ("(a, A)", "select 1 a, 2 b", "COLUMN_ALREADY_EXISTS", "42711"),
        ("(a)", "select array(1) a, 2 b", "INVALID_PARTITION_COLUMN_DATA_TYPE", "0A000"),
        ("(a)", "select X'ff' a, 2 b", "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE", "0A000"),
    ):
        client.refuses(f"create temporary table t partition by {columns} as {query}", condition, state)


def test_partition_values_round_trip(client):
    values = ["'a=b/c %\"{}?*:;#'", "' x '", "'007'", "'null'", "'.hidden'", "'_x'", "'true'", "'1.50'"]
    rows = ", ".join(f"({index}, {value})" for index, value in enumerate([*values, "null"]))
    client.run(f"create temporary table t partition by (p) as select * from values {rows} v(i, p)")
    assert client.sorted("select i, p from t") == client.sorted(f"select * from values {rows}")
    assert client.rows("select i from t where p = '007'") == [(2,)]


def test_partition_values_of_all_types_round_trip(client):
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
        client.run(f"create temporary table t partition by ({', '.join(values)}) as {query}")
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


def test_overwriting_single_partitions_is_refused_and_keeps_the_others(client):
    client.run("create temporary table t partition by (p) as select id a, id % 2 p from range(4)")
    added = client.spark.createDataFrame([(9, 1)], "a long, p long")
    refused = ("LODGE_TEMPORARY_TABLE_OPERATION", "0A000", "partitionOverwriteMode")
    client.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        client.refuses("insert overwrite t values (9, 1)", *refused)
        client.refuses(lambda: added.write.insertInto("t", overwrite=True), *refused)
        client.run("insert into t values (9, 1)")
        client.run("truncate table t")
        assert client.rows("select * from t") == []
    finally:
        client.unset("spark.sql.sources.partitionOverwriteMode")
    client.run("insert into t values (1, 0)")
    writer = added.write.option("partitionOverwriteMode", "dynamic")
    client.refuses(lambda: writer.insertInto("t", overwrite=True), *refused)
    client.run("insert overwrite t values (9, 1)")
    assert client.rows("select * from t") == [(9, 1)]


def test_rows_are_inserted_into_partitions_as_into_a_table_of_spark(client):
    columns = "(a int, b int, c int, d string) using parquet partitioned by (c, d)"
    client.run("drop table if exists spark_partitions")
    client.run(f"create table spark_partitions {columns}")
    client.run(f"create temporary table t {columns}")
    try:
        for clause, condition in (
            ("partition (c = 4, d = 'x') values (5, 5)", None),
            ("partition (c, d) select 1, 2, 3, 'y'", None),
            ("partition (c = 7, d) select 1, 2, 'z'", None),
            ("partition (c = '8', D = 5) values (6, 6)", None),
            ("partition (c = -1, d = null) values (6, 6)", None),
            ("partition (C = 2, d = 'q') (b, a) values (1, 2)", None),
            ("partition (c = 2, d = 'q') by name select 1 as b, 2 as a", None),
            ("partition (b = 4) values (5, 5)", "PARTITIONS_NOT_FOUND"),
            ("partition (c = 'x', d = 'x') values (5, 5)", "CAST_INVALID_INPUT"),
            ("partition (c = 4, d = 'x') values (5)", "ARITY_MISMATCH"),
            ("partition (c = 4) values (5, 5, 'x')", "LODGE_TEMPORARY_TABLE_OPERATION|Requested partitioning"),
            ("partition (c, d = 'w') select 1, 2, 9", "LODGE_TEMPORARY_TABLE_OPERATION|ordering of partition columns"),
            ("partition (c = 4, c = 5, d = 'x') values (5, 5)", "LODGE_TEMPORARY_TABLE_OPERATION|DUPLICATE_KEY"),
            ("partition (c = 1 + 1, d = 'x') values (5, 5)", "LODGE_TEMPORARY_TABLE_OPERATION|PARSE_SYNTAX_ERROR"),
        ):
            for table in ("t", "spark_partitions"):
                text = f"insert into {table} {clause}"
                if condition is None:
                    client.run(text)
                else:
                    with pytest.raises(PySparkException, match=condition):
                        client.run(text)
        assert client.sorted("select * from t") == client.sorted("select * from spark_partitions")
        client.refuses(
            "insert overwrite t partition (c = 4, d = 'x') values (5, 5)", "LODGE_TEMPORARY_TABLE_OPERATION", "0A000"
        )
        client.run("insert overwrite t partition (c, d) values (1, 2, 3, 'x')")
        assert client.rows("select * from t") == [(1, 2, 3, "x")]
    finally:
        client.run("drop table spark_partitions")
