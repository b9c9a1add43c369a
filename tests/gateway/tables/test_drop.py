"""``DROP TABLE`` [temporary-tables §4.3, §5.1.8]."""

import json
from contextlib import suppress

from pyspark.errors import AnalysisException


def test_drop_answers_ok_and_summary(client):
    for name in ("t", "dfs.tmp.t", "T", "session.t", "identifier('t')", "t purge"):
        client.run("create temporary table t as select 1 a")
        dropped = client.spark.sql(f"drop table {name}")
        assert dropped.columns == ["ok", "summary"]
        assert [tuple(row) for row in dropped.collect()] == [(True, "Temporary table [t] was dropped.")]
        assert client.tables() == client.files() == []
    assert client.state() == ((), (), [], [])


def test_drop_if_exists_reports_missing_table(client):
    for name in ("nothing", "dfs.tmp.nothing", "DFS.tmp.nothing"):
        assert client.rows(f"drop table if exists {name}") == [(False, "Table [nothing] was not found.")]
    client.run("create temporary table t as select 1 a")
    assert client.rows("drop table if exists t") == [(True, "Temporary table [t] was dropped.")]


def test_drop_temporary_table_is_a_syntax_error(client):
    client.run("create temporary table t as select 1 a")
    for word in ("temporary", "temp"):
        client.refuses(f"drop {word} table t", "PARSE_SYNTAX_ERROR", "42601", "without this word")


def test_drop_removes_temporary_table_before_permanent_one(writer):
    writer.run("create table x using parquet as select 7 a")
    writer.run("create temporary table x as select 1 a")
    assert writer.rows("drop table x") == [(True, "Temporary table [x] was dropped.")]
    assert writer.rows("select * from x") == [(7,)]
    assert writer.rows("drop table x") == []
    writer.refuses("drop table x", "TABLE_OR_VIEW_NOT_FOUND", "42P01", "Table [x] is not found.")


def test_drop_deletes_files_of_all_insertions(client):
    client.run("create temporary table keep as select 1 a")
    kept = client.files()
    client.run("create temporary table t as select 1 a")
    client.run("insert into t values (2)")
    client.run("insert overwrite t values (3)")
    client.run("insert into t values (4)")
    assert len(list(client.location.iterdir())) == 3
    client.run("drop table t")
    assert client.files() == kept


def test_drop_view_of_table_is_refused(client):
    client.run("create temporary table t as select 1 a")
    for name in ("t", "dfs.tmp.t"):
        client.refuses(f"drop view {name}", "EXPECT_VIEW_NOT_TABLE.NO_ALTERNATIVE", "42809", "[t] is not a VIEW")
        assert client.rows(f"drop view if exists {name}") == [(False, "View [t] not found in schema [dfs.tmp].")]
    assert client.rows("select * from t") == [(1,)]


def test_statements_that_change_the_name_are_refused(client):
    client.run("create temporary table t as select 1 a")
    operation = ("LODGE_TEMPORARY_TABLE_OPERATION", "0A000")
    for text in (
        "alter view t rename to u",
        "alter view dfs.tmp.t as select 2 a",
        "alter table T drop column a",
        "insert into t replace using (a) select 2",
    ):
        client.refuses(text, *operation, "Temporary table [t] does not support")
    assert client.rows("select * from t") == [(1,)]


def test_creation_drop_and_session_end_are_logged(lodge, connect, wait_until):
    before = set(lodge.locations())
    spark = connect()
    spark.sql("create temporary table logged as select 1 a")
    (location,) = set(lodge.locations()) - before
    spark.sql("drop table logged")
    spark.stop()
    expected = {
        "Temporary table [logged] is being created.",
        "Temporary table [logged] is being dropped.",
        f"Deleted session temporary location [{location}] from file system [file:///]",
    }

    def messages():
        lines = (json.loads(line) for line in lodge.log().splitlines() if line.startswith("{"))
        return {line.get("message") for line in lines}

    wait_until(lambda: expected <= messages(), "the log has the creation, the drop and the session end")


def test_drop_reaches_tables_and_views_that_spark_cannot_analyze(client):
    spark = client.spark
    client.run("create table base (a int, b int) using parquet")
    client.run("create or replace view lost as select a, b from base")
    client.run("create or replace temporary view local as select a from base")
    client.run("drop table base")
    for name in ("lost", "local"):
        with suppress(AnalysisException):  # Spark's own answer for a view
            client.run(f"drop table if exists {name}")
        client.run(f"drop view if exists {name}")
        assert not spark.catalog.tableExists(name), name
    client.run("drop table if exists missing")
    client.run("create temporary table local as select 1 a")
    assert client.rows("select * from local") == [(1,)]
