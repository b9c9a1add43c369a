"""``UPDATE``, ``DELETE`` and ``MERGE INTO``."""

import pytest
from pyspark.sql.types import IntegerType

from tests.gateway.tables.held_statements import Running, held


@pytest.fixture
def table(client):
    client.run("create temporary table t (a int, b string default 'd', c bigint, s struct<x: int, y: string>)")
    client.run("insert into t select id, concat('b', id), id * 10, struct(id, 'y') from range(4)")
    return client


def contents(client):
    return client.sorted("select a, b, c, s.x from t")


def test_delete_removes_the_rows_for_which_the_condition_is_true(table):
    table.run("insert into t (a) values (null)")
    table.run("delete from t where a = 1")
    table.run("delete from dfs.tmp.T x where x.a in (select 2)")
    assert contents(table) == [(0, "b0", 0, 0), (3, "b3", 30, 3), (None, "d", None, None)]
    assert [each.rows for each in table.record().tables] == [3]
    table.run("delete from t")
    assert contents(table) == []


def test_update_sets_columns_members_and_defaults(table):
    table.run("update t set b = 'u', c = a + 1 where a = 1")
    table.run("update t as x set x.s.x = 77, b = default where x.a = 2")
    table.run("update t set c = (select max(id) from range(9)) where a in (select 3)")
    assert contents(table) == [(0, "b0", 0, 0), (1, "u", 2, 1), (2, "d", 20, 77), (3, "b3", 8, 3)]
    table.run("update t set s = null, c = -c")
    assert contents(table) == [(0, "b0", 0, None), (1, "u", -2, None), (2, "d", -20, None), (3, "b3", -8, None)]


def test_table_is_named_in_each_way(table):
    table.run("delete from dfs.tmp.t where dfs.tmp.t.a = 0")
    table.run("update identifier('t') set t.b = 'u' where t.a = 1")
    table.run("update session.t set T.c = 0 where A = 2")
    table.run(
        "merge into identifier(:name) using (select 3 k) s on t.a = s.k when matched then delete", args={"name": "t"}
    )
    assert contents(table) == [(1, "u", 10, 1), (2, "b2", 0, 2)]


def test_parameters_keep_their_values(table):
    table.run("update t set b = ?, c = ? where a = ? or a = ?", args=["?", 5, 1, 2])
    table.run("delete from t where b = :name", args={"name": "b3"})
    assert contents(table) == [(0, "b0", 0, 0), (1, "?", 5, 1), (2, "?", 5, 2)]


@pytest.mark.parametrize("escaped", ["true", "false"])
def test_names_and_texts_may_contain_quotes_and_backslashes(client, escaped):
    """The setting changes how Spark reads the string literals of the rewritten statement."""
    client.spark.conf.set("spark.sql.parser.escapedStringLiterals", escaped)
    try:
        client.run("create temporary table t (a int, `it's` struct<`q'`: int, `b\\`: int>, `c\\'` tinyint)")
        client.run("insert into t values (1, struct(2, 3), 4)")
        client.run("update t set `it's`.`q'` = 5")
        assert client.rows("select a, `it's`.*, `c\\'` from t") == [(1, 5, 3, 4)]
        client.refuses("update t set `c\\'` = 300 + a", "CAST_OVERFLOW_IN_TABLE_INSERT", "22003", "`c\\'`")
    finally:
        client.spark.conf.unset("spark.sql.parser.escapedStringLiterals")


def test_merge_updates_deletes_and_inserts(table):
    table.run(
        "merge into t using (select * from values (1, 'm'), (2, 'n'), (9, 'o') as v(k, v)) s on t.a = s.k "
        "when matched and s.v = 'm' then update set b = s.v when matched then delete "
        "when not matched then insert (a, b) values (s.k, s.v) "
        "when not matched by source and a = 0 then update set c = 7"
    )
    assert contents(table) == [(0, "b0", 7, 0), (1, "m", 10, 1), (3, "b3", 30, 3), (9, "o", None, None)]
    table.run("merge into t using t u on t.a = u.a + 1 when not matched then insert *")
    assert len(contents(table)) == 7


def test_row_of_table_must_not_match_several_rows_of_source(table):
    source = "(select * from values (1, 'm'), (1, 'n') as v(k, v)) s on t.a = s.k"
    table.refuses(
        f"merge into t using {source} when matched then update set b = v", "MERGE_CARDINALITY_VIOLATION", "23K01"
    )
    table.run(
        f"merge into t using {source} when matched then delete when not matched by source then update set b = 'x'"
    )
    assert contents(table) == [(0, "x", 0, 0), (2, "x", 20, 2), (3, "x", 30, 3)]


@pytest.mark.parametrize(
    ("statement", "condition", "sql_state"),
    [
        ("update t set nope = 1", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703"),
        ("update t set a = 1, a = 2", "DATATYPE_MISMATCH.INVALID_ROW_LEVEL_OPERATION_ASSIGNMENTS", "42K09"),
        ("update t set s.x = default", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703"),
        ("update t set s.x = 1, s = null", "DATATYPE_MISMATCH.INVALID_ROW_LEVEL_OPERATION_ASSIGNMENTS", "42K09"),
        ("update t set a = 'x'", "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST", "KD000"),
        ("update t set a = c + 99999999999", "CAST_OVERFLOW_IN_TABLE_INSERT", "22003"),
        ("update t set a = 1 / 0", "DIVIDE_BY_ZERO", "22012"),
        ("update t set a = 1 where", "PARSE_SYNTAX_ERROR", "42601"),
        ("delete from t where rand() > 0.5", "INVALID_NON_DETERMINISTIC_EXPRESSIONS", "42K0E"),
        ("delete from t where sum(a) > 1", "UNSUPPORTED_EXPR_FOR_OPERATOR", "42K0E"),
        ("merge into t using t s on t.a = s.a", "MERGE_WITHOUT_WHEN", "42601"),
        ("merge into t using t s on t.a = s.a when matched and a = 1 then delete", "AMBIGUOUS_REFERENCE", "42704"),
        (
            "merge into t using t s on t.a = s.a when matched and exists (select 1) then delete",
            "UNSUPPORTED_MERGE_CONDITION.SUBQUERY",
            "42K0E",
        ),
    ],
)
def test_refused_statement_changes_nothing(table, statement, condition, sql_state):
    table.refuses(statement, condition, sql_state)


def test_positions_are_those_of_the_statement(table):
    table.refuses("update t set a = nope", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703", "line 1 pos 17")


def test_only_partitions_with_changed_rows_are_rewritten(client):
    client.run("create temporary table t partition by (p) as select id a, id % 3 p from range(9)")
    client.run("update t set a = -a where a = 4")
    client.run("delete from t where a = 5")
    client.run("delete from t where a = 1000")
    assert client.sorted("select * from t") == [(-4, 1), (0, 0), (1, 1), (2, 2), (3, 0), (6, 0), (7, 1), (8, 2)]
    (table,) = client.record().tables
    assert (table.rows, [each.partitions for each in table.replacements]) == (8, [("p=1",), ("p=2",)])
    client.run("update t set p = 7 where a = 0")
    assert client.sorted("select a from t where p = 7") == [(0,)]
    assert len(client.record().tables[0].parts) == 1


OVERTAKING = (("insert overwrite t values (7)", [(7,)]), ("insert into t values (9)", [(-7,), (9,)]))


def test_statement_that_another_one_overtakes_changes_nothing(client, wait_until, tmp_path):
    client.run("create temporary table t as select cast(id as int) a from range(0, 4, 1, 1)")
    for number, (overtaking, expected) in enumerate(OVERTAKING):
        started, ended = tmp_path / f"started-{number}", tmp_path / f"ended-{number}"
        client.spark.udf.register("held", held(str(started), str(ended)), IntegerType())
        running = Running(client.spark, "update t set a = -held(a)")
        wait_until(started.exists, "the update reads the rows")
        client.run(overtaking)
        ended.touch()
        failed = running.join()
        assert (failed != []) == ("overwrite" in overtaking), failed
        assert not failed or failed.getCondition() == "LODGE_TABLE_CHANGED"
        assert client.sorted("select * from t") == expected
        wait_until(lambda: directories(client) == set(client.record().tables[0].parts), "there are no leftovers")


def directories(client):
    return {file.split("/")[0] for file in client.files()}
