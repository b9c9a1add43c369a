"""Temporary tables as a user of PySpark sees them (seed 001)."""

import stat
import threading
import uuid

import pytest
from pyspark.errors import AnalysisException, ParseException, PySparkException

EXAMPLE = """
    create temporary table total_amount_by_discount as
    select cast(columns[3] as boolean) discount, sum(cast(columns[2] as double)) total_amount
    from dfs.`amount.csv`
    group by columns[3];
"""


def rows(frame):
    return [tuple(row) for row in frame.collect()]


def modes(location):
    return {stat.filemode(path.stat().st_mode) for path in [location, *location.rglob("*")]}


def the_location(lodge, spark, before=()):
    found = [path for path in lodge.locations() if path not in before]
    assert len(found) == 1
    return found[0]


@pytest.fixture
def before(lodge):
    return set(lodge.locations())


def test_the_example_of_the_seed_answers_as_it_says(spark):
    created = spark.sql(EXAMPLE)
    assert created.columns == ["Fragment", "Number of records written"]
    assert rows(created) == [("0_0", 2)]
    for name in (
        "total_amount_by_discount",
        "dfs.tmp.total_amount_by_discount",
        "TOTAL_Amount_by_DISCOUNT",
        "DFS.Tmp.Total_Amount_By_Discount",
        "dfs.tmp.`total_amount_by_discount`",
    ):
        assert rows(spark.sql(f"select * from {name} order by discount")) == [(False, 220.0), (True, 650.0)], name
    assert rows(spark.table("dfs.tmp.total_amount_by_discount").orderBy("discount")) == [(False, 220.0), (True, 650.0)]


def test_files_are_private_and_gone_after_the_session(lodge, connect, before, wait_until):
    spark = connect()
    spark.sql("create temporary table t partition by (p) as select id, id % 2 p from range(10)").collect()
    location = the_location(lodge, spark, before)
    assert str(uuid.UUID(location.name)) == location.name
    assert location.name != spark.session_id
    assert modes(location) == {"drwx------", "-rw-------"}
    spark.stop()
    wait_until(lambda: not location.exists(), "the session location is removed")
    assert set(lodge.locations()) == before


def test_no_location_exists_before_the_first_table(lodge, spark, before):
    assert rows(spark.sql("select 1")) == [(1,)]
    assert set(lodge.locations()) == before


def test_a_table_can_be_dropped_and_made_again(lodge, spark, before):
    for count in (1, 3):
        spark.sql(f"create temp table again as select id from range({count})").collect()
        assert spark.table("again").count() == count
        dropped = spark.sql("DROP TABLE dfs.tmp.Again")
        assert dropped.columns == ["ok", "summary"]
        assert rows(dropped) == [(True, "Temporary table [again] was dropped.")]
        assert list(the_location(lodge, spark, before).iterdir()) == []
        with pytest.raises(AnalysisException):
            spark.table("again").collect()


def test_dropping_what_is_not_there_is_an_error_or_an_answer(spark):
    assert rows(spark.sql("drop table if exists nothing")) == [(False, "Table [nothing] was not found.")]
    assert rows(spark.sql("drop table if exists dfs.tmp.nothing")) == [(False, "Table [nothing] was not found.")]
    with pytest.raises(AnalysisException, match=r"Table \[nothing\] is not found") as raised:
        spark.sql("drop table nothing")
    assert raised.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    assert raised.value.getSqlState() == "42P01"
    with pytest.raises(ParseException):
        spark.sql("drop temporary table nothing")


def test_drop_still_drops_tables_of_spark(spark):
    spark.sql("create table kept (a int) using parquet").collect()
    spark.sql("drop table kept").collect()
    assert not spark.catalog.tableExists("kept")


@pytest.mark.parametrize("name", ["taken", "TAKEN", "dfs.tmp.taken"])
def test_a_name_that_is_taken_is_refused(spark, name):
    spark.sql("create temporary table taken as select 1 a").collect()
    with pytest.raises(AnalysisException) as raised:
        spark.sql(f"create temporary table {name} as select 2 a")
    assert f"A table or view with given name [{name.split('.')[-1]}] already exists in schema [dfs.tmp]." in str(
        raised.value
    )
    kept = spark.sql(f"create temporary table if not exists {name} as select 2 a")
    assert rows(kept) == [
        (False, f"A table or view with given name [{name.split('.')[-1]}] already exists in schema [dfs.tmp].")
    ]
    assert rows(spark.table("taken")) == [(1,)]


def test_a_temporary_view_of_the_user_is_not_replaced(lodge, spark, before):
    spark.range(3).createOrReplaceTempView("mine")
    with pytest.raises(AnalysisException, match="already exists"):
        spark.sql("create temporary table mine as select 1 a")
    assert spark.table("mine").count() == 3
    assert all(list(path.iterdir()) == [] for path in set(lodge.locations()) - before)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("create temporary table x as select nope from range(1)", "nope"),
        ("create temporary table x as select 1 a union", "PARSE_SYNTAX_ERROR"),
        ("create temporary table x as select raise_error('broken') a", "broken"),
        ("create temporary table x (a, b) as select 1 a", "have different counts"),
        ("create temporary table x partition by (c1) as select 1 a", "Partition column c1 is not in the SELECT list"),
        ("create temporary table dfs.x as select 1 a", "outside of default temporary workspace [dfs.tmp]"),
        ("create temporary table dfs.wk1.x as select 1 a", "Schema [dfs.wk1] is not valid"),
        ("create temporary table x partition by a as select 1 a", "line 1, pos 38"),
    ],
)
def test_a_statement_that_fails_leaves_no_name_no_view_and_no_file(lodge, spark, before, statement, message):
    with pytest.raises((AnalysisException, ParseException, PySparkException)) as raised:
        spark.sql(statement).collect()
    assert message in str(raised.value)
    assert not spark.catalog.tableExists("x")
    assert all(list(path.iterdir()) == [] for path in set(lodge.locations()) - before)
    spark.sql("create temporary table x as select 7 a").collect()
    assert rows(spark.table("x")) == [(7,)]


def test_positions_in_messages_are_those_of_the_users_text(spark):
    with pytest.raises(AnalysisException) as raised:
        spark.sql("create temporary table x as\nselect nope\nfrom range(1)")
    assert raised.value.getQueryContext()[0].startIndex() == len("create temporary table x as\nselect ")


def test_an_empty_result_keeps_its_schema(spark):
    assert rows(spark.sql("create temporary table e as select id, 'x' s from range(0)")) == [("0_0", 0)]
    assert spark.table("e").columns == ["id", "s"]
    assert rows(spark.table("e")) == []


def test_parameters_data_frames_and_column_lists_go_into_the_table(spark):
    frame = spark.createDataFrame([(1, "a"), (2, "b")], ["k", "v"])
    spark.sql(
        "create temporary table p (x, `y z`) as select k, v from {f} where k = :k", args={"k": 2}, f=frame
    ).collect()
    assert spark.table("p").columns == ["x", "y z"]
    assert rows(spark.table("p")) == [(2, "b")]


def test_sessions_do_not_see_each_others_tables(connect):
    one, other = connect(), connect()
    one.sql("create temporary table same as select 1 a").collect()
    with pytest.raises(AnalysisException):
        other.sql("select * from same").collect()
    other.sql("create temporary table same as select 2 a").collect()
    one.stop()
    assert rows(other.table("same")) == [(2,)]


def test_an_interrupted_creation_leaves_nothing(lodge, spark, before, wait_until):
    spark.addTag("slow")
    failures = []

    def create():
        spark.addTag("slow")
        try:
            spark.sql("create temporary table slow as select count(*) from range(10000000000L)").collect()
        except PySparkException as error:
            failures.append(str(error))

    thread = threading.Thread(target=create)
    thread.start()
    wait_until(lambda: len(lodge.locations()) > len(before), "the creation has begun")
    interrupted = []
    wait_until(lambda: interrupted.extend(spark.interruptAll()) or interrupted, "there is something to interrupt")
    thread.join(30)
    assert not thread.is_alive()
    assert "OPERATION_CANCELED" in failures[0]
    assert list(the_location(lodge, spark, before).iterdir()) == []
    assert not spark.catalog.tableExists("slow")
    spark.sql("create temporary table slow as select 1 a").collect()


def test_references_to_columns_by_workspace_resolve(spark):
    spark.sql("create temporary table t as select 1 a, 2 b").collect()
    assert rows(spark.sql("select dfs.tmp.t.a from dfs.tmp.t where dfs.tmp.t.b = 2")) == [(1,)]
    assert rows(spark.sql("with t as (select 9 a) select a from dfs.tmp.t")) == [(1,)]
    assert rows(spark.sql("select 'dfs.tmp.t' -- dfs.tmp.t\n")) == [("dfs.tmp.t",)]
    assert spark.sql("select * from dfs.tmp.t").schema.names == ["a", "b"]
