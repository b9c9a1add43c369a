"""Column pruning: a scan leaves out columns that its statement does not mention."""

import pytest

from gateway.sql.column_pruning import find_mentioned_names, find_names_of_expressions, unite_names
from gateway.sql.lexer import tokenize
from gateway.sql.parameters import Parameters, StringEvaluator

SCAN = "dfs.`a/b.csv`"


def names(sql):
    start = sql.index(SCAN)
    return find_mentioned_names(tokenize(sql), [(start, start + len(SCAN))])


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        (f"select a, B from {SCAN}", {"a", "b"}),
        (f"select t.a from {SCAN} t where `C` > 1 order by d", {"a", "c", "d"}),
        (f"select count(*) from {SCAN}", set()),
        (f"select COUNT ( * ), max(a) from {SCAN}", {"a"}),
        (f"select sum(2 * a) from {SCAN}", {"a"}),
        (f"select (a) * b from {SCAN}", {"a", "b"}),
        (f"select columns[1] from {SCAN}", {"columns"}),
        (f"select x.a from {SCAN} x join v using (k)", {"a", "k"}),
        (f"with q as (select a from {SCAN}) select a from q", {"a"}),
        (f"select from_json(a, 'b int') from {SCAN}", {"a", "b"}),
    ],
)
def test_mentioned_columns_are_found(sql, wanted):
    assert wanted <= names(sql)
    assert not names(sql) & ({"a", "b", "c", "d", "k", "columns"} - wanted)


@pytest.mark.parametrize(
    "sql",
    [
        f"select * from {SCAN}",
        f"select distinct * from {SCAN}",
        f"select t.* from {SCAN} t",
        f"select a, * except (b) from {SCAN}",
        f"select * except (b) from {SCAN}",
        f"select 1, * from {SCAN}",
        f"select struct(*) from {SCAN}",
        f"select count(distinct *) from {SCAN}",
        f"select count(t.*) from {SCAN} t",
        f"from {SCAN}",
        f"select a from v union all from {SCAN}",
        f"select a from (from {SCAN})",
        f"create temporary table t as from {SCAN}",
        f"with q as (select 1) from {SCAN}",
        f"table {SCAN}",
        f"describe {SCAN}",
        f"desc extended {SCAN}",
        f"show columns in {SCAN}",
        f"show columns from {SCAN}",
        f"merge into v using {SCAN} q on q.a = v.a when matched then delete",
        f"from {SCAN} |> where a = 1",
        f"select 1 from (from {SCAN} |> aggregate sum(a)) q",
        f"select a from {SCAN} natural join v",
        f"select identifier('a' || 'b') from {SCAN}",
        f"select `(a)?+.+` from {SCAN}",
        f"select a from f(table({SCAN}))",
        f"select transform(a) using 'cat' from {SCAN}",
        f"select x from {SCAN} pivot (sum(a) for b in ('x'))",  # groups by all other columns
        f"select q from {SCAN} unpivot (v for n in (a, b))",
    ],
)
def test_statement_that_may_need_any_column_reads_all(sql):
    assert names(sql) is None


@pytest.mark.parametrize("alias", ["as t(x, y)", "t(x, y)", "`t` (x)", "tablesample (10 rows) as t(x, y)"])
def test_reference_whose_columns_get_other_names_reads_all(alias):
    assert names(f"select x from {SCAN} {alias}") is None


@pytest.mark.parametrize(
    "clause", ["where (x > 1)", "as t where (x > 1)", "t join v on (t.x = v.x)", "join (select 1)"]
)
def test_brackets_after_a_reference_may_be_something_else(clause):
    assert "x" in names(f"select x from {SCAN} {clause}")


def test_names_of_data_frame_operations_are_mentioned():
    mentioned = frozenset({"a"})

    def add_names(names, texts):
        return unite_names(names, find_names_of_expressions(texts))

    assert add_names(mentioned, ["B", "t.`c d`.e", "f > 'g'"]) >= {"a", "b", "c d", "e", "f"}
    assert add_names(mentioned, []) == mentioned
    assert add_names(mentioned, ["`a``b`"]) is None
    assert add_names(mentioned, [f"c{number}" for number in range(2000)]) is None
    assert add_names(None, ["a"]) is None


def test_each_scan_of_a_plan_gets_few_names_of_data_frame_operations():
    assert find_names_of_expressions(["x" * 4096, "x" * 4096]) is not None
    assert find_names_of_expressions(["x" * 4096, "y"]) is None


def test_tokens_in_any_span_are_no_columns():
    tokens = tokenize("select a from x y z where b")
    assert find_mentioned_names(tokens, [(14, 19), (14, 15), (16, 17)]) == {"select", "a", "from", "where", "b"}


def test_statement_with_very_many_names_reads_all():
    assert find_mentioned_names(tokenize(f"select {', '.join(f'c{n}' for n in range(1001))} from t"), []) is None
    assert find_mentioned_names(tokenize(f"select {'c' * 40_000} from t"), []) is None


def test_many_tokens_and_references_take_linear_time(assert_linear_time):
    def find(text):
        tokens = tokenize(text)
        find_mentioned_names(tokens, [(token.start, token.end) for token in tokens if token.value == "r"])

    assert_linear_time(find, "select a, r " * 500, "select a, r " * 4000)


def test_many_parameters_are_found_in_linear_time(assert_linear_time):
    def find(text):
        tokens = tokenize(text)
        strings = StringEvaluator(tokens, Parameters.of_statement(text))
        assert [ordinal for token in tokens for ordinal in strings.find_positions(token.start, token.end)] == list(
            range(text.count("?"))
        )

    assert_linear_time(find, "? a " * 500, "? a " * 4000)


def test_copies_of_the_names_for_all_scans_are_limited():
    tokens = tokenize(f"select {', '.join(f'a_long_name_of_a_column_{n}' for n in range(900))} from t")
    assert find_mentioned_names(tokens, [(n, n) for n in range(10)]) is not None
    assert find_mentioned_names(tokens, [(n, n) for n in range(8000)]) is None
