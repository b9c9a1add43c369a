"""References by workspace name in SQL text."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sql.identifier_clauses import resolve_identifier_clauses
from gateway.sql.lexer import Dialect, tokenize
from gateway.sql.parameters import Parameters
from gateway.sql.references import Reference, find_references, replace_spans

WORKSPACES = [("dfs", "tmp"), ("dfs",)]


def count_workspace_parts(parts: Sequence[str]) -> int:
    folded = tuple(part.casefold() for part in parts)
    return next((len(name) for name in WORKSPACES if folded[: len(name)] == name), 0)


def find(sql: str, parameters: Parameters | None = None, **dialect: bool) -> list[Reference]:
    parameters = parameters or Parameters.of_statement(sql)
    tokens, _ = resolve_identifier_clauses(tokenize(sql, Dialect(**dialect)), parameters)
    return find_references(tokens, count_workspace_parts)


def describe(sql: str, **dialect: bool) -> list[str]:
    """Return each reference as ``table`` or ``other`` and its text."""
    return [("table " if r.is_table else "other ") + sql[r.start : r.end] for r in find(sql, **dialect)]


T, C = "table dfs.tmp.t", "other dfs.tmp.t"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select * from dfs.tmp.t", [T]),
        ("select dfs.tmp.t.a, dfs.tmp.t.* from dfs.tmp.t", [C + ".a", C, T]),
        ("select 1 from a, dfs.tmp.t, b", [T]),
        ("select 1 from a x, b as y, dfs.tmp.t z", [T]),
        ("select 1 from a join b on a.x = b.x and a.y > 1, dfs.tmp.t", [T]),
        ("select 1 from a join b using (x, y), dfs.tmp.t", [T]),
        ("select 1 from a left join dfs.tmp.t on dfs.tmp.t.x = a.x", [T, C + ".x"]),
        ("select 1 from values (1), (2) as v(n), dfs.tmp.t", [T]),
        ("select 1 from values 1, 'a' window, dfs.tmp.t where (dfs.tmp.t.a)", [T, C + ".a"]),
        ("select 1 from a sort(n, m) left join b order, dfs.tmp.t order by dfs.tmp.t.a", [T, C + ".a"]),
        ("select 1 from stream dfs.tmp.t, stream(dfs.tmp.t)", [T, T]),
        ("from a select (x), dfs.tmp.t.a, left, dfs.tmp.t.b where (x)", [C + ".a", C + ".b"]),
        ("from a insert into b select (x), dfs.tmp.t.a insert into c select full, dfs.tmp.t.b", [C + ".a", C + ".b"]),
        ("select 1 from a join dfs.tmp.t on a.x < interval '1' day where full, dfs.tmp.t.b", [T, C + ".b"]),
        ("select 1 from (dfs.tmp.t)", [T]),
        ("select 1 from (dfs.tmp.t join b), dfs.tmp.t", [T, T]),
        ("select 1 from (select a, dfs.tmp.t.b from c), dfs.tmp.t", [C + ".b", T]),
        ("select 1 from range(3, dfs.tmp.t.n), dfs.tmp.t", [C + ".n", T]),
        ("select f(a, dfs.tmp.t.b) from f(table dfs.tmp.t), g(table(dfs.tmp.t))", [C + ".b", T, T]),
        ("select 1 from lateral (select 1 from dfs.tmp.t)", [T]),
        ("select 1 from a lateral view explode(dfs.tmp.t.x) e as k, v where dfs.tmp.t.y", [C + ".x", C + ".y"]),
        ("select 1 from a tablesample (5 rows), dfs.tmp.t", [T]),
        ("select a from b where x in (select y from dfs.tmp.t) order by c, dfs.tmp.t.d", [T, C + ".d"]),
        ("select a from b order by dfs.tmp.t.c desc, dfs.tmp.t.d", [C + ".c", C + ".d"]),
        ("select a from b group by x, dfs.tmp.t.c", [C + ".c"]),
        ("select a from b union select dfs.tmp.t.a from dfs.tmp.t", [C + ".a", T]),
        ("select extract(day from dfs.tmp.t.a), trim(both from dfs.tmp.t.b)", [C + ".a", C + ".b"]),
        ("select extract(day from (select max(a) from dfs.tmp.t))", [T]),
        ("select 1 where a is not distinct from dfs.tmp.t.a", [C + ".a"]),
        ("select dfs.tmp.f(1), dfs.tmp.t.a", [C + ".a"]),
        ("from dfs.tmp.t |> where dfs.tmp.t.a |> join dfs.tmp.t |> select x, dfs.tmp.t.b", [T, C + ".a", T, C + ".b"]),
        ("from a |> extend 1 as x, dfs.tmp.t.b", [C + ".b"]),
        ("insert into dfs.tmp.t (a, b) select dfs.tmp.t.c", [T, C + ".c"]),
        ("insert overwrite dfs.tmp.t select 1", [T]),
        ("insert into table dfs.tmp.t values (1), (2)", [T]),
        ("update dfs.tmp.t set a = 1, b = dfs.tmp.t.c", [T, C + ".c"]),
        ("delete from dfs.tmp.t where dfs.tmp.t.a", [T, C + ".a"]),
        ("merge into dfs.tmp.t using dfs.tmp.t on 1 when matched then update set dfs.tmp.t.a = 1", [T, T, C + ".a"]),
        ("merge into a using (select 1 from dfs.tmp.t) s on dfs.tmp.t.x", [T, C + ".x"]),
        ("describe dfs.tmp.t", [T]),
        ("desc table extended dfs.tmp.t", [T]),
        ("describe formatted dfs.tmp.t", [T]),
        ("drop table if exists dfs.tmp.t", [T]),
        ("create table if not exists dfs.tmp.t as select 1", [T]),
        ("table dfs.tmp.t", [T]),
        ("cache lazy table dfs.tmp.t", [T]),
        ("show columns from dfs.tmp.t", [T]),
        ("select /*+ BROADCAST(dfs.tmp.t) */ * from a, dfs.tmp.t", [C, T]),
        ("select /*+ BROADCAST(dfs.tmp.t) */ 1 from x as dfs", [C]),
        ("select 1 from a; select dfs.tmp.t.a, dfs.tmp.t.b", [C + ".a", C + ".b"]),
        ("select 1 from dfs.tmp.1a", ["table dfs.tmp.1a"]),
        ("select 1 from DFS . /* c */ `tmp` -- d\n . `a.csv`", ["table DFS . /* c */ `tmp` -- d\n . `a.csv`"]),
        ("select ((((1)))) from a)))), dfs.tmp.t", [T]),
        ("select 1 from a join b on case when a.x then b.x else 1 end, dfs.tmp.t", [T]),
        ("merge into a using b on 1 when matched then update set x = dfs.tmp.t.a", [C + ".a"]),
        ("show columns in dfs.tmp.t", [T]),
        ("show partitions dfs.tmp.t", [T]),
        ("show tblproperties dfs.tmp.t", [T]),
        ("create table a like dfs.tmp.t", [T]),
        ("select 1 from a where a.x like dfs.tmp.t.b", [C + ".b"]),
        ("begin if x then select 1 from dfs.tmp.t; else select dfs.tmp.t.a from b; end if; end", [T, C + ".a"]),
        ("begin for r as select 1 from dfs.tmp.t do select r.a, dfs.tmp.t.b; end for; end", [T, C + ".b"]),
        ("begin declare exit handler for not found select 1 from dfs.tmp.t; end", [T]),
        ("select 1 from identifier('dfs.tmp.t')", ["table identifier('dfs.tmp.t')"]),
        ("select identifier('dfs.tmp.t.a') from b", ["other identifier('dfs.tmp.t.a')"]),
        ("select 1 from identifier('dfs').tmp.identifier('t')", ["table identifier('dfs').tmp.identifier('t')"]),
        ("select 1 from identifier('d' || 'fs.tmp.t')", ["table identifier('d' || 'fs.tmp.t')"]),
    ],
)
def test_references_are_tables_or_columns(sql: str, expected: list[str]) -> None:
    assert describe(sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "select 'dfs.tmp.t', $$dfs.tmp.t$$, \"dfs.tmp.t\"",
        "select 1 -- dfs.tmp.t\n /* from dfs.tmp.t */",
        "select a.dfs.tmp.t, f(x).dfs.tmp.t, m[1].dfs.tmp.t",
        "select :dfs.tmp.t",
        "select 1 from dfs.tmp",
        "use dfs.tmp",
        "select 1 as dfs",
        "select a.b.c from `dfs.tmp`.t",
        "select 1 from x /* dfs.tmp.t",
        "select 1 from identifier(concat('dfs.tmp', '.t'))",
        "select 1 from identifier(:n)",
        "select identifier('dfs.tmp.f')(1)",
    ],
)
def test_text_that_resembles_a_reference_is_ignored(sql: str) -> None:
    """Guarantee 1."""
    assert describe(sql) == []


@pytest.mark.parametrize(
    "sql",
    [
        "select dfs.tmp.x from dfs.tmp.t as dfs",
        "select dfs.tmp.x from dfs.tmp.t DFS",
        "select dfs.tmp.x from dfs.tmp.t as `dfs`",
        "select dfs.tmp.x from (select * from dfs.tmp.t) dfs",
        "select dfs.tmp.x from a join dfs.tmp.t dfs on dfs.tmp.y = 1",
        "with dfs as (select 1) select dfs.tmp.x from dfs.tmp.t",
        "with dfs (tmp) as (select 1) select dfs.tmp.x from dfs.tmp.t",
        "with a as (select 1), dfs(tmp) as (select 1) select dfs.tmp.x from dfs.tmp.t",
        "with dfs (select 1) select dfs.tmp.x from dfs.tmp.t",
        "select dfs.tmp.x from range(3) dfs, dfs.tmp.t",
        "select dfs.tmp.x from dfs.tmp.t tablesample (5 rows) dfs",
        "update dfs.tmp.t dfs set a = dfs.tmp.x",
        "begin for dfs as select 1 do select dfs.tmp.x from dfs.tmp.t; end for; end",
        "begin dfs: begin select dfs.tmp.x from dfs.tmp.t; end dfs; end",
        "begin declare dfs int; select dfs.tmp.x from dfs.tmp.t; end",
    ],
)
def test_defined_name_hides_the_workspace_from_columns(sql: str) -> None:
    """Guarantee 2."""
    assert describe(sql) == [T]


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        "(",
        ")",
        "dfs.",
        "dfs.tmp.t,",
        "from dfs.tmp.t ",
        "/*+ dfs.tmp.t ",
        "as (",
        "from (",
        "from identifier('dfs.t') ",
    ],
)
def test_time_is_linear(piece: str, assert_linear_time: Callable[..., None]) -> None:
    small, large = (piece * (size // len(piece)) for size in (5_000, 40_000))
    assert_linear_time(find, small, large)


@pytest.mark.slow
def test_time_is_linear_for_brackets_inside_each_other(assert_linear_time: Callable[..., None]) -> None:
    small, large = ("from t where (" * depth + "a" + "), b " * depth for depth in (5_000, 40_000))
    assert_linear_time(find, small, large)


def test_reference_has_parts() -> None:
    (reference,) = find("from dfs.`a``b`.c")
    assert (reference.workspace_parts, reference.parts) == (1, ("dfs", "a`b", "c"))


def test_double_quotes_follow_the_dialect() -> None:
    sql = 'select 1 from dfs."a.csv"'
    assert describe(sql, double_quoted_identifiers=True) == ['table dfs."a.csv"']
    assert describe(sql) == []


@pytest.mark.parametrize(
    ("sql", "is_ambiguous"),
    [
        ("select dfs.tmp.t.a from dfs.tmp.t", False),
        ("select dfs.tmp.t.a from t", False),
        ("select dfs.tmp.t.a from dfs.tmp.t as T join x on 1", False),
        ("select dfs.tmp.t.a from system.session.t", False),
        ("select dfs.tmp.t.a as t from dfs.tmp.t", False),
        ("with t as (select 9 a) select dfs.tmp.t.a from dfs.tmp.t", False),
        ("with t as (select 9 a) select dfs.tmp.t.a from t", True),
        ("with t (a) as (select 9) select dfs.tmp.t.a from dfs.tmp.t, t", True),
        ("select dfs.tmp.t.a from dfs.tmp.t x join y t on 1", True),
        ("select dfs.tmp.t.a from dfs.tmp.t, (select 9 a) as `T`", True),
        ("select dfs.tmp.t.a from default.t", True),
        ("select dfs.tmp.t.a from dfs.tmp.t join range(3) t", True),
    ],
)
def test_column_of_a_shared_name_is_ambiguous(sql: str, is_ambiguous: bool) -> None:
    columns = [r for r in find(sql) if not r.is_table]
    assert [column.is_ambiguous for column in columns] == [is_ambiguous]


def test_parameter_contains_a_name() -> None:
    sql = "select ? from identifier(:n) join identifier(?)"
    parameters = Parameters.of_statement(sql, {"n": "dfs.tmp.a"}, [None, "dfs.tmp.b"])
    found = find(sql, parameters)
    assert [(r.parts[2], r.is_table, sql[r.start : r.end]) for r in found] == [
        ("a", True, "identifier(:n)"),
        ("b", True, "identifier(?)"),
    ]


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], "ab cd ef"),
        ([(0, 2, "x"), (6, 8, "yz")], "x  cd yz"),
        ([(3, 5, "longer")], "ab longer ef"),
        ([(0, 8, "")], " " * 8),
    ],
)
def test_replaced_spans_keep_their_length(spans: list[tuple[int, int, str]], expected: str) -> None:
    assert replace_spans("ab cd ef", spans) == expected


def test_replaced_spans_keep_line_ends() -> None:
    assert replace_spans("from dfs.\ntmp.t x", [(5, 15, "t")]) == "from t   \n      x"


BARE = st.from_regex(r"[a-zA-Zé_][a-z0-9_]{0,5}", fullmatch=True)
ANY = st.text("abAB_é`. -1'\"/*", min_size=1, max_size=6)
DOTS = st.sampled_from([".", " . ", "\n.\n", "./* from */", " -- x\n."])
FRAMES = [("select * from ", True), ("select 1 from a, ", True), ("select ", False), ("select 1 where x > ", False)]


@st.composite
def chains(draw: st.DrawFn) -> tuple[tuple[str, ...], str]:
    """Draw the parts of a name in a workspace, and a way to write it."""
    head = [draw(st.sampled_from([part, part.upper()])) for part in draw(st.sampled_from(WORKSPACES))]
    tail = draw(st.lists(BARE.map(lambda t: (t, t)) | ANY.map(lambda t: (t, _quoted(t))), min_size=1, max_size=3))
    written = [draw(st.sampled_from([part, _quoted(part)])) for part in head] + [text for _, text in tail]
    dots = [draw(DOTS) for _ in written[1:]]
    text = "".join(piece for pair in zip(written, [*dots, ""], strict=True) for piece in pair)
    return tuple(head + [part for part, _ in tail]), text


def _quoted(part: str) -> str:
    return "`" + part.replace("`", "``") + "`"


@given(chains(), st.sampled_from(FRAMES), st.sampled_from(["", " x", ", 1", "\n;", " /* dfs.tmp.t */"]))
def test_every_written_reference_is_found(
    chain: tuple[tuple[str, ...], str], frame: tuple[str, bool], after: str
) -> None:
    (parts, text), (before, is_table) = chain, frame
    sql = before + text + after
    found = [r for r in find(sql) if r.start == len(before)]
    if count_workspace_parts(parts) == len(parts):
        assert found == []
        return
    (reference,) = found
    assert (reference.parts, reference.is_table) == (parts, is_table)
    assert sql[reference.start : reference.end] == text
    assert replace_spans(sql, [(reference.start, reference.end, "t")]).count("\n") >= sql.count("\n") - 1
