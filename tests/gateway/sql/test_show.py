"""Statements that list tables and sessions, and the statement that closes a session."""

import pytest

from gateway.sql.statement_error import Position, StatementError
from gateway.sql.statement_parser import parse_statement
from gateway.sql.statements import CloseSession, ShowCreateTable, ShowSessions, ShowTables, ShowTemporaryTables


@pytest.mark.parametrize(
    ("clauses", "namespace", "pattern"),
    [
        ("", None, None),
        ("from dfs.tmp", ("dfs", "tmp"), None),
        ("IN `a b`", ("a b",), None),
        ("like 'x*|y'", None, "x*|y"),
        ("'x' \"y\"", None, "xy"),
        ("in a.b r'\\'", ("a", "b"), "\\"),
        ("in a.b like 'it''s' ; -- c", ("a", "b"), "it's"),
        ("from like like 'x'", ("like",), "x"),
    ],
)
@pytest.mark.parametrize("word", ["temporary", "TEMP"])
def test_show_temporary_tables(word: str, clauses: str, namespace: tuple[str, ...] | None, pattern: str | None) -> None:
    statement = parse_statement(f"show {word} tables {clauses}")
    assert isinstance(statement, ShowTemporaryTables)
    assert (None if statement.namespace is None else statement.namespace.parts) == namespace
    assert statement.pattern == pattern


@pytest.mark.parametrize(
    ("clauses", "column", "expected"),
    [
        ("x", 22, "near 'x'"),
        ("in", 24, "a name"),
        ("like", 26, "a pattern"),
        ("like x", 27, "x"),
        ("'a' in b", 26, "in"),
    ],
)
def test_malformed_show_temporary_tables_is_an_error(clauses: str, column: int, expected: str) -> None:
    with pytest.raises(StatementError, match="in SHOW TEMPORARY TABLES") as raised:
        parse_statement(f"show temporary tables {clauses}")
    assert expected in raised.value.message
    assert raised.value.position == Position(1, column)


@pytest.mark.parametrize(
    ("clauses", "namespace", "pattern"),
    [
        ("from dfs.tmp", ("dfs", "tmp"), None),
        ("in dfs.tmp 'x*'", ("dfs", "tmp"), "x*"),
        ("in a.b.c like 'x';", ("a", "b", "c"), "x"),
        ("in identifier('a.b') like 'x'", (), "x"),
    ],
)
def test_show_tables_of_a_namespace(clauses: str, namespace: tuple[str, ...], pattern: str | None) -> None:
    statement = parse_statement(f"show tables {clauses}")
    assert isinstance(statement, ShowTables)
    assert (statement.namespace.parts, statement.pattern) == (namespace, pattern)


def test_show_create_table() -> None:
    plain, as_serde = parse_statement("show create table a.t"), parse_statement("show create table a.t as serde;")
    assert isinstance(plain, ShowCreateTable)
    assert isinstance(as_serde, ShowCreateTable)
    assert plain.name.parts == as_serde.name.parts == ("a", "t")
    assert (plain.as_serde, as_serde.as_serde) == (False, True)


@pytest.mark.parametrize("sql", ["show sessions", "SHOW /* x */ SESSIONS ;", "Show\nSessions -- c"])
def test_show_sessions(sql: str) -> None:
    assert parse_statement(sql) == ShowSessions()


@pytest.mark.parametrize(
    "sql", ["close session 'a-b'", 'CLOSE SESSION "a-b";', "close session r'a-b' -- c", "close session 'a' '-b'"]
)
def test_close_session(sql: str) -> None:
    assert parse_statement(sql) == CloseSession(session_id="a-b")


@pytest.mark.parametrize(
    "sql", ["close session x", "close session 'a' now", "close session 1", "close session 'a', 'b'"]
)
def test_malformed_close_session_is_refused(sql: str) -> None:
    with pytest.raises(StatementError, match="the id of a session between quotes"):
        parse_statement(sql)


@pytest.mark.parametrize(
    "sql", ["show sessions now", "show sessions like 'x'", "close c", "close session", "close", "close 'a'"]
)
def test_cursors_and_other_lists_are_left_to_spark(sql: str) -> None:
    assert parse_statement(sql) is None
