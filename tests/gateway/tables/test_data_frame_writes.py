"""Writes of DataFrames into temporary tables, and calls of the catalog."""

import pytest
from pyspark.sql.connect import functions as sf
from pyspark.sql.connect.observation import Observation

OPERATION = ("LODGE_TEMPORARY_TABLE_OPERATION", "0A000", "Temporary table [t] does not support")


@pytest.fixture
def table(client):
    client.run("create temporary table t (a int, b string)")
    return client


def frame(client, number=1):
    return client.spark.sql(f"select {number} a, 'x' b")


def turned(client, number=1):
    return client.spark.sql(f"select 'y' b, {number} a")


def test_insert_into_appends_by_position(table):
    frame(table).write.insertInto("t")
    frame(table, 2).write.insertInto("dfs.tmp.T")
    table.refuses(
        lambda: turned(table).write.insertInto("t"), "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST", "KD000"
    )
    assert table.sorted("select * from t") == [(1, "x"), (2, "x")]
    frame(table, 3).write.insertInto("t", overwrite=True)
    assert table.rows("select * from t") == [(3, "x")]


def test_save_as_table_and_write_to_append_by_name(table):
    turned(table).write.mode("append").saveAsTable("t")
    turned(table, 2).write.mode("append").saveAsTable("dfs.tmp.t")
    turned(table, 3).writeTo("t").append()
    turned(table, 4).select("a").writeTo("dfs.tmp.t").append()
    assert table.sorted("select * from t") == [(1, "y"), (2, "y"), (3, "y"), (4, None)]
    for write in (
        lambda: turned(table).selectExpr("a", "b", "1 c").write.mode("append").saveAsTable("t"),
        lambda: turned(table).selectExpr("a", "b", "1 c").writeTo("t").append(),
    ):
        table.refuses(write, "INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS", "21S01", "`c`")


def test_data_frame_of_table_is_inserted_into_same_table(table):
    frame(table).write.insertInto("t")
    table.spark.table("t").write.insertInto("t")
    table.spark.table("dfs.tmp.t").write.insertInto("dfs.tmp.t", overwrite=True)
    assert table.rows("select * from t") == [(1, "x"), (1, "x")]


def test_overwrite_partitions_replaces_the_partitions_of_the_rows(client):
    client.run("create temporary table t (b string, a int) partitioned by (a)")
    client.run("insert into t values ('x', 1), ('x', 2)")
    turned(client).writeTo("t").overwritePartitions()
    assert client.sorted("select * from t") == [("x", 2), ("y", 1)]
    client.run("create temporary table u (b string, a int)")
    for _ in range(2):
        turned(client).writeTo("u").overwritePartitions()
    assert client.rows("select * from u") == [("y", 1)]


def test_writes_that_are_not_supported_are_refused(table):
    for write in (lambda: table.spark.readStream.format("rate").load().writeStream.toTable("t"),):
        table.refuses(write, *OPERATION)
    frame(table).write.mode("ignore").saveAsTable("t")
    assert table.rows("select * from t") == []


def test_save_as_table_accepts_format_and_partitions_of_table(client):
    client.run("create temporary table t partition by (b) as select 1 a, 'x' b")
    frame(client, 2).write.mode("append").format("parquet").partitionBy("B").saveAsTable("t")
    frame(client, 3).write.mode("append").saveAsTable("t")
    assert client.sorted("select a from t") == [(1,), (2,), (3,)]


def test_save_as_table_refuses_other_format_or_partitions(table):
    def append():
        return frame(table).write.mode("append")

    for write, text in (
        (lambda: append().format("json").saveAsTable("t"), "It is stored as [parquet]."),
        (lambda: append().partitionBy("a").saveAsTable("t"), "It has no partitions."),
        (lambda: append().partitionBy("a").insertInto("t"), "It has no partitions."),
        (lambda: append().bucketBy(2, "a").saveAsTable("t"), "bucketBy"),
        (lambda: append().clusterBy("a").saveAsTable("t"), "clusterBy"),
    ):
        table.refuses(write, *OPERATION, text)
    table.run("create temporary table p partition by (b) as select 1 a, 'x' b")
    partitioned = append().partitionBy("a")
    table.refuses(lambda: partitioned.saveAsTable("p"), *OPERATION[:2], "It is partitioned by [b].")
    assert table.rows("select * from t") == []


def test_data_frame_cannot_create_table_in_workspace(client):
    for name in ("dfs.tmp.new", "dfs.new"):
        for write in (
            lambda name=name: frame(client).write.saveAsTable(name),
            lambda name=name: frame(client).write.insertInto(name),
            lambda name=name: frame(client).writeTo(name).create(),
            lambda name=name: client.spark.catalog.createTable(name, schema=frame(client).schema),
        ):
            client.refuses(write, "LODGE_WORKSPACE_TABLE", "0A000", "Use the SQL statement CREATE TABLE name AS query")
    write = frame(client).writeTo("dfs.wk1.new").create
    client.refuses(write, "SCHEMA_NOT_FOUND", "42704", "Schema [dfs.wk1]")


def test_catalog_calls_do_not_change_table(table):
    catalog = table.spark.catalog
    table.refuses(
        lambda: catalog.dropTempView("t"), "EXPECT_VIEW_NOT_TABLE.NO_ALTERNATIVE", "42809", "[t] is not a VIEW"
    )
    table.refuses(lambda: catalog.recoverPartitions("t"), *OPERATION)
    assert catalog.dropGlobalTempView("t") is False
    assert catalog.tableExists("t")
    assert catalog.tableExists("dfs.tmp.t")


def test_stream_into_memory_does_not_replace_a_table(client):
    client.run("create temporary table t as select 1 a")
    stream = client.spark.readStream.format("rate").load().writeStream.format("memory")
    client.refuses(lambda: stream.queryName("t").start(), "TABLE_OR_VIEW_ALREADY_EXISTS", "42P07")
    assert client.rows("select * from t") == [(1,)]
    query = stream.queryName("other").start()
    query.stop()


def test_observed_metrics_of_an_insertion_reach_the_client(client):
    client.run("create temporary table t (a long)")
    for write in (
        lambda frame: frame.write.insertInto("t"),
        lambda frame: frame.write.mode("append").saveAsTable("t"),
        lambda frame: frame.writeTo("t").append(),
    ):
        observed = Observation("o")
        rows = client.spark.range(5).toDF("a").observe(observed, sf.count(sf.lit(1)).alias("rows"), sf.max("a"))
        write(rows)
        assert observed.get == {"rows": 5, "max(a)": 4}
