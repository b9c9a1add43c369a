"""``INSERT`` with ``REPLACE WHERE``, ``IF NOT EXISTS`` or several clauses, and ``overwrite`` of a DataFrame."""

import pytest
from pyspark.sql.connect import functions as sf

from tests.gateway.tables.spark_pair import SparkPair


@pytest.mark.parametrize("storage", ["parquet", "orc", "json", "csv", "parquet partitioned by (q)"])
def test_replace_where_replaces_the_rows_for_which_the_condition_is_true(client, storage):
    client.run(f"create temporary table t (a int, p string default 'd', q int) using {storage}")
    client.run("insert into t (a, p) values (1, 'x'), (2, 'y'), (null, 'z')")
    client.run("insert into dfs.tmp.t replace where t.a = 1 or a > 7 values (5, 'n', 1), (6, default, 2)")
    assert client.sorted("select a, p from t") == [(2, "y"), (5, "n"), (6, "d"), (None, "z")]
    client.run("insert into t by name replace where p = :p select 'q' p", args={"p": "n"})
    client.run("insert into t (a) replace where p = ? select ?", args=["y", 9])
    assert client.sorted("select a, p from t") == [(6, "d"), (9, "d"), (None, "q"), (None, "z")]
    client.run("insert into t replace where true table t")
    assert [table.rows for table in client.record().tables] == [4]
    client.refuses("insert into t replace where nope = 1 values (1, 'x')", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703")
    client.refuses(
        "insert into t replace where a = 1 values (1)", "INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS", "21S01"
    )
    client.refuses(
        "insert into t replace using (a) values (1, 'x')", "LODGE_TEMPORARY_TABLE_OPERATION", "0A000", "MERGE"
    )
    client.refuses("insert overwrite t replace where a = 1 values (1, 'x')", "PARSE_SYNTAX_ERROR", "42601")
    for condition in ("a = 1) or (a = 9", "a = 1, a = 2", "a = 9 as x", "(a = 1", ""):
        client.refuses(f"insert into t replace where {condition} values (1, 'x', 1)", "PARSE_SYNTAX_ERROR", "42601")
    of_query = "with c as (select 9 x) insert into t replace where a in (select x from c) values (1, 'x', 1)"
    client.refuses(of_query, "LODGE_TEMPORARY_TABLE_OPERATION", "0A000", "subqueries in REPLACE WHERE")


def test_data_frame_overwrites_the_rows_for_which_a_condition_is_true(client):
    client.run("create temporary table t (a long, b string)")
    client.run("insert into t values (1, 'x'), (2, 'y'), (null, 'z')")
    frame = client.spark.createDataFrame([("n", 1)], "b string, a long")
    frame.writeTo("t").overwrite(sf.col("a") == 1)
    frame.writeTo("t").overwrite((sf.col("t.b") == "z") & sf.col("a").isNull())
    assert client.sorted("select * from t") == [(1, "n"), (1, "n"), (2, "y")]
    write = frame.writeTo("t")
    client.refuses(lambda: write.overwrite(sf.col("nope") == 1), "UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703")


def test_if_not_exists_leaves_existing_partitions(client):
    pair = SparkPair(client)
    with pair.tables("(a int, p int, q string) using parquet partitioned by (p, q)"):
        for clause in (
            "(p = 1, q = 'x') if not exists select 1",
            "(p = 1, q = 'x') if not exists select 2",
            "(q = 'y', P = 1) if not exists select 3",
            "(p = 1, q = 'y') if not exists by name select 4 a",
        ):
            assert pair.run(f"insert overwrite {{t}} partition {clause}") is None
            pair.compare(clause)
        for text in (
            "insert into {t} partition (p = 1, q = 'y') if not exists select 4",
            "insert overwrite {t} if not exists select 4, 1, 'x'",
            "insert overwrite {t} partition (z = 1, q = 'y') if not exists select 4",
        ):
            assert pair.run(text) is not None
        refused = "insert overwrite t partition (p = 1) if not exists select 4, 'x'"
        client.refuses(refused, "LODGE_TEMPORARY_TABLE_OPERATION", "0A000")


def test_several_clauses_insert_into_several_tables(client):
    client.run("create temporary table a (x int)")
    client.run("create temporary table b (x long, p int) partitioned by (p)")
    client.run(
        "with q as (select * from range(4)) from q insert into a select id where id > :low "
        "insert overwrite dfs.tmp.b partition (p = 1) select id * 10 order by 1 limit 2 insert into a select -id",
        args={"low": 1},
    )
    assert client.contents("a", "b") == [[(-3,), (-2,), (-1,), (0,), (2,), (3,)], [(0, 1), (10, 1)]]
    client.run("from range(2) insert into a select ? where id = ? insert into a select id + ?", args=[7, 1, 100])
    assert client.sorted("select x from a where x > 5") == [(7,), (100,), (101,)]


def test_no_clause_is_executed_if_spark_cannot_analyse_another(client):
    client.run("create temporary table a (x int)")
    client.run("create temporary table b (x int)")
    client.refuses(
        "from range(2) insert into a select id insert into b select array(1)",
        "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST",
        "KD000",
    )
    client.refuses(
        "from range(2) insert into a select id insert into b select nope", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703"
    )
    client.refuses("from range(2) insert into a select id insert into dfs.nope.b select 1", "SCHEMA_NOT_FOUND", "42704")
    client.refuses("from range(2) insert into a select id insert into b values (1)", "PARSE_SYNTAX_ERROR", "42601")
    many = " ".join(["insert into a select id"] * 17)
    client.refuses(f"from range(2) {many}", "LODGE_TEMPORARY_TABLE_OPERATION", "0A000", "16")
    assert client.contents("a", "b") == [[], []]


def test_clauses_for_tables_of_spark_need_statements_of_their_own(client):
    client.run("create temporary table a (x int)")
    client.run("create table of_spark (x int) using parquet")
    try:
        mixed = "from range(2) insert into a select id insert into of_spark select id"
        client.refuses(mixed, "LODGE_TEMPORARY_TABLE_OPERATION", "0A000", "one statement for each")
        client.run("from range(2) insert into of_spark select id insert into of_spark select -id")
        assert client.sorted("select * from of_spark") == [(-1,), (0,), (0,), (1,)]
    finally:
        client.run("drop table of_spark")
