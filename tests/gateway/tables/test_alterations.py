"""Columns, comments, default values and properties that change."""

import pytest
from pyspark.sql.types import IntegerType

from tests.gateway.tables.held_statements import Running, held
from tests.gateway.tables.spark_pair import SparkPair
from tests.running.tiers import quick_first

STEPS = (
    "insert into {t} values (1, 'x'), (2, 'y')",
    "alter table {t} add columns (b int default 2 + 3 comment 'cb', c string)",
    "alter table {t} add column d timestamp default timestamp'2020-01-01 00:00:00.5'",
    "insert into {t} (a) values (3)",
    "alter table {t} alter column a comment 'ca'",
    "alter table {t} alter column c set default concat('d', 'd')",
    "insert into {t} (a, b) values (4, default)",
    "alter table {t} alter column c drop default",
    "insert into {t} (a) values (5)",
    "alter table {t} add column e char(3)",
    "insert into {t} (a, e) values (6, 'q')",
    "insert into {t} by name select a, e from {t} where a = 6",
    "alter table {t} change column b comment 'other'",
    "alter table {t} alter column a type int",
    "alter table {t} change e e char(3) comment 'ce'",
)


@pytest.mark.parametrize("storage", quick_first("parquet partitioned by (p)", "parquet", "orc", "json"))
def test_columns_change_as_in_a_table_of_spark(client, storage):
    pair = SparkPair(client)
    with pair.tables(f"(a int, p string) using {storage}"):
        for step in STEPS:
            assert pair.run(step) is None
            pair.compare(step)


@pytest.mark.parametrize(
    "action",
    [
        "add column A int",
        "add column x int default (select 1)",
        "add column x int default 'abc'",
        "change column nope comment 'x'",
        "alter column a set default 'abc'",
        "alter column a type bigint",
        "alter column nope type int",
        "change column b b varchar(3) comment 'x'",
    ],
)
def test_refused_alteration_has_the_condition_of_spark(client, action):
    pair = SparkPair(client)
    with pair.tables("(a int, b string) using parquet"):
        assert pair.run(f"alter table {{t}} {action}") is not None
        pair.compare()


def test_unsupported_alterations_leave_the_table(client):
    client.run("create temporary table t using csv as select 1 a")
    for action in (
        "add column b int",
        "drop column a",
        "rename column a to b",
        "alter column a first",
    ):
        client.refuses(f"alter table t {action}", "LODGE_TEMPORARY_TABLE_OPERATION", "0A000")
    client.run("create temporary table u (a int, p int) partitioned by (p)")
    client.refuses("alter table u add column b int not null", "LODGE_TEMPORARY_TABLE_OPERATION", "0A000")
    client.refuses("alter table u alter column p type int", "CANNOT_ALTER_PARTITION_COLUMN", "428FR")
    client.refuses("alter table u alter column p set default 1", "UNSUPPORTED_FEATURE.TABLE_OPERATION", "0A000")


def test_renamed_table_has_its_rows_under_the_new_name_only(client):
    client.run("create temporary table t (a int, p int) partitioned by (p)")
    client.run("insert into t values (1, 2)")
    client.run("alter table t rename to Other")
    client.refuses("select * from t", "TABLE_OR_VIEW_NOT_FOUND", "42P01")
    assert [*map(str.lower, client.tables())] == client.views() == ["other"]
    client.run("insert into other values (3, 4)")
    client.run("alter table dfs.tmp.other rename to dfs.tmp.`t u`")
    assert client.contents("`t u`", "dfs.tmp.`t u`") == [[(1, 2), (3, 4)]] * 2
    client.run("create temporary table other as select 5 a")
    client.run("delete from `t u` where a = 1")
    assert client.contents("other", "`t u`") == [[(5,)], [(3, 4)]]


def test_renaming_to_a_name_that_is_taken_is_refused(client):
    client.run("create temporary table t as select 1 a")
    client.run("create temporary table u as select 2 a")
    client.run("create temporary view v as select 3 a")
    try:
        for name in ("u", "U", "v", "dfs.tmp.u", "T"):
            client.refuses(f"alter table t rename to {name}", "TABLE_OR_VIEW_ALREADY_EXISTS", "42P07")
        client.refuses("alter table t rename to default.x", "LODGE_NOT_FILE_BASED", "42809")
        client.refuses("alter table t rename to dfs.x", "LODGE_NOT_TEMPORARY_WORKSPACE", "42602")
        client.refuses("alter table nope rename to x", "TABLE_OR_VIEW_NOT_FOUND", "42P01")
        assert client.contents("t", "u", "v") == [[(1,)], [(2,)], [(3,)]]
    finally:
        client.run("drop view v")


def test_running_insertion_follows_a_renamed_table(client, wait_until, tmp_path):
    client.run("create temporary table t as select 1 a")
    started, ended = tmp_path / "started", tmp_path / "ended"
    client.spark.udf.register("held", held(str(started), str(ended)), IntegerType())
    running = Running(client.spark, "insert into t select held(2)")
    wait_until(started.exists, "the insertion reads the rows")
    client.run("alter table t rename to u")
    ended.touch()
    assert running.join() == []
    assert client.views() == ["u"]
    assert client.contents("u") == [[(1,), (2,)]]


def test_properties_and_comments_are_kept_and_shown(client):
    client.run("create temporary table t (a int) comment 'about' tblproperties ('k' = 'v', x.y = 3)")
    assert client.rows("show tblproperties t") == [("k", "v"), ("x.y", "3")]
    client.run("alter table t set tblproperties ('k' = 'w', n = 'm')")
    client.run("alter table t unset tblproperties if exists (x.y, zz)")
    assert client.rows("show tblproperties dfs.tmp.t") == [("k", "w"), ("n", "m")]
    assert client.rows("show tblproperties t ('n')") == [("n", "m")]
    client.run("comment on table t is 'it''s'")
    (shown,) = client.rows("show create table t")
    assert "COMMENT 'it\\'s'" in shown[0]
    client.run("comment on table t is null")
    assert "COMMENT" not in client.rows("show create table t")[0][0]
    client.run("analyze table t compute statistics for all columns")
    refused = "alter table t set tblproperties ('k' = '" + "v" * 20000 + "')"
    client.refuses(refused, "LODGE_TABLE_OPTIONS", "42000")


def test_properties_that_may_be_secrets_are_redacted(client):
    hidden = "*********(redacted)"
    client.run("create temporary table t (a int) tblproperties ('password' = 'p', 'k' = 'my-token', 'n' = 'v')")
    assert client.rows("show tblproperties t") == [("k", hidden), ("n", "v"), ("password", hidden)]
    assert client.rows("show tblproperties t (password)") == [("password", hidden)]
    (shown,) = client.rows("show create table t")
    assert f"'password' = '{hidden}'" in shown[0]
    assert "my-token" not in shown[0]


def test_partitions_are_shown_as_by_spark(client):
    pair = SparkPair(client)
    with pair.tables("(a int, p string, q int) using parquet partitioned by (p, q)"):
        assert pair.run("insert into {t} values (1, 'a/b', 2), (2, null, 3), (3, 'x y', null)") is None
        assert client.rows("show partitions t") == client.rows("show partitions table_of_spark")
        client.run("insert overwrite t partition (p = 'x y', q) select 1, 1 where false")
        assert len(client.rows("show partitions t")) == 2
    client.run("create temporary table t (a int)")
    client.refuses("show partitions t", "INVALID_PARTITION_OPERATION.PARTITION_SCHEMA_IS_EMPTY", "42601")


DESCRIBED = (
    "(a int default 1 + 2 comment 'ca', c char(3), s string, p int comment 'cp', q string) using json "
    "options (compression 'gzip') partitioned by (p, q) comment 'about' tblproperties ('k' = 'v', password = 'x')",
    "(a int, s struct<x: int, y: varchar(3)>) using parquet",
)
OWN = ("Catalog", "Database", "Table", "Created Time", "Created By", "Type", "Location")
"""What differs between a temporary table and a table of Spark."""


@pytest.mark.parametrize("definition", DESCRIBED)
def test_description_is_that_of_a_table_of_spark(client, definition):
    pair = SparkPair(client)
    with pair.tables(definition):
        is_partitioned = "partitioned" in definition
        if is_partitioned:
            assert pair.run("insert into {t} values (1, 'x', 'y', 2, 'z')") is None
        for words in ("describe {}", "desc table {}", "describe extended {}", "desc formatted {}", "desc {} a"):
            found, expected = described(client, words)
            assert found == expected, words
        for words in ("describe {} partition (q = 'z', p = 2)", "desc extended {} partition (p = 2, q = 'z')"):
            if is_partitioned:
                found, expected = described(client, words)
                assert found == expected, words
        for rest in ("partition (p = 3, q = 'z')", "partition (p)", "nope") if is_partitioned else ("nope",):
            assert pair.run(f"describe {{t}} {rest}") is not None
        refused = (
            "INVALID_PARTITION_" + ("SPEC" if is_partitioned else "OPERATION.PARTITION_SCHEMA_IS_EMPTY"),
            "42601",
        )
        client.refuses("describe t partition (p = 2)", *refused)  # conditions of Spark have no names here


def described(client, words):
    """Return the descriptions of both tables, without what differs."""
    shown = (client.rows(words.format(name)) for name in ("t", "table_of_spark"))
    return [[row for row in rows if row[0] not in OWN] for rows in shown]
