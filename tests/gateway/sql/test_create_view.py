"""Statements that make a view."""

import pytest

from gateway.sql.statement_parser import parse_statement
from gateway.sql.statements import CacheTableAs, CreateView


@pytest.mark.parametrize(
    ("sql", "is_temporary", "is_global", "or_replace", "if_not_exists"),
    [
        ("create view v as select 1", False, False, False, False),
        ("create or replace view v as select 1", False, False, True, False),
        ("create view if not exists v as select 1", False, False, False, True),
        ("create temp view v as select 1", True, False, False, False),
        ("create or replace temporary view v as select 1", True, False, True, False),
        ("create global temp view v as select 1", True, True, False, False),
        ("create or replace global temporary view v as select 1", True, True, True, False),
    ],
)
def test_view_has_kind_and_flags(
    sql: str, is_temporary: bool, is_global: bool, or_replace: bool, if_not_exists: bool
) -> None:
    statement = parse_statement(sql)
    assert isinstance(statement, CreateView)
    assert statement.name.parts == ("v",)
    assert (statement.is_temporary, statement.is_global) == (is_temporary, is_global)
    assert (statement.or_replace, statement.if_not_exists) == (or_replace, if_not_exists)


@pytest.mark.parametrize(
    "clauses",
    [
        "",
        "comment 'as select 2' ",
        "(a comment 'as', `as`) ",
        "tblproperties (as = 'as', b) ",
        "with schema type evolution ",
        "partitioned on (as) ",
        "default collation utf8_lcase ",
        "/* as select 2 */ -- as select 2\n",
    ],
)
@pytest.mark.parametrize(
    "query", ["select 1 as x", "(select 1)", "values (1)", "with q as (select 1) table q", "from x"]
)
def test_query_of_view_begins_after_its_own_as(clauses: str, query: str) -> None:
    sql = f"create temp view as {clauses}as {query}"
    statement = parse_statement(f"{sql} ;")
    assert isinstance(statement, CreateView)
    assert statement.query_span is not None
    assert sql[slice(*statement.query_span)] == f" {query}"


@pytest.mark.parametrize(
    "sql",
    [
        "create temp view v using csv options (path 'x')",
        "create temp view v (a int) using as",
        "create view v with metrics language yaml as $$ a $$",
        "create temp view v as",
        "create temp view v as drop table t",
        "create temp view v as with q as (select 1) insert into t select 1",
        "create temp view v as from q insert into t select 1",
        "create temp view v (a as select 1",
        "create temp view v",
    ],
)
def test_view_without_query(sql: str) -> None:
    statement = parse_statement(sql)
    assert isinstance(statement, CreateView)
    assert statement.query_span is None


@pytest.mark.parametrize("sql", ["create view 'v' as select 1", "create global view v as select 1", "create view"])
def test_malformed_view_is_for_spark(sql: str) -> None:
    assert parse_statement(sql) is None


@pytest.mark.parametrize(
    ("sql", "query"),
    [
        ("cache table v as select 1;", " select 1"),
        ("cache lazy table v options ('storageLevel' 'DISK_ONLY') as table x", " table x"),
        ("cache table v options (a 'b') from x select *", "from x select *"),
        ("cache table v (select 1)", "(select 1)"),
    ],
)
def test_cache_table_of_query(sql: str, query: str) -> None:
    statement = parse_statement(sql)
    assert isinstance(statement, CacheTableAs)
    assert statement.name.parts == ("v",)
    assert sql[slice(*statement.query_span)] == query
