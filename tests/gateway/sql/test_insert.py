"""``INSERT`` and its query."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sql.insert import may_have_defaults
from gateway.sql.lexer import TokenKind, tokenize
from gateway.sql.statement_parser import extract_query, parse_statement
from gateway.sql.statements import Insert


def parse(sql: str) -> Insert:
    statement = parse_statement(sql)
    assert isinstance(statement, Insert), sql
    return statement


@pytest.mark.parametrize(
    ("sql", "clause", "name", "columns"),
    [
        ("insert into t select 1", "insert into t ", "t", ""),
        ("insert into table a.t values (1), (2)", "insert into table a.t ", "a.t", ""),
        ("insert into t table x", "insert into t ", "t", ""),
        ("insert into t from x select *", "insert into t ", "t", ""),
        ("insert into t(select 1)", "insert into t", "t", ""),
        ("insert into t ((select 1) union (select 2))", "insert into t ", "t", ""),
        ("insert into t (table x)", "insert into t ", "t", ""),
        ("insert into t (values (1))", "insert into t ", "t", ""),
        ("insert into t (a, `b c`) select 1, 2", "insert into t (a, `b c`) ", "t", "(a, `b c`)"),
        ("insert into t (a)(select 1)", "insert into t (a)", "t", "(a)"),
        ("insert into t (select) table x", "insert into t (select) ", "t", "(select)"),
        ("insert into t with q as (select 1) select * from q", "insert into t ", "t", ""),
        ("insert into table values (1)", "insert into table ", "table", ""),
        ("insert into table select 1", "insert into table ", "table", ""),
        ("insert into table table x", "insert into table ", "table", ""),
        ("insert into table table select 1", "insert into table table ", "table", ""),
        ("insert overwrite directory select 1", "insert overwrite directory ", "directory", ""),
        ("insert overwrite local (a) select 1", "insert overwrite local (a) ", "local", "(a)"),
        ("with q as (select 1) insert into t select * from q", "insert into t ", "t", ""),
        ("with q (select 1), r(a) as (select 1) insert into t from q select *", "insert into t ", "t", ""),
        ("with recursive q(a) max recursion level 5 as (select 1) insert into t table q", "insert into t ", "t", ""),
        ("with identifier('q') (select 1) insert into t table q", "insert into t ", "t", ""),
    ],
)
def test_clause_and_query_are_separated(sql: str, clause: str, name: str, columns: str) -> None:
    """Guarantee 1, for statements that Spark 4.3 parses in the same way."""
    statement = parse(f"{sql} ; -- c")
    assert sql[slice(*statement.clause_span)] == clause
    assert ".".join(statement.name.parts) == name
    assert sql[slice(*statement.columns_span)].strip() == columns
    assert statement.unsupported is None
    assert statement.overwrite == ("overwrite" in sql)
    assert statement.end == len(sql)
    assert extract_query(sql, statement) == sql.replace(clause, " " * len(clause))


def test_by_name() -> None:
    statement = parse("insert into t by name select 1 a")
    assert statement.columns_span == (13, 22)
    assert statement.unsupported is None


@pytest.mark.parametrize(
    ("sql", "unsupported"),
    [
        ("insert into t partition (a = b) select 1", "PARTITION"),
        ("insert overwrite t partition (a) if not exists select 1", "IF NOT EXISTS"),
        ("insert into t if not exists select 1", "IF NOT EXISTS"),
        ("insert into t with (k = 1) select 1", "WITH (...)"),
        ("insert into t replace where a = 1 select 1", "REPLACE WHERE"),
        ("insert into t replace using (a) select 1", "REPLACE USING"),
        ("insert into t replace on a = 1 select 1", "REPLACE ON"),
        ("insert into t as x replace on a = 1 select 1", "AS"),
        ("insert into t x replace on a = 1 select 1", "X"),
        ("insert into t `x` replace on a = 1 select 1", "no query"),
        ("insert with schema evolution into t select 1", "WITH SCHEMA EVOLUTION"),
        ("insert into t by name", "no query"),
        ("insert into t set a = 1", "SET"),
        ("insert into t with q as (select 1) insert into x select 1", "INSERT"),
        ("insert into t from q insert into x select 1", "INSERT"),
        ("with q as (select 1) insert into t with r as (select 1) select 1", "WITH ... INSERT ... WITH"),
        ("from x insert into t select *", "FROM ... INSERT"),
        ("with q as (select 1) from q insert overwrite t select *", "FROM ... INSERT"),
    ],
)
def test_unsupported_clause_is_named(sql: str, unsupported: str) -> None:
    statement = parse(sql)
    assert statement.name.parts == ("t",)
    assert statement.unsupported == unsupported


def test_multiple_inserts_have_all_names() -> None:
    sql = "from (select 1) x insert into a select * insert overwrite table b.c select * where y insert into d select *"
    statement = parse(sql)
    assert [statement.name.parts, *(name.parts for name in statement.other_names)] == [("a",), ("b", "c"), ("d",)]
    assert sql[slice(*statement.clause_span)] == "insert into a"


@pytest.mark.parametrize(
    "sql",
    [
        "insert overwrite directory 'x' using csv select 1",
        "insert overwrite directory using csv options (path 'x') select 1",
        "insert overwrite local directory 'x' select 1",
        "from x insert overwrite directory 'x' select 1",
        "insert into t",
        "insert into 't' select 1",
        "insert t select 1",
        "with q as (select 1) select insert from q",
        "with q as (select 1) , insert into t select 1",
        "with q as (select 1",
    ],
)
def test_insert_without_table_is_for_spark(sql: str) -> None:
    """Guarantee 2."""
    assert parse_statement(sql) is None


@given(
    st.lists(
        st.sampled_from([";", " ", "\n", "\r", "\\", "--", "/*", "*/", "'", "x", "\u2028", "\u0085", "/*+"]),
        max_size=12,
    )
)
def test_end_is_after_the_last_token(pieces: list[str]) -> None:
    """An unfinished string, name or comment has no end."""
    sql = "insert into t select " + "".join(pieces)
    found = [token for token in tokenize(sql) if not token.is_symbol(";")]
    assert parse(sql).end == found[-1].end or found[-1].kind is TokenKind.UNKNOWN


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("(a = 1)", (("a", "1"),)),
        ("(a = -1.5, `b c`)", (("a", "-1.5"), ("b c", None))),
        ("(a = 'x;', b = null, c = date '2020-01-01', d = X'FF')", None),
        ("(a)", (("a", None),)),
        ("(a = 1 + 1)", ()),
        ("(a = f(1))", ()),
        ("(a = a)", ()),
        ("(a = :p, b = ?)", (("a", ":p"), ("b", "?"))),
        ("(a = interval 1 day, b = default)", (("a", "interval 1 day"), ("b", "default"))),
        ("(a = 1", ()),
        ("()", ()),
    ],
)
def test_partition_clause_has_constants(clause, expected):
    statement = parse_statement(f"insert into t partition {clause} select 1")
    if expected is None:
        expected = (("a", "'x;'"), ("b", "null"), ("c", "date '2020-01-01'"), ("d", "X'FF'"))
    assert statement.partition == expected
    assert (statement.unsupported is None) == bool(expected)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("values (1, default)", True),
        ("select 1, DEFAULT from x", True),
        ("select 1 from default.x", False),
        ("select x.default from x", False),
        ("select 'default', `default`", False),
    ],
)
def test_defaults_are_found(query, expected):
    sql = f"insert into t (a, default) {query}"
    assert may_have_defaults(sql, parse(sql).columns_span[1]) == expected
