"""Which statements Lodge answers itself."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sql.statements import CreateTemporaryTable, DropTable, Position, StatementError, query_only, recognise


def created(sql: str, **settings: bool) -> CreateTemporaryTable:
    statement = recognise(sql, **settings)
    assert isinstance(statement, CreateTemporaryTable), sql
    return statement


def dropped(sql: str) -> DropTable:
    statement = recognise(sql)
    assert isinstance(statement, DropTable), sql
    return statement


@pytest.mark.parametrize(
    ("sql", "expected", "query"),
    [
        ("create temporary table t as select 1", (("t",), None, None, ()), "select 1"),
        ("CREATE TEMP TABLE dfs.tmp.`a b` AS (SELECT 1)", (("dfs", "tmp", "a b"), None, None, ()), "(SELECT 1)"),
        ("create temp table t (a, `b c`) as values (1, 2);", (("t",), ("a", "b c"), None, ()), "values (1, 2)"),
        ("create temp table t using csv as table x", (("t",), None, "csv", ()), "table x"),
        ("create temp table t using a.b partition by (c) as from x", (("t",), None, "a.b", ("c",)), "from x"),
        (
            "create temp table t(a,b)partitioned by(a,b)as(select 1)",
            (("t",), ("a", "b"), None, ("a", "b")),
            "(select 1)",
        ),
        ("-- c\n/* /* d */ */ create temp table t as select 1 as x -- e", (("t",), None, None, ()), "select 1 as x"),
        (
            "create temp table t as with q as (select 1) select * from q ; ; /* e */",
            (("t",), None, None, ()),
            "with q as (select 1) select * from q",
        ),
        ("create temp table `as` as select 1", (("as",), None, None, ()), "select 1"),
        ("create temp table if as select 1", (("if",), None, None, ()), "select 1"),
        ("create temp table t as select 1; select 2", (("t",), None, None, ()), "select 1; select 2"),
        ("create temp table t as select 'unfinished", (("t",), None, None, ()), "select 'unfinished"),
    ],
)
def test_create_temporary_table_is_recognised(sql: str, expected: tuple[object, ...], query: str) -> None:
    """Seed 001, 5.1.1. Expected are name, columns, storage format and partition columns."""
    statement = created(sql)
    fields = (statement.name, statement.columns, statement.storage_format, statement.partition_columns)
    assert fields == expected
    assert not statement.if_not_exists
    assert sql[statement.query_start : statement.query_end].lstrip() == query


def test_if_not_exists_is_told() -> None:
    statement = created("create temp table if not exists t as select 1")
    assert statement.if_not_exists
    assert statement.name == ("t",)


def test_the_span_of_a_name_holds_all_its_parts() -> None:
    sql = "create temp table dfs . /* c */ tmp.`t` (a) as select 1"
    start, end = created(sql).name_span
    assert sql[start:end] == "dfs . /* c */ tmp.`t`"


def test_a_double_quoted_name_is_one_where_the_session_says_so() -> None:
    assert created('create temp table "t" as select 1', double_quoted_identifiers=True).name == ("t",)


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "select 1",
        "created temp table t as select 1",
        "create table t as select 1",
        "create temporary view t as select 1",
        "create temporary function f as 'x'",
        "create or replace temporary table t as select 1",
        "create temporary table t (a int) using parquet",
        "create temporary table t (a int, b string) as select 1, 2",
        "create temporary table t (a, b string) as select 1, 2",
        "create temporary table t using parquet options (as 1)",
        "create temporary table t like s",
        "create temporary table",
        "explain create temporary table t as select 1",
        "/* unfinished create temporary table t as select 1",
        "drop temporary table t",
        "drop view t",
        "drop table",
        "drop table if exists",
        "drop table t cascade",
        "drop table t; select 1",
        "drop table a, b",
        "drop table identifier('t')",
        "drop table 't'",
        "drop table ``",
        "/**/" * 40 + "x",
    ],
)
def test_what_is_sparks_own_is_left_to_spark(sql: str) -> None:
    """Statements, guarantee 1."""
    assert recognise(sql) is None


@pytest.mark.parametrize(
    ("sql", "expected", "line", "column"),
    [
        ("create temp table 't' as select 1", "expected a name", 1, 18),
        ("create temp table t () as select 1", "expected a name", 1, 21),
        ("create temp table t (a.b) as select 1", "expected ',' or ')'", 1, 22),
        ("create temp table t\nusing as select 1", "expected AS", 2, 9),
        ("create temp table t partition by a as select 1", "expected '('", 1, 33),
        ("create temp table t partition by (bucket(4, a)) as select 1", "expected ',' or ')'", 1, 40),
        ("create temp table t partition by (a b) as select 1", "expected ',' or ')'", 1, 36),
        ("create temp table t\r\n  location 'x' as select 1", "expected AS", 2, 2),
        ("create temp table t using csv options (k 1) as select 1", "OPTIONS is not supported", 1, 30),
        ("create temp table t as", "at or near end of input: expected a query", 1, 22),
        ("create temp table t as drop table x", "expected a query", 1, 23),
        ("create temp table t as insert into x select 1", "expected a query", 1, 23),
        ("create temp table t as with q as (select 1) insert into x select 1", "not a change of data", 1, 44),
        ("create temp table t as from q insert overwrite x select 1", "not a change of data", 1, 30),
        ("create temp table t as with q as (select 1) delete from x", "not a change of data", 1, 44),
        ("create temp table t as with q as (select 1) merge into x using y", "not a change of data", 1, 44),
        ("create temp table t as with q as (select 1) update x set a = 1", "not a change of data", 1, 42),
        ("create temp table a b as select 1", "'b'", 1, 20),
    ],
)
def test_a_malformed_clause_is_named_with_its_place(sql: str, expected: str, line: int, column: int) -> None:
    """The place as Spark tells it: line from 1, column from 0."""
    with pytest.raises(StatementError) as raised:
        recognise(sql)
    assert expected in raised.value.message
    assert raised.value.position == Position(line, column)
    assert str(raised.value).endswith(f"(line {line}, pos {column})")


@pytest.mark.parametrize(
    ("sql", "name", "if_exists"),
    [
        ("drop table t", ("t",), False),
        ("DROP TABLE IF EXISTS dfs.tmp.`T 1` PURGE ;; -- c", ("dfs", "tmp", "T 1"), True),
        ("/* c */ drop /* d */ table purge", ("purge",), False),
        ("drop table if", ("if",), False),
    ],
)
def test_drop_table_is_recognised(sql: str, name: tuple[str, ...], if_exists: bool) -> None:
    """Seed 001, 5.1.8."""
    statement = dropped(sql)
    assert (statement.name, statement.if_exists) == (name, if_exists)


def test_the_query_alone_stands_where_it_stood() -> None:
    sql = "create temp table t\n  as -- c\r\n select 1 ; -- d\n"
    alone = query_only(sql, created(sql))
    assert alone == " " * 19 + "\n     -- c\r\n select 1"


def test_an_ordinary_long_statement_costs_no_more_than_a_short_one() -> None:
    ordinary = [
        "select ",
        "create or replace temporary view v as select ",
        "create table t as select ",
        "/* c */ insert ",
    ]
    for start in ordinary:
        long = start + "a + " * 25_000 + "b"
        began = time.perf_counter()
        for _ in range(200):
            recognise(start)
        middle = time.perf_counter()
        for _ in range(200):
            recognise(long)
        assert time.perf_counter() - middle < 20 * (middle - began) + 0.01


PARTS = st.text("abAB_é`. -1'\"", min_size=1, max_size=6)
BLANKS = st.sampled_from([" ", "\n", "\t", " /* x */ ", " -- as\n", "/* a /* b */ */"])


@st.composite
def cased(draw: st.DrawFn, word: str) -> str:
    return "".join(draw(st.sampled_from([char.lower(), char.upper()])) for char in word)


@st.composite
def names(draw: st.DrawFn) -> tuple[tuple[str, ...], str]:
    parts = tuple(draw(st.lists(PARTS, min_size=1, max_size=3)))
    dots = [draw(st.sampled_from([".", " . ", "./* c */"])) for _ in parts[1:]]
    quoted = ["`" + part.replace("`", "``") + "`" for part in parts]
    return parts, "".join(text for pair in zip(quoted, [*dots, ""], strict=True) for text in pair)


@st.composite
def create_statements(draw: st.DrawFn) -> tuple[str, dict[str, object]]:
    parts, name = draw(names())
    columns = draw(st.none() | st.lists(names().filter(lambda n: len(n[0]) == 1), min_size=1, max_size=3))
    storage_format = draw(st.none() | st.sampled_from(["parquet", "json"]))
    exists = draw(st.booleans())
    words = ["create", draw(st.sampled_from(["temp", "temporary"])), "table", *(["if", "not", "exists"] * exists)]
    pieces = [draw(cased(word)) for word in words] + [name]
    if columns is not None:
        pieces.append("(" + ",".join(text for _, text in columns) + ")")
    if storage_format is not None:
        pieces += [draw(cased("using")), storage_format]
    pieces += [draw(cased("as")), "select 1 as x"]
    end = draw(st.sampled_from(["", ";", " ; ; ", "-- as\n"]))
    sql = "".join(draw(BLANKS) + piece for piece in pieces)
    expected: dict[str, object] = {
        "name": parts,
        "columns": None if columns is None else tuple(column[0][0] for column in columns),
        "storage_format": storage_format,
        "if_not_exists": exists,
        "query_end": len(sql),
    }
    return sql + end, expected


@given(create_statements())
def test_whatever_was_written_is_recognised(case: tuple[str, dict[str, object]]) -> None:
    sql, expected = case
    statement = created(sql)
    assert {field: getattr(statement, field) for field in expected} == expected
    alone = query_only(sql, statement)
    assert len(alone) == statement.query_end
    assert alone.endswith("select 1 as x")
    assert alone.count("\n") == sql[: statement.query_end].count("\n")


@given(names(), st.booleans(), BLANKS)
def test_whatever_is_dropped_is_recognised(name: tuple[tuple[str, ...], str], if_exists: bool, blank: str) -> None:
    words = ["drop", "table", *(["if", "exists"] * if_exists), name[1]]
    sql = blank + blank.join(words) + blank + ";"
    statement = dropped(sql)
    assert (statement.name, statement.if_exists) == (name[0], if_exists)
    assert sql[slice(*statement.name_span)] == name[1]
