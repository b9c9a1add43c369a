"""Statements that remove or change a table or view."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sql import statements
from gateway.sql.statement_error import Position, StatementError
from gateway.sql.statement_parser import parse_statement


@pytest.mark.parametrize(
    ("sql", "kind", "name", "if_exists"),
    [
        ("drop table t", statements.DropTable, ("t",), False),
        ("DROP TABLE IF EXISTS dfs.tmp.`T 1` PURGE ;; -- c", statements.DropTable, ("dfs", "tmp", "T 1"), True),
        ("/* c */ drop /* d */ table purge", statements.DropTable, ("purge",), False),
        ("drop table if", statements.DropTable, ("if",), False),
        ("drop view t", statements.DropView, ("t",), False),
        ("drop view if exists session.t", statements.DropView, ("session", "t"), True),
    ],
)
def test_drop(sql: str, kind: type, name: tuple[str, ...], if_exists: bool) -> None:
    """[temporary-tables §5.1.8]."""
    statement = parse_statement(sql)
    assert isinstance(statement, statements.DropTable | statements.DropView)
    assert isinstance(statement, kind)
    assert (statement.name.parts, statement.if_exists) == (name, if_exists)


@pytest.mark.parametrize("sql", ["drop\n temporary table t", "DROP\n TEMP TABLE IF EXISTS t"])
def test_drop_temporary_table_is_an_error(sql: str) -> None:
    with pytest.raises(StatementError, match=r"Syntax error at or near '(?i:temp)") as raised:
        parse_statement(sql)
    assert raised.value.position == Position(2, 1)


@pytest.mark.parametrize(
    ("sql", "partition"),
    [
        ("truncate table a.t", None),
        ("truncate table a.t partition (x = 1, `y z`)", (("x", "1"), ("y z", None))),
    ],
)
def test_truncate(sql: str, partition: statements.Partition | None) -> None:
    statement = parse_statement(sql)
    assert isinstance(statement, statements.TruncateTable)
    assert (statement.name.parts, statement.partition) == (("a", "t"), partition)


@pytest.mark.parametrize(
    "rest", ["if exists", ", u", "partition", "partition (x", "partition (x = 1) y", "partition (x = 1 + 1)"]
)
def test_malformed_truncate_is_for_spark(rest: str) -> None:
    assert parse_statement(f"truncate table a.t {rest}") is None


@pytest.mark.parametrize(
    ("sql", "kind", "action"),
    [
        ("alter table t rename to u", "TABLE", "RENAME TO"),
        ("alter view t rename to u", "VIEW", "RENAME TO"),
        ("alter table t rename column a to b", "TABLE", "RENAME COLUMN"),
        ("alter table t add columns (a int)", "TABLE", "ADD COLUMNS"),
        ("alter table t add if not exists partition (a = 1)", "TABLE", "ADD"),
        ("alter table t drop partition (a = 1)", "TABLE", "DROP PARTITION"),
        ("alter table t alter a type int", "TABLE", "ALTER"),
        ("alter table t set tblproperties (a 'b')", "TABLE", "SET TBLPROPERTIES"),
        ("alter table t partition (a = 1) set location 'x'", "TABLE", "PARTITION"),
        ("alter table t cluster by none", "TABLE", "CLUSTER BY"),
        ("alter view t as select 1", "VIEW", "AS"),
        ("alter view t select 1", "VIEW", "AS"),
        ("alter view t (select 1)", "VIEW", "AS"),
        ("alter view t with q as (select 1) table q", "VIEW", "AS"),
        ("alter view t with schema binding", "VIEW", "WITH SCHEMA"),
        ("alter view t", "VIEW", ""),
        ("alter view t 'x' to", "VIEW", ""),
    ],
)
def test_alter(sql: str, kind: str, action: str) -> None:
    statement = parse_statement(sql)
    assert isinstance(statement, statements.AlterRelation)
    assert (statement.kind, statement.name.parts, statement.action) == (statements.RelationKind(kind), ("t",), action)


def test_rename_has_the_new_name() -> None:
    renamed, altered = parse_statement("alter view t rename to a.b"), parse_statement("alter view t as select 1")
    assert isinstance(renamed, statements.AlterRelation)
    assert isinstance(altered, statements.AlterRelation)
    assert renamed.renamed_to is not None
    assert renamed.renamed_to.parts == ("a", "b")
    assert altered.renamed_to is None


@pytest.mark.parametrize(
    ("sql", "kind", "name"),
    [
        ("merge into a.t x using s on true when matched then delete", "MERGE INTO", ("a", "t")),
        ("merge with schema evolution into t using s on true when matched then delete", "MERGE INTO", ("t",)),
        ("update t x set a = 1", "UPDATE", ("t",)),
        ("update set set a = 1", "UPDATE", ("set",)),
        ("delete from t x where a", "DELETE FROM", ("t",)),
        ("delete from from", "DELETE FROM", ("from",)),
    ],
)
def test_merge_update_and_delete(sql: str, kind: str, name: tuple[str, ...]) -> None:
    statement = parse_statement(sql)
    assert isinstance(statement, statements.MergeOrUpdate)
    assert (statement.kind, statement.name.parts) == (statements.ModificationKind(kind), name)


@given(st.lists(st.text("aB_é`. '\"\n", min_size=1, max_size=6), min_size=1, max_size=3), st.booleans())
def test_every_quoted_name_can_be_dropped(parts: list[str], if_exists: bool) -> None:
    name = ".".join("`" + part.replace("`", "``") + "`" for part in parts)
    sql = f"drop table {'if exists ' * if_exists}{name};"
    statement = parse_statement(sql)
    assert isinstance(statement, statements.DropTable)
    assert (statement.name.parts, statement.if_exists) == (tuple(parts), if_exists)
    assert sql[statement.name.start : statement.name.end] == name
