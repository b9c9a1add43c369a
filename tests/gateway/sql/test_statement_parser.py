"""The guarantees that hold for all statements that Lodge parses."""

import dataclasses
import re
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sql import statements
from gateway.sql.change_clauses import find_change_clauses
from gateway.sql.identifier_clauses import evaluate_identifier_clauses
from gateway.sql.lexer import Dialect, tokenize
from gateway.sql.name_syntax import parse_name
from gateway.sql.parameters import Parameters
from gateway.sql.statement_error import StatementError
from gateway.sql.statement_parser import extract_query, parse_statement
from tests.gateway.function_calls import count_calls


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("create temporary table t as select 1", statements.CreateTemporaryTable),
        ("create table a.t as select 1", statements.CreateTable),
        ("drop table t", statements.DropTable),
        ("drop view t", statements.DropView),
        ("insert into t select 1", statements.Insert),
        ("with q as (select 1) insert into t select 1", statements.Insert),
        ("from q insert into t select *", statements.Insert),
        ("truncate table t", statements.TruncateTable),
        ("show temporary tables", statements.ShowTemporaryTables),
        ("show tables in a.b", statements.ShowTables),
        ("show create table t", statements.ShowCreateTable),
        ("alter table t rename to u", statements.AlterRelation),
        ("create view v as select 1", statements.CreateView),
        ("explain create temp table t as select 1", statements.Explain),
        ("explain select 1", statements.ExplainSparkStatement),
        ("explain formatted insert into t select 1", statements.ExplainSparkStatement),
        ("explain create temporary view v as select 1", statements.ExplainSparkStatement),
        ("explain create temporary table t (a int)", statements.ExplainSparkStatement),
        ("merge into t using s on true when matched then delete", statements.MergeOrUpdate),
        ("update t set a = 1", statements.MergeOrUpdate),
        ("delete from t", statements.MergeOrUpdate),
        ("cache table t as select 1", statements.CacheTableAs),
    ],
)
def test_statement_with_comments_and_in_any_letter_case(sql: str, kind: type[statements.Statement]) -> None:
    for written in (
        sql,
        sql.upper(),
        sql.replace("i", "\u0131"),  # Java's upper case of it is I, and so Spark's
        sql.replace(" ", "\r\n"),
        sql.replace(" ", " /* a ' */ "),
        sql.replace(" ", " -- a '\n"),
        f"-- drop\n/* /* drop */ */\u00a0{sql} ;; -- c",
    ):
        assert isinstance(parse_statement(written), kind), written


@pytest.mark.parametrize(
    "sql",
    [
        "",
        ";",
        "select 1",
        "(select 1)",
        "values (1)",
        "table t",
        "with q as (select 1) select * from q",
        "with insert as (select 1) select * from insert",
        "with q as (select 'insert into t') select * from q",
        "with q as (select 1 insert) select insert into from q",
        "from q select insert",
        "from (select 1 insert) q select *",
        "created temp table t as select 1",
        "create temporary function f as 'x'",
        "create function f() returns int return 1",
        "create schema s",
        "create global temporary table t as select 1",
        "create temporary external table t (a int) using parquet",
        "create materialized view v as select 1",
        "create",
        "`create` temp table t as select 1",
        "'create' temp table t as select 1",
        "/* unfinished create temporary table t as select 1",
        "drop",
        "drop function f",
        "drop temporary function f",
        "drop temporary variable x",
        "drop table",
        "drop table if exists",
        "drop table t cascade",
        "drop table t; select 1",
        "drop table a, b",
        "drop table a.",
        "drop table 't'",
        "drop table :t",
        "drop table ``",
        "drop /*+ x */ table t",
        "drop view t purge",
        "truncate t",
        "alter schema s set location 'x'",
        "alter table",
        "explain",
        "show databases",
        "show tables",
        "show tables like 'x'",
        "show tables in a.b x",
        "show table extended in a.b like 'x'",
        "show create table",
        "show create table t as select",
        "cache table t",
        "cache table t options (a 'b')",
        "cache table t as with q as (select 1) insert into x select 1",
        "uncache table t",
        "execute immediate",
        "execute f",
        "update",
        "delete t",
        "merge t",
        "x: select 1",
        ": begin",
        "/**/" * 40 + "x",
    ],
)
def test_other_statements_are_for_spark(sql: str) -> None:
    """Guarantee 1."""
    assert parse_statement(sql) is None


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("t", ("t",)),
        ("A . /* c */ `b.c` . table", ("A", "b.c", "table")),
        ("`a``b`", ("a`b",)),
        ("été", ("été",)),
        ("if", ("if",)),
        ("table", ("table",)),
        ("identifier", ("identifier",)),
        ("identifier.x", ("identifier", "x")),
        ("identifier('a').b", ("a", "b")),
        ("a.identifier('b')", ("a", "b")),
        ("identifier('a.b').`c`", ("a", "b", "c")),
    ],
)
def test_name_has_parts_and_position(text: str, parts: tuple[str, ...]) -> None:
    statement = parse_statement(f"drop table {text} -- c")
    assert isinstance(statement, statements.DropTable)
    assert statement.name == statements.Name(parts, 11, 11 + len(text))


COMPUTED_NAMES: list[tuple[str, str, tuple[str, ...]]] = [
    ("identifier('a.t')", "'a.t'", ("a", "t")),
    ("IDENTIFIER ( /* c */ 'a' '.t' )", "'a' '.t'", ("a", "t")),
    ("identifier(r'a' \"b\")", "r'a' \"b\"", ("ab",)),
    ("identifier(:name)", ":name", ()),
    ("identifier(?)", "?", ()),
    ("identifier(concat('a', f(1)) || 't')", "concat('a', f(1)) || 't'", ()),
    ("identifier(:a).b", "identifier(:a).b", ()),
    ("a.identifier(:b)", "a.identifier(:b)", ()),
]
"""Names that Spark computes, with the text of the argument, and the parts that are known without parameters."""


@pytest.mark.parametrize(
    "written",
    [
        "drop table {}",
        "drop view if exists {}",
        "create temp table {} as select 1",
        "create temp table {} (a int)",
        "create table {} (a) as select 1",
        "create table {} using csv",
        "create temp view {} as select 1",
        "insert into {} select 1",
        "insert into {} (a, b) select 1",
        "truncate table {}",
        "alter table {} rename to x",
        "show create table {}",
        "cache table {} select 1",
        "merge into {} using s on true when matched then delete",
        "update {} set a = 1",
        "delete from {}",
    ],
)
def test_computed_name_has_its_argument(written: str) -> None:
    for text, argument, parts in COMPUTED_NAMES:
        sql = written.format(text)
        statement = parse_statement(sql)
        assert statement is not None, sql
        name = getattr(statement, "name", None)
        assert isinstance(name, statements.IdentifierClause), sql
        assert name.parts == ()
        assert sql[name.start : name.end] == text
        assert sql[name.argument_start : name.argument_end] == argument
        assert evaluate_identifier_clauses(sql, [name], Parameters.of_statement(sql)) == {name: parts}, sql


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a.`b c`", ("a", "b c")),
        (" t ", ("t",)),
        ("", None),
        ("a b", None),
        ("a.", None),
        ("a..b", None),
        ("'t'", None),
    ],
)
def test_text_is_parsed_as_a_name(text: str, parts: tuple[str, ...] | None) -> None:
    assert (parse_name(text) or None) == parts


def test_double_quotes_follow_the_dialect() -> None:
    statement = parse_statement('drop table "t"', Dialect(double_quoted_identifiers=True))
    assert isinstance(statement, statements.DropTable)
    assert statement.name.parts == ("t",)
    assert parse_name('"t"', Dialect(double_quoted_identifiers=True)) == ("t",)
    assert parse_statement('drop table "t"') is None


@pytest.mark.parametrize(
    ("sql", "alone"),
    [
        ("create temp table t\n  as -- c\r\n select 1 ; -- d\n", " " * 19 + "\n     -- c\r\n select 1"),
        ("create table a.t as select 1;", " " * 19 + " select 1"),
        ("create view v as(select 1)", " " * 16 + "(select 1)"),
        ("cache table v select 1", " " * 14 + "select 1"),
        ("cache table v as select 1", " " * 16 + " select 1"),
        ("insert into t (a)\nselect 1;", " " * 17 + "\nselect 1"),
        ("insert into t (select 1)", " " * 14 + "(select 1)"),
        ("-- c\nwith q as (select 1) insert into t\nselect * from q ;", None),
        ("explain formatted create temp table t as select 1", "explain formatted " + " " * 22 + " select 1"),
    ],
)
def test_extracted_query_keeps_its_position(sql: str, alone: str | None) -> None:
    statement = parse_statement(sql)
    assert isinstance(statement, statements.HasQuery)
    expected = "-- c\nwith q as (select 1)" + " " * 14 + "\nselect * from q" if alone is None else alone
    assert extract_query(sql, statement) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "create temp table t (a int)",
        "create table a.t (a int)",
        "create temp view v using csv",
        "insert into t with (k = 1) select 1",
    ],
)
def test_statement_without_query_has_none_to_extract(sql: str) -> None:
    statement = parse_statement(sql)
    assert isinstance(statement, statements.HasQuery)
    with pytest.raises(ValueError, match="has no query"):
        extract_query(sql, statement)


def test_statement_of_any_length_costs_the_same(measure_seconds: Callable[..., float]) -> None:
    """Guarantee 3."""
    tokenizing_seconds = measure_seconds(tokenize, "select " + "a + " * 25_000 + "b", 3)
    for start in (
        "select ",
        "(select ",
        "values ",
        "create table t as select ",
        "drop ",
        "/* c */ x ",
        "insert into t (a) select ",
        "create temp view v (a) as select ",
        "cache table v as select ",
        "update t set ",
        "create temp table t using csv as select ",
        "insert into identifier('t') select ",
    ):
        short, long = (start + "a + " * count + "b" for count in (2000, 25_000))
        assert count_calls(partial(parse_statement, long)) == count_calls(partial(parse_statement, short)), start
        assert measure_seconds(parse_statement, long, 50) * 100 < tokenizing_seconds, start


@pytest.mark.parametrize("begin", ["with q as (", "from t "])
def test_query_without_the_word_insert_is_not_tokenized(begin: str, measure_seconds: Callable[..., float]) -> None:
    """Guarantee 3: reading all tokens takes a thousand times as long."""
    without = begin + "a + " * 5_000 + "b"
    seconds = measure_seconds(parse_statement, without, 20)
    assert seconds * 10 < measure_seconds(parse_statement, without + " insert", 3)


ADVERSARIAL = [
    ("", "insert into t "),
    ("", "drop table identifier("),
    ("", "update identifier(x, "),
    ("", "create or replace temp "),
    ("", "execute immediate 'a' "),
    ("", "cache table t options ( "),
    ("", "identifier('a')."),
    ("with ", "q as (select 1), "),
    ("with q as (", "select ("),
    ("from t ", "insert into a select 1 "),
    ("from t ", "insert into identifier(a) "),
    ("create temp table t ", "using parquet "),
    ("create temp table t (", "a int, "),
    ("create temp table t (a int) options (", "path.x 1, "),
    ("create temp table t options (", "a 'b' "),
    ("create temp table ", "a."),
    ("create temp view v ", "(a) with "),
    ("insert into t ", "(a, "),
    ("insert into t (a", ", b"),
    ("drop table ", "identifier('a')."),
    ("drop table ", "identifier("),
    ("alter view ", ";"),
    ("explain create temp table t as ", "with q as (select 1) "),
    ("update ", "update set "),
]


@pytest.mark.slow
@pytest.mark.parametrize("parse", [parse_statement, find_change_clauses])
@pytest.mark.parametrize(("first", "piece"), ADVERSARIAL)
def test_time_is_linear(
    first: str, piece: str, parse: Callable[[str], object], assert_linear_time: Callable[..., None]
) -> None:
    """Guarantee 3."""
    for end in ("", " as select 1", ")"):
        small, large = (first + piece * (size // len(piece)) + end for size in (2_500, 20_000))
        assert_linear_time(parse, small, large)


WORDS = re.findall(
    r"\S+",
    """
    create or replace global temporary temp external table view if not exists like using partition partitioned by
    options comment tblproperties location clustered row format stored as select with recursive from values insert
    into overwrite directory local schema evolution name drop purge truncate show tables in alter rename to set
    explain formatted execute immediate begin merge update delete cache lazy identifier t a.b `a` parquet jdbc int
    ( ) ( ) , . ; : = 'a' r'b' 'it''s' "d" $$e$$ '\\UFFFFFFFF' 'path' 1 - true /* */ /*+ -- ' ` ? \xe9 identifier('a')
    identifier(:b)
    """,
)
BEGINNINGS = [
    "",
    "create temp table t ",
    "create temp table t (a int) ",
    "create table a.b ",
    "create temp view v ",
    "insert into t ",
    "with q as (select 1) ",
    "from t insert ",
    "execute immediate ",
    "show temp tables ",
    "explain create temp table t ",
    "cache table t ",
    "drop table ",
    "alter table ",
]
TEXTS = st.text(max_size=40) | st.builds(
    lambda begin, blank, words: begin + blank.join(words),
    st.sampled_from(BEGINNINGS),
    st.sampled_from([" ", "\n", ""]),
    st.lists(st.sampled_from(WORDS), max_size=20),
)


@given(TEXTS, st.builds(Dialect, st.booleans(), st.booleans()))
def test_spans_are_within_the_text(sql: str, dialect: Dialect) -> None:
    """Guarantee 4."""
    for clause in find_change_clauses(sql, dialect):
        assert_within(clause, sql)
    try:
        statement = parse_statement(sql, dialect)
    except StatementError as error:
        assert 1 <= error.position.line <= sql.count("\n") + 1
        assert 0 <= error.position.column <= len(sql)
        return
    if statement is None:
        return
    assert_within(statement, sql)
    if isinstance(statement, statements.HasQuery):
        try:
            alone = extract_query(sql, statement)
        except ValueError:
            return
        assert len(alone) <= len(sql)
        assert all(char in (sql[at], " ") for at, char in enumerate(alone))


def assert_within(value: object, sql: str) -> None:
    """Assert that offsets are within the text, and that no span is backwards."""
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(offset, int) for offset in value):
        assert 0 <= value[0] <= value[1] <= len(sql)
    elif isinstance(value, tuple):
        for item in value:
            assert_within(item, sql)
    elif isinstance(value, statements.Name | statements.IdentifierClause):
        assert 0 <= value.start < value.end <= len(sql)
        assert (
            isinstance(value, statements.Name) or value.start <= value.argument_start < value.argument_end <= value.end
        )
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            item = getattr(value, field.name)
            assert not isinstance(item, int) or 0 <= item <= len(sql)
            assert_within(item, sql)
