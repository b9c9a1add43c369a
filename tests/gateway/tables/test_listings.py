"""``SHOW TEMPORARY TABLES``, ``SHOW TABLES IN`` and ``SHOW CREATE TABLE``."""

from datetime import UTC, datetime, timedelta

import pytest

COLUMNS = ["namespace", "tableName", "format", "rows", "bytes", "createdAt", "ageSeconds"]
ABSENT = ("SCHEMA_NOT_FOUND", "42704", "Schema [dfs.wk1] is not valid")


def test_show_temporary_tables_shows_rows_bytes_and_age(client):
    assert client.spark.sql("show temporary tables").columns == COLUMNS
    assert client.rows("show temporary tables") == []
    client.run("create temporary table t as select id from range(5)")
    client.run("create temporary table Other using json as select 1 a")
    client.run("insert into t values (9)")
    first, other = client.spark.sql("show temporary tables").collect()
    assert (first.namespace, first.tableName, first.format, first.rows) == ("dfs.tmp", "t", "parquet", 6)
    assert (other.tableName, other.format, other.rows) == ("Other", "json", 1)
    data = list(client.location.rglob("part-*.json"))
    assert other.bytes >= sum(path.stat().st_size for path in data) > 0
    assert 0 <= first.ageSeconds < 60
    created = client.spark.sql("show temporary tables").selectExpr("unix_seconds(createdAt) s").first().s
    assert abs(datetime.fromtimestamp(created, UTC) - datetime.now(UTC)) < timedelta(seconds=60)
    client.run("insert overwrite t values (9)")
    assert [row.rows for row in client.spark.sql("show temporary tables").collect()] == [1, 1]


@pytest.mark.slow
def test_show_temporary_tables_accepts_workspace_and_pattern(client):
    for name in ("a1", "a2", "B"):
        client.run(f"create temporary table {name} (x int)")
    for rest, expected in (
        ("", ["a1", "a2", "B"]),
        ("in dfs.tmp", ["a1", "a2", "B"]),
        ("from DFS.tmp like 'a*'", ["a1", "a2"]),
        ("like 'A1|b'", ["a1", "B"]),
        ("'*2'", ["a2"]),
        ("like 'zzz'", []),
        ("like 'a.'", []),
        ("in dfs", []),
    ):
        shown = client.spark.sql(f"show temporary tables {rest}").collect()
        assert [row.tableName for row in shown] == expected, rest


def test_show_tables_in_workspace_lists_temporary_and_permanent_tables(writer):
    writer.run("create temporary table t as select 1 a")
    writer.run("create table dfs.tmp.kept as select 1 a")
    shown = writer.spark.sql("show tables in dfs.tmp")
    assert shown.columns == ["namespace", "tableName", "isTemporary"]
    assert writer.rows("show tables in dfs.tmp") == [("dfs.tmp", "kept", False), ("dfs.tmp", "t", True)]
    assert writer.rows("show tables from DFS.TMP like 'T'") == [("dfs.tmp", "t", True)]
    writer.run("drop table dfs.tmp.kept")


def test_listing_of_absent_workspace_is_refused(client):
    client.refuses("show tables in dfs.wk1", *ABSENT)
    client.refuses("show temporary tables in dfs.wk1", *ABSENT)
    client.refuses("show temporary tables like", "PARSE_SYNTAX_ERROR", "42601", "a pattern between quotes")


def test_spark_listings_show_table_as_temporary_view(client):
    client.run("create temporary table t as select 1 a")
    assert ("", "t", True) in client.rows("show tables")
    assert "t" in [table.name for table in client.spark.catalog.listTables() if table.isTemporary]
    assert [column.name for column in client.spark.catalog.listColumns("t")] == ["a"]


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TEMPORARY TABLE dfs.tmp.`t` (\n  `a` INT)\nUSING parquet\n",
        "CREATE TEMPORARY TABLE dfs.tmp.`t` (\n"
        "  `A b` STRUCT<`x Y`: ARRAY<MAP<STRING, INT>>>,\n"
        "  `c` DECIMAL(10,2) COMMENT 'it\\'s a \\\\ \"c\"',\n"
        "  `v` VARIANT,\n"
        "  `i` INTERVAL DAY TO SECOND,\n"
        "  `s` STRING COLLATE UNICODE_CI,\n"
        "  `p``q` STRING)\n"
        "USING parquet\nPARTITIONED BY (`p``q`)\nOPTIONS ('compression' = 'gzip')\n",
    ],
)
def test_show_create_table_returns_statement_for_same_table(client, text):
    client.run(text)
    columns = client.rows("describe t")
    for name in ("t", "dfs.tmp.T", "session.t"):
        assert client.rows(f"show create table {name}") == [(text,)]
    client.run("drop table t")
    client.run(text)
    assert client.rows("show create table t") == [(text,)]
    assert client.rows("describe t") == columns
    client.refuses("show create table nowhere", "TABLE_OR_VIEW_NOT_FOUND", "42P01")
