"""``CREATE TEMPORARY TABLE`` [temporary-tables §5.1.1, §5.1.6, §5.14]."""

import pytest


@pytest.mark.slow
def test_create_answers_fragment_and_record_count(client):
    texts = [
        "create temporary table t0 as select 1 a",
        "CREATE TEMP TABLE t1 AS SELECT 1 a;",
        "create temporary table if not exists t2 as select 1 a",
        "create /* a */ temporary -- b\n table /* c */ t3 /**/ as -- d\n select 1 a -- e",
        "create temporary table dfs.tmp.t4 as select 1 a",
        "create temporary table identifier('dfs.tmp.t5') as select 1 a",
        "create temporary table session.t6 as select 1 a",
        "create temporary table t7 (a) using orc options (compression 'zlib') as select 1",
    ]
    for text in texts:
        created = client.spark.sql(text)
        assert created.columns == ["Fragment", "Number of records written"]
        assert [tuple(row) for row in created.collect()] == [("0_0", 1)]
    names = [f"dfs.tmp.t{number}" for number in range(len(texts))]
    assert client.contents(*(f"(select a from {name})" for name in names)) == [[(1,)]] * len(names)
    for name in names:
        answer = (True, f"Temporary table [{name.rpartition('.')[2]}] was dropped.")
        assert client.rows(f"drop table {name}") == [answer]


@pytest.mark.slow
def test_create_accepts_every_form_of_query(client):
    queries = [
        ("with q as (select 1 a) select * from q", [(1,)]),
        ("with q as (select 1 a), r as (select a + 1 b from q) select b from r where b in (select b from r)", [(2,)]),
        ("select 1 a union all select 2 except select 1 intersect select 1", [(2,)]),
        ("values (1, 'x'), (2, 'y')", [(1, "x"), (2, "y")]),
        ("table base", [(0,), (1,), (2,)]),
        ("from base select id where id > 1", [(2,)]),
        ("from base |> where id > 1 |> select id", [(2,)]),
        ("(select 1 a)", [(1,)]),
        ("select /*+ repartition(3) */ id from dfs.tmp.base order by id limit 2", [(0,), (1,)]),
        ("select a.id from base a join BASE b on a.id = b.id", [(0,), (1,), (2,)]),
        ("select count(*) n from base group by id % 2", [(1,), (2,)]),
        ("select cast(columns[0] as int) c from dfs.`amount.csv`", [(1,), (2,), (3,), (4,)]),
    ]
    client.run("create temporary table base as select id from range(3)")
    for number, (query, expected) in enumerate(queries):
        assert client.rows(f"create temporary table t{number} as {query}") == [("0_0", len(expected))], query
    assert client.contents(*(f"t{number}" for number in range(len(queries)))) == [rows for _, rows in queries]


def test_query_accepts_parameters_and_data_frames(client):
    frame = client.spark.createDataFrame([(1, "a"), (2, "b")], ["k", "v"])
    client.run("create temporary table n as select k, v from {f} where k = :k", args={"k": 2}, f=frame)
    client.run("create temporary table p as select ? a, ? b", args=[1, "z"])
    assert client.rows("select * from n") == [(2, "b")]
    assert client.rows("select * from p") == [(1, "z")]


def test_column_list_overrides_column_names_of_query(client):
    client.run("create temporary table t (`x y`, Z) as select 1 a, 2 b")
    assert client.spark.table("t").columns == ["x y", "Z"]
    client.run("create temporary table u as select 1, count(*), 2 as Alias, id % 2 `a.b` from range(1) group by id")
    assert client.spark.table("u").columns == ["1", "count(1)", "Alias", "a.b"]


def test_columns_can_have_any_name(client):
    names = ["a.b", "a`b", "a b", ",;{}()=", "😀", "Ä", "a\nb", "select", "_corrupt_record", "''", "%"]
    quoted = ["`" + name.replace("`", "``") + "`" for name in names]
    columns = ", ".join(f"{number} {name}" for number, name in enumerate(quoted))
    tables = ("parquet", "json", "csv")
    for storage in tables:
        client.run(f"create temporary table {storage} using {storage} as select {columns}")
        assert client.spark.table(storage).columns == names
    assert client.contents(*tables) == [[tuple(range(len(names)))]] * len(tables)
    backwards = (f"(select {', '.join(reversed(quoted))} from {storage})" for storage in tables)
    assert client.contents(*backwards) == [[tuple(reversed(range(len(names))))]] * len(tables)


def test_columns_that_differ_only_in_letter_case_are_refused(client):
    for rest in ("as select 1 a, 2 A", "(x, X) as select 1, 2", "(x int, x int)"):
        client.refuses(f"create temporary table t {rest}", "COLUMN_ALREADY_EXISTS", "42711")


def test_columns_have_types_of_query(client):
    client.run("create temporary table t as select cast(1 as smallint) a, 1.5f b, 'x' c, current_date() d, 2 e")
    assert [kind for _, kind in client.spark.table("t").dtypes] == ["smallint", "float", "string", "date", "int"]


def test_if_not_exists_does_not_run_query_for_existing_name(client):
    client.run("create temporary table t as select 1 a")
    taken = [(False, "A table or view with given name [T] already exists in schema [dfs.tmp].")]
    before = client.files()
    assert client.rows("create temporary table if not exists T as select raise_error('it ran') a") == taken
    assert client.rows("create temporary table if not exists dfs.tmp.T (b int)") == taken
    assert client.rows("create temporary table if not exists T like t") == taken
    assert client.files() == before
    assert client.rows("select * from t") == [(1,)]


def test_column_definitions_create_empty_table(client):
    text = (
        "create temporary table t (a int comment 'it''s', `b c` decimal(10,2), d struct<`X y`: array<int>>) using csv"
    )
    client.run(text.replace(" using csv", ""))
    assert client.rows("select * from t") == []
    assert client.rows("describe t") == [
        ("a", "int", "it's"),
        ("b c", "decimal(10,2)", None),
        ("d", "struct<X y:array<int>>", None),
    ]
    client.run("insert into t values (1, 2.5, named_struct('X y', array(3)))")
    assert client.spark.table("t").select("a", "d.`X y`").collect() == [(1, [3])]


def test_like_creates_empty_table_with_same_columns(client):
    client.run("create temporary table a partition by (p) as select 1 x, 'y' p")
    client.run("create temporary view v as select 1.5 d")
    for source, columns in {
        "a": [("x", "int"), ("p", "string")],
        "dfs.tmp.A": [("x", "int"), ("p", "string")],
        "v": [("d", "decimal(2,1)")],
        "dfs.`amount.csv`": [("columns", "array<string>")],
    }.items():
        assert client.rows(f"create temporary table t like {source} using json") == [("0_0", 0)]
        assert client.spark.table("t").dtypes == columns
        client.run("drop table t")
    client.run("drop view v")
    client.refuses("create temporary table t like nowhere", "TABLE_OR_VIEW_NOT_FOUND", "42P01", "`nowhere`")


def test_malformed_statement_is_a_parse_error_with_position(client):
    for rest, text in (
        ("as", "expected a query"),
        ("as selec 1", "expected a query"),
        ("", "CREATE TEMPORARY TABLE without a provider"),
        ("(a, b)", "columns need types, or AS and a query after them"),
        ("(a int) as select 1", "columns before AS cannot have types"),
        ("partition by () as select 1 a", "expected a name"),
        ("partition by a as select 1 a", "line 1, pos 38"),
        ("comment c as select 1 a", "expected a comment between quotes"),
        ("location '/tmp/x' as select 1 a", "Lodge chooses where"),
        ("tblproperties a as select 1 a", "expected '('"),
        ("using csv using csv as select 1 a", "USING occurs twice"),
        ("as insert into t values (1)", "expected a query"),
    ):
        refused = ("PARSE_SYNTAX_ERROR", "42601") if rest else ("_LEGACY_ERROR_TEMP_0046", None)
        client.refuses(f"create temporary table x {rest}", *refused, text)
    statement = "create or replace temporary table if not exists x as select 1 a"
    client.refuses(statement, "PARSE_SYNTAX_ERROR", "42601", "OR REPLACE and IF NOT EXISTS exclude each other")


def test_error_positions_match_the_client_text(client):
    text = "create temporary table x as\nselect nope\nfrom range(1)"
    client.refuses(text, "UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703", "line 2 pos 7")


def test_explain_shows_query_plan_and_creates_nothing(client):
    ((plan,),) = client.rows("explain create temporary table t as select id from range(7)")
    assert "Range (0, 7" in plan
    assert client.tables() == []
