"""``INSERT`` and its query."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sql.insert import may_have_defaults
from gateway.sql.lexer import TokenKind, tokenize
from gateway.sql.statement_parser import extract_query, parse_statement
from gateway.sql.statements import Insert, MultiInsert


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
        ("insert into t with (k = 1) select 1", "WITH (...)"),
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
        ("from x insert into t values (1)", "VALUES"),
    ],
)
def test_unsupported_clause_is_named(sql: str, unsupported: str) -> None:
    statement = parse(sql)
    assert statement.name.parts == ("t",)
    assert statement.unsupported == unsupported


def test_each_of_several_inserts_has_its_own_query() -> None:
    clauses = (
        "insert into a select 1 ",
        "insert overwrite table b.c partition (p = 1) select 2 where y ",
        "insert into d select 3",
    )
    sql = f"with q as (select 0) from q {''.join(clauses)}"
    statement = parse_statement(sql)
    assert isinstance(statement, MultiInsert)
    assert [each.name.parts for each in statement.inserts] == [("a",), ("b", "c"), ("d",)]
    assert [each.overwrite for each in statement.inserts] == [False, True, False]
    assert statement.inserts[1].partition == (("p", "1"),)
    queries = [" ".join(extract_query(sql, each).split()) for each in statement.inserts]
    first = "with q as (select 0) from q"
    assert queries == [f"{first} select 1", f"{first} select 2 where y", f"{first} select 3"]


@pytest.mark.parametrize(
    ("clause", "condition", "query"),
    [
        ("replace where a = 1 select 1", "a = 1", "select 1"),
        ("by name replace where a in (select 1) and b (select 1)", "a in (select 1) and b", "(select 1)"),
        ("(a) replace where (a = 1) values (1)", "(a = 1)", "values (1)"),
        ("replace where a is distinct from 1 from x select 1", "a is distinct from 1", "from x select 1"),
        ("replace where map(1, 2)[1] = 3 table x", "map(1, 2)[1] = 3", "table x"),
        ("replace where case when a then b else (select 2) end with x as (select 1) table x", None, None),
        ("replace where not exists (select 1) values (1)", "not exists (select 1)", "values (1)"),
    ],
)
def test_condition_of_replace_where_ends_before_the_query(
    clause: str, condition: str | None, query: str | None
) -> None:
    sql = f"insert into t {clause}"
    statement = parse(sql)
    assert statement.unsupported is None
    assert statement.replace_where is not None
    if condition is not None:
        assert sql[slice(*statement.replace_where)] == condition
        assert sql[statement.clause_span[1] :] == query
    assert "replace" not in sql[slice(*statement.columns_span)]


def test_if_not_exists_is_not_part_of_the_columns() -> None:
    statement = parse("insert overwrite t partition (a = 1) if not exists select 1")
    assert statement.if_not_exists is not None
    assert statement.columns_span == (18, 37)


@pytest.mark.parametrize(
    "sql",
    [
        "insert overwrite directory 'x' using csv select 1",
        "insert overwrite directory using csv options (path 'x') select 1",
        "insert overwrite local directory 'x' select 1",
        "from x insert overwrite directory 'x' select 1",
        "from x insert into t select 1 insert overwrite directory 'x' select 1",
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
