"""``CREATE OR REPLACE TEMPORARY TABLE`` and the DataFrame calls that replace a table."""

from pyspark.sql.types import IntegerType

from tests.gateway.tables.held_statements import Running, held

CHANGES = (
    "insert into t select held(4)",
    "insert overwrite t select held(4)",
    "update t set a = held(a)",
)


def test_replacement_has_other_rows_columns_format_and_properties(client):
    client.run("create temporary table t partitioned by (p) comment 'old' as select 1 a, 2 p")
    created = "create or replace temporary table T using json comment 'new' as select 'x' b from range(3)"
    assert client.rows(created) == [("0_0", 3)]
    assert client.contents("t") == [[("x",)] * 3]
    assert "(\n  `b` STRING)\nUSING json\nCOMMENT 'new'" in client.rows("show create table t")[0][0]
    client.run("insert into t values ('y')")
    assert client.contents("t") == [[("x",)] * 3 + [("y",)]]
    assert {name.rpartition(".")[2] for name in client.files() if "/part-" in name} == {"json"}


def test_replacement_creates_a_table_that_does_not_exist(client):
    assert client.rows("create or replace temporary table t as select 1 a") == [("0_0", 1)]
    client.run("create or replace temporary table t (b int default 7, c string)")
    client.run("insert into t (c) values ('x')")
    assert client.contents("t") == [[(7, "x")]]
    client.run("create or replace temp table u like t")
    assert client.contents("u") == [[]]


def test_replacement_can_read_the_replaced_table(client):
    client.run("create temporary table t as select id from range(3)")
    for _ in range(3):
        client.run("create or replace temporary table t as select id + 1 id from t")
    assert client.contents("t") == [[(3,), (4,), (5,)]]


def test_failed_replacement_leaves_the_table(client):
    client.run("create temporary table t using orc as select 1 a")
    client.run("alter table t add column b int")
    before = client.files()
    client.refuses(
        "create or replace temporary table t as select raise_error('no') c", "USER_RAISED_EXCEPTION", "P0001"
    )
    client.refuses("create or replace temporary table t as select 1 c from absent", "TABLE_OR_VIEW_NOT_FOUND", "42P01")
    client.refuses(
        "create or replace temporary table if not exists t as select 1 c", "PARSE_SYNTAX_ERROR", "42601", "OR REPLACE"
    )
    assert client.contents("t") == [[(1, None)]]
    assert client.files() == before


def test_view_is_not_replaced(client):
    client.run("create temporary view v as select 1 a")
    try:
        client.refuses("create or replace temporary table v as select 2 a", "TABLE_OR_VIEW_ALREADY_EXISTS", "42P07")
        assert client.rows("select * from v") == [(1,)]
    finally:
        client.run("drop view v")


def test_replacement_overtakes_running_changes(client, wait_until, tmp_path):
    """Their rows have the columns and the format of the former table."""
    client.run("create temporary table t (a int) using orc")
    for number, change in enumerate(CHANGES):
        started, ended = tmp_path / f"started-{number}", tmp_path / f"ended-{number}"
        client.spark.udf.register("held", held(str(started), str(ended)), IntegerType())
        client.run("create or replace temporary table t using orc as select 1 a")
        running = Running(client.spark, change)
        wait_until(started.exists, "the change reads the rows")
        client.run(f"create or replace temporary table t as select 'x{number}' b")
        ended.touch()
        assert running.join().getCondition() == "LODGE_TABLE_CHANGED", change
        client.run("insert into t values ('y')")
        assert client.contents("t") == [[(f"x{number}",), ("y",)]]
    wait_until(lambda: not any(table.writes for table in client.record().tables), "nothing is pending")


def test_data_frame_replaces_table(client):
    client.run("create temporary table t as select 1 a")
    frame = client.spark.range(2)
    frame.write.mode("overwrite").format("orc").saveAsTable("t")
    assert client.contents("t") == [[(0,), (1,)]]
    frame.selectExpr("id + 5 x", "'p' p").writeTo("t").using("parquet").partitionedBy("p").createOrReplace()
    assert client.contents("t") == [[(5, "p"), (6, "p")]]
    assert client.rows("show partitions t") == [("p=p",)]
    frame.writeTo("t").replace()
    assert client.contents("t") == [[(0,), (1,)]]
    assert client.rows("show create table t")[0][0].endswith("USING parquet\n")


def test_data_frame_does_not_create_a_table_that_exists(client):
    client.run("create temporary table t as select 1 a")
    frame = client.spark.range(2)
    for write in (
        lambda: frame.write.saveAsTable("t"),
        lambda: frame.writeTo("t").create(),
    ):
        client.refuses(write, "TABLE_OR_VIEW_ALREADY_EXISTS", "42P07", "[t]")
    assert client.contents("t") == [[(1,)]]
