"""``CREATE TEMPORARY TABLE``, its ``EXPLAIN``, and ``CREATE TABLE`` by workspace."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sql.statement_error import Position, StatementError
from gateway.sql.statement_parser import extract_query, parse_statement
from gateway.sql.statements import CreateTable, CreateTemporaryTable, Explain, Span


def parse_temporary(sql: str) -> CreateTemporaryTable:
    statement = parse_statement(sql)
    assert isinstance(statement, CreateTemporaryTable), sql
    return statement


def parse_permanent(sql: str) -> CreateTable:
    statement = parse_statement(sql)
    assert isinstance(statement, CreateTable), sql
    return statement


def extract(sql: str, span: Span | None) -> str | None:
    return None if span is None else sql[slice(*span)].strip()


@pytest.mark.parametrize(
    ("sql", "expected", "query"),
    [
        ("create temporary table t as select 1", (("t",), None, None, ()), "select 1"),
        ("CREATE TEMP TABLE dfs.tmp.`a b` AS (SELECT 1)", (("dfs", "tmp", "a b"), None, None, ()), "(SELECT 1)"),
        ("create temp table t (a, `b c`) as values (1, 2);", (("t",), ("a", "b c"), None, ()), "values (1, 2)"),
        ("create temp table t (identifier('a')) as values (1)", (("t",), ("a",), None, ()), "values (1)"),
        ("create temp table t using csv as table x", (("t",), None, "csv", ()), "table x"),
        ("create temp table t using a.b partition by (c) as from x", (("t",), None, "a.b", ("c",)), "from x"),
        ("create temp table t partition by (c) using `csv` as from x", (("t",), None, "csv", ("c",)), "from x"),
        (
            "create temp table t(a,b)partitioned by(a,b)as(select 1)",
            (("t",), ("a", "b"), None, ("a", "b")),
            "(select 1)",
        ),
        (
            "-- c\n/* /* d */ */ create temp table t as select 1 as x -- e",
            (("t",), None, None, ()),
            "select 1 as x",
        ),
        (
            "create temp table t as with q as (select 1) select * from q ; ; /* e */",
            (("t",), None, None, ()),
            "with q as (select 1) select * from q",
        ),
        ("create temp table `as` as select 1", (("as",), None, None, ()), "select 1"),
        ("create temp table if as select 1", (("if",), None, None, ()), "select 1"),
        ("create temp table table as table table", (("table",), None, None, ()), "table table"),
        ("create temp table like as select 1", (("like",), None, None, ()), "select 1"),
        ("create temp table t as select ' as ', r'\\' as x", (("t",), None, None, ()), "select ' as ', r'\\' as x"),
        ("create temp table t as select 1; select 2", (("t",), None, None, ()), "select 1; select 2"),
        ("create temp table t as select 'unfinished", (("t",), None, None, ()), "select 'unfinished"),
        ("create temp table t as select x delete from y", (("t",), None, None, ()), "select x delete from y"),
        ("create temp table t as from x select insert", (("t",), None, None, ()), "from x select insert"),
        (
            "create temp table t as with q (a) max recursion level 5 as (select 1) select * from q",
            (("t",), None, None, ()),
            "with q (a) max recursion level 5 as (select 1) select * from q",
        ),
    ],
)
def test_table_from_query(sql: str, expected: tuple[object, ...], query: str) -> None:
    """[temporary-tables §5.1.1].

    Expected are name, columns, storage format and partition columns.
    """
    statement = parse_temporary(sql)
    fields = (statement.name.parts, statement.columns, statement.storage_format, statement.partition_columns)
    assert fields == expected
    assert not statement.if_not_exists
    assert extract(sql, statement.query_span) == query
    assert (statement.definition_span, statement.like) == (None, None)


def test_if_not_exists() -> None:
    statement = parse_temporary("create temp table if not exists t as select 1")
    assert statement.if_not_exists
    assert statement.name.parts == ("t",)


@pytest.mark.parametrize(
    ("clauses", "options"),
    [
        (
            "options (header true, `a b` 'it''s', c.d = 1, 'e' -2)",
            {"header": "true", "a b": "it's", "c.d": "1", "e": "-2"},
        ),
        ("using csv options ('sep' ';') partition by (a)", {"sep": ";"}),
        ("options (as 'as') partitioned by (a) using csv", {"as": "as"}),
        ("options (path 'x')", {"path": "x"}),
    ],
)
def test_options_in_any_order_of_clauses(clauses: str, options: dict[str, str]) -> None:
    sql = f"create temp table t {clauses} as select 1"
    statement = parse_temporary(sql)
    assert statement.options == options
    assert extract(sql, statement.query_span) == "select 1"


@pytest.mark.parametrize(
    ("sql", "definition", "storage_format"),
    [
        (
            "create temporary table t (a INT, b STRING COMMENT 'x)' NOT NULL)",
            "a INT, b STRING COMMENT 'x)' NOT NULL",
            None,
        ),
        ("create temp table if not exists t(a int)using Parquet", "a int", "Parquet"),
        (
            "create temp table t (a decimal(10, 2), b struct<x: int>) using `csv`;",
            "a decimal(10, 2), b struct<x: int>",
            "csv",
        ),
        ("create temp table t (a int, primary key (a)) using json", "a int, primary key (a)", "json"),
        ("create temp table t (a, b int)", "a, b int", None),
        ("create temp table t (`as` int) using orc", "`as` int", "orc"),
        ("create temp table select (as int)", "as int", None),
    ],
)
def test_table_from_columns_with_types(sql: str, definition: str, storage_format: str | None) -> None:
    statement = parse_temporary(sql)
    assert extract(sql, statement.definition_span) == definition
    assert statement.storage_format == storage_format
    assert (statement.columns, statement.query_span, statement.like) == (None, None, None)


def test_table_from_columns_with_types_has_clauses() -> None:
    statement = parse_temporary("create temp table t (a int, b int) options (k 'v') partitioned by (b) using json")
    assert (statement.options, statement.partition_columns) == ({"k": "v"}, ("b",))


def test_partition_columns_have_types_or_names() -> None:
    text = "create temp table t (a int) using parquet partitioned by (b decimal(3, 1), c int)"
    statement = parse_temporary(text)
    assert statement.partition_definition_span is not None
    assert text[slice(*statement.partition_definition_span)] == "b decimal(3, 1), c int"
    assert statement.partition_columns == ()


def test_table_like_another() -> None:
    sql = "create temporary table t like a.`b c` using json;"
    statement = parse_temporary(sql)
    assert statement.like is not None
    assert statement.like.parts == ("a", "b c")
    assert sql[statement.like.start : statement.like.end] == "a.`b c`"
    assert statement.storage_format == "json"
    assert (statement.query_span, statement.definition_span) == (None, None)


@pytest.mark.parametrize(
    "sql",
    [
        "create temporary table",
        "create temporary table t",
        "create temporary table t using parquet",
        "create temporary table t using parquet options (as 1)",
        "create temporary table t (a int) using jdbc",
        "create temporary table t (a int) using parquet.x",
        "create temporary table t (a int) using jdbc comment 'x'",
        "create temporary table t (a) using jdbc options (k f(1))",
        "create temporary table t (a int) using csv options (Path 'x')",
        "create temporary table t (a int) options (k 1, 'location' = 'x') using csv",
        "create temporary table t (a int) options (r'path' = 'x')",
        "create temporary table t (a int) using csv location 'x'",
    ],
)
def test_temporary_table_of_another_source_is_for_spark(sql: str) -> None:
    """Guarantee 1."""
    assert parse_statement(sql) is None


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
        ("create temp table t as", "at or near end of input: expected a query", 1, 22),
        ("create temp table t as drop table x", "expected a query", 1, 23),
        ("create temp table t as insert into x select 1", "expected a query", 1, 23),
        ("create temp table t as with q as (select 1) insert into x select 1", "not a data change", 1, 44),
        ("create temp table t as with q(a) (select 1) from q insert overwrite x select 1", "not a data change", 1, 51),
        ("create temp table t as from q insert overwrite x select 1", "not a data change", 1, 30),
        ("create temp table t as with q as (select 1) delete from x", "not a data change", 1, 44),
        ("create temp table t as with q as (select 1) merge into x using y", "not a data change", 1, 44),
        ("create temp table t as with q as (select 1) update x set a = 1", "not a data change", 1, 44),
        ("create temp table a b as select 1", "'b'", 1, 20),
        ("create temp table t select 1", "expected AS", 1, 20),
        ("create temp table t\r\n  location 'x' as select 1", "LOCATION is not supported", 2, 2),
        ("create temp table t comment x as select 1", "expected a comment between quotes", 1, 28),
        ("create temp table t comment 'x' comment 'y' as select 1", "COMMENT occurs twice", 1, 32),
        ("create temp table t tblproperties a as select 1", "expected '('", 1, 34),
        ("create temp table t cluster by (a) as select 1", "CLUSTER BY is not supported", 1, 20),
        ("create temp table t clustered by (a) into 2 buckets as select 1", "Use PARTITION BY", 1, 20),
        ("create temp table t row format delimited as select 1", "ROW FORMAT is not supported", 1, 20),
        ("create temp table t stored as parquet as select 1", "Use USING with a format", 1, 20),
        ("create temp table t (a int) stored as parquet", "STORED AS is not supported", 1, 28),
        ("create temp table t using csv using json as select 1", "USING occurs twice", 1, 30),
        ("create temp table t partition by (a) partitioned by (b) as select 1", "PARTITION BY occurs twice", 1, 37),
        ("create temp table t options (a 1) using csv options (b 1) as select 1", "OPTIONS occurs twice", 1, 44),
        ("create temp table t options as select 1", "expected '('", 1, 28),
        ("create temp table t options (a f(1)) as select 1", "Expected a value", 1, 31),
        ("create temp table t options (a '\\UFFFFFFFF') as select 1", "a valid escape sequence", 1, 31),
        ("create temp table t (a int, b string) as select 1, 2", "columns before AS cannot have types", 1, 20),
        ("create temp table t (a, b string) using jdbc as select 1, 2", "columns before AS cannot have types", 1, 20),
        ("create temp table t (a, b)", "columns need types, or AS and a query", 1, 20),
        ("create temp table t (a) using csv", "columns need types, or AS and a query", 1, 20),
        ("create temp table t (a int", "expected ')'", 1, 26),
        ("create temp table t (a int); select 1", "expected the end", 1, 27),
        ("create temp table t like", "expected a name", 1, 24),
        ("create temp table t like s comment 'x'", "expected the end", 1, 27),
        ("create or replace temp table if not exists t as select 1", "exclude each other", 1, 29),
        ("explain create temp table t location 'x' as select 1", "LOCATION is not supported", 1, 28),
    ],
)
def test_malformed_clause_is_reported_with_its_position(sql: str, expected: str, line: int, column: int) -> None:
    """The place as Spark tells it: line from 1, column from 0."""
    with pytest.raises(StatementError) as raised:
        parse_statement(sql)
    assert expected in raised.value.message
    assert raised.value.position == Position(line, column)
    assert str(raised.value).endswith(f"(line {line}, pos {column})")


@pytest.mark.parametrize("mode", ["", "LOGICAL ", "formatted ", "extended /* c */", "CodeGen ", "cost "])
def test_explain_of_table_explains_the_query(mode: str) -> None:
    begin, clause = f"explain {mode}", "create temp table t (a) using csv as"
    sql = f"{begin}{clause} select 1;"
    statement = parse_statement(sql)
    assert isinstance(statement, Explain)
    assert sql[slice(*statement.prefix_span)] == clause
    assert extract_query(sql, statement) == f"{begin}{' ' * len(clause)} select 1"
    assert (statement.table.name.parts, statement.table.columns) == (("t",), ("a",))


@pytest.mark.parametrize(
    ("sql", "query", "has_other_clauses"),
    [
        ("create table a.t as select 1", "select 1", False),
        ("create table a.t (x, y) using csv partitioned by (x) options (k 'v') as select 1;", "select 1", False),
        ("create or replace table a.t as select 1", "select 1", True),
        ("replace table a.t as select 1", "select 1", True),
        ("create external table a.t as select 1", "select 1", True),
        ("create table a.t location 'x' as select 1", None, True),
        ("create table a.t stored as orc as select 1", None, True),
        ("create table a.t partitioned by (bucket(4, x)) as select 1", None, True),
        ("create table a.t options (k 1 + 1) as select 1", None, True),
        ("create table a.t select 1", None, True),
        ("create table a.t (select 1)", None, True),
        ("create table a.t (x int)", None, True),
        ("create table a.t (x int) as select 1", None, True),
        ("create table a.t like b.s", None, True),
        ("create table a.t using csv", None, True),
        ("create table a.t", None, True),
        ("create table a.t (x", None, True),
        ("create table a.t as with q as (select 1) insert into x select 1", None, True),
    ],
)
def test_permanent_table_with_namespace(sql: str, query: str | None, has_other_clauses: bool) -> None:
    statement = parse_permanent(sql)
    assert statement.name.parts == ("a", "t")
    assert extract(sql, statement.query_span) == query
    assert statement.has_other_clauses == has_other_clauses


def test_comment_and_properties() -> None:
    statement = parse_temporary("create temp table t comment 'x' tblproperties (k 'v', l = 2) as select 1")
    assert statement.properties == {"comment": "x", "k": "v", "l": "2"}


def test_permanent_table_has_clauses() -> None:
    statement = parse_permanent(
        "create table if not exists a.b.t (x, y) using csv partitioned by (x) options (k 'v') as select 1"
    )
    assert statement.if_not_exists
    assert statement.name.parts == ("a", "b", "t")
    assert (statement.columns, statement.storage_format) == (("x", "y"), "csv")
    assert (statement.partition_columns, statement.options) == (("x",), {"k": "v"})


@pytest.mark.parametrize(
    "sql",
    ["create table t as select 1", "create or replace table t as select 1", "create table t (a int)", "replace t"],
)
def test_permanent_table_without_namespace_is_for_spark(sql: str) -> None:
    assert parse_statement(sql) is None


PARTS = st.text("abAB_é`. -1'\"", min_size=1, max_size=6)
BLANKS = st.sampled_from([" ", "\n", "\t", " /* x */ ", " -- as\n", "/* a /* b */ */"])


@st.composite
def draw_letter_case(draw: st.DrawFn, word: str) -> str:
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
    options = draw(st.dictionaries(st.sampled_from(["a", "b", "c.d"]), st.sampled_from(["as", "1", ";)"]), max_size=2))
    exists = draw(st.booleans())
    words = ["create", draw(st.sampled_from(["temp", "temporary"])), "table", *(["if", "not", "exists"] * exists)]
    pieces = [draw(draw_letter_case(word)) for word in words] + [name]
    if columns is not None:
        pieces.append("(" + ",".join(text for _, text in columns) + ")")
    clauses = []
    if storage_format is not None:
        clauses.append([draw(draw_letter_case("using")), storage_format])
    if options:
        clauses.append(
            [draw(draw_letter_case("options")), "(" + ", ".join(f"{k} '{v}'" for k, v in options.items()) + ")"]
        )
    for clause in draw(st.permutations(clauses)):
        pieces += clause
    pieces += [draw(draw_letter_case("as")), "select 1 as x"]
    end = draw(st.sampled_from(["", ";", " ; ; ", "-- as\n"]))
    sql = "".join(draw(BLANKS) + piece for piece in pieces)
    expected: dict[str, object] = {
        "name": parts,
        "columns": None if columns is None else tuple(column[0][0] for column in columns),
        "storage_format": storage_format,
        "options": options,
        "if_not_exists": exists,
    }
    return sql + end, expected


@given(create_statements())
def test_every_written_statement_is_parsed(case: tuple[str, dict[str, object]]) -> None:
    sql, expected = case
    statement = parse_temporary(sql)
    seen = {field: getattr(statement, field) for field in expected} | {"name": statement.name.parts}
    assert seen == expected
    alone = extract_query(sql, statement)
    assert alone.endswith("select 1 as x")
    assert alone == alone.rstrip()
    assert alone.count("\n") == sql[: len(alone)].count("\n")
