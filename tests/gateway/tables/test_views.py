"""Views over temporary tables [temporary-tables §5.1.12, §5.14]."""

import pytest
from pyspark.errors import PySparkException

USED = (
    "LODGE_TEMPORARY_TABLE_USED",
    "42K0F",
    "Temporary tables usage is disallowed. Used temporary table name: [my_temp].",
)


@pytest.fixture(autouse=True)
def my_temp(client):
    client.run("create temporary table my_temp as select 1 a, 2 b")


@pytest.mark.slow
def test_lasting_view_over_table_is_refused(client):
    for query in (
        "select * from my_temp",
        "select * from dfs.tmp.MY_TEMP",
        "select 1 from range(1) where exists (select a from my_temp)",
        "with q as (select a from my_temp) select (select max(a) from q) m",
        "select * from range(3) where id in (select a from (select a from my_temp union select 2))",
    ):
        for kind in ("view", "or replace view", "view if not exists", "global temporary view"):
            client.refuses(f"create {kind} lasting as {query}", *USED)
        client.refuses(
            lambda query=query: client.spark.sql(query).createOrReplaceGlobalTempView("lasting"),
            *USED,
        )
    client.refuses("select * from global_temp.lasting", "TABLE_OR_VIEW_NOT_FOUND", "42P01")


def test_lasting_view_over_view_of_table_is_refused(client):
    client.run("create temporary view between as select a from my_temp")
    client.refuses("create global temporary view lasting as select * from between", *USED)
    client.refuses(lambda: client.spark.table("between").createGlobalTempView("lasting"), *USED)
    with pytest.raises(PySparkException):
        client.spark.sql("create view lasting as select * from between").collect()
    client.run("drop view between")


def test_permanent_function_over_table_is_refused(client):
    client.refuses(
        "create function lasting() returns int return select max(a) from my_temp", "INVALID_TEMP_OBJ_REFERENCE", "42K0F"
    )


def test_temporary_view_over_table_is_allowed(client):
    client.run("create temporary view own as select a from dfs.tmp.my_temp where b = 2")
    client.spark.table("my_temp").createOrReplaceTempView("own_too")
    assert client.rows("select * from own join own_too using (a)") == [(1, 2)]
    client.run("insert into my_temp values (3, 2)")
    assert client.sorted("select * from own") == [(1,), (3,)]
    client.run("drop table my_temp")
    with pytest.raises(PySparkException):
        client.rows("select * from own")
    client.run("drop view own")
    client.run("drop view own_too")


def test_view_cannot_take_name_of_table(client):
    exists = ("TABLE_OR_VIEW_ALREADY_EXISTS", "42P07", "already exists in schema [dfs.tmp].")
    frame = client.spark.range(1)
    for text in (
        "create temporary view my_temp as select 2 a",
        "create or replace temporary view MY_TEMP as select 2 a",
        "create temporary view session.my_temp as select 2 a",
        "create view dfs.tmp.my_temp as select 2 a",
        "cache table my_temp as select 2 a",
    ):
        client.refuses(text, *exists)
    client.refuses(lambda: frame.createOrReplaceTempView("My_Temp"), *exists)
    client.refuses(lambda: frame.createTempView("my_temp"), *exists)
    assert client.rows("select * from my_temp") == [(1, 2)]


def test_view_in_workspace_is_refused(client):
    client.refuses("create view dfs.tmp.v as select 1 a", "LODGE_VIEW_IN_WORKSPACE", "0A000", "[dfs.tmp]")
    client.refuses("create view dfs.v as select 1 a", "LODGE_VIEW_IN_WORKSPACE", "0A000", "[dfs]")
    client.refuses("create view dfs.nope.v as select 1 a", "SCHEMA_NOT_FOUND", "42704", "Schema [dfs.nope]")


def test_spark_view_does_not_read_temporary_table_of_same_name(client):
    client.run("create table base using parquet as select 7 a")
    client.run("create view over_base as select a from base")
    client.run("create temporary view own_over_base as select a from base")
    try:
        client.run("create temporary table base as select 1 a")
        assert client.rows("select * from over_base") == [(7,)]
        assert client.rows("select * from own_over_base") == [(7,)]
        client.run("drop table default.base")
        for view in ("over_base", "own_over_base"):
            client.refuses(f"select * from {view}", "TABLE_OR_VIEW_NOT_FOUND", "42P01")
    finally:
        client.run("drop view own_over_base")
        client.run("drop view default.over_base")
        client.run("drop table if exists default.base")


def test_spark_schema_can_contain_view_of_same_name(client):
    client.run("create view default.my_temp as select 9 a")
    try:
        assert client.rows("select a from my_temp") == [(1,)]
        assert client.rows("select a from default.my_temp") == [(9,)]
        client.refuses("drop view my_temp", "EXPECT_VIEW_NOT_TABLE.NO_ALTERNATIVE", "42809")
    finally:
        client.run("drop view default.my_temp")


def test_view_with_truncated_plan_is_refused(client):
    """A setting that truncates plans must not open the table to other sessions."""
    spark = client.spark
    spark.conf.set("spark.sql.maxPlanStringLength", "10")
    try:
        for _ in range(2):
            with pytest.raises(PySparkException, match=r"LODGE_TEMPORARY_TABLE_USED|LODGE_VIEW_NOT_CHECKED"):
                spark.table("my_temp").createOrReplaceGlobalTempView("leak")
            spark.sql("cache table my_temp")
    finally:
        spark.sql("uncache table if exists my_temp")
        spark.conf.unset("spark.sql.maxPlanStringLength")
    client.refuses("select * from global_temp.leak", "TABLE_OR_VIEW_NOT_FOUND", "42P01")
