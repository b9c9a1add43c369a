"""Statements that use one scan in several places, or again: filters of one place must not reach the others."""

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.slow

ROWS = 400
OFF = "with (spark_readers = false)"


@pytest.fixture(scope="module")
def dirs(lodge, tmp_path_factory):
    """Four directories with one file of one row each."""
    folder = lodge.files / tmp_path_factory.mktemp("dirs").name
    for number, name in enumerate("abcd"):
        (folder / name).mkdir(parents=True)
        (folder / name / "f.json").write_text(json.dumps({"i": number}) + "\n")
        os.utime(folder / name / "f.json", (1_700_000_000, 1_700_000_000))
    return f"dfs.`{folder.name}`"


@pytest.fixture(scope="module")
def numbers(lodge, tmp_path_factory):
    """A Parquet file with many small row groups, which filters can skip."""
    folder = lodge.files / tmp_path_factory.mktemp("numbers").name
    folder.mkdir()
    table = pa.table({"i": range(ROWS), "g": [number % 7 for number in range(ROWS)]})
    pq.write_table(table, folder / "a.parquet", row_group_size=7)
    return f"dfs.`{folder.name}`"


def values(frame):
    return sorted(tuple(row) for row in frame.collect())


def test_places_of_a_union_have_their_own_rows(spark, dirs, numbers):
    text = (
        f"select 'a', count(i) from {dirs} where dir0 = 'a' union all "
        f"select 'bd', count(i) from {dirs} where dir0 >= 'b' union all select 'all', count(i) from {dirs}"
    )
    assert values(spark.sql(text)) == [("a", 1), ("all", 4), ("bd", 3)]
    name = f"{numbers} {OFF}"
    text = f"select count(i) from {name} where i < 0 union all select count(i) from {name}"
    assert values(spark.sql(text)) == [(0,), (ROWS,)]


def test_places_of_a_join_have_their_own_rows(spark, numbers):
    name = f"{numbers} {OFF}"
    text = f"select count(*) from {name} a join {name} b on a.g + 6 >= b.g where a.i < 3 and b.i >= 398"
    assert values(spark.sql(text)) == [(6,)]


def test_common_table_expression_gives_each_use_its_rows(spark, dirs):
    text = (
        f"with c as (select * from {dirs}) select 1, count(*) from c where dir0 = 'a' union all "
        "select 2, count(*) from c where dir0 = 'b' union all select 3, count(*) from c"
    )
    assert values(spark.sql(text)) == [(1, 1), (2, 1), (3, 4)]


@pytest.mark.parametrize("kind", ["dirs", "numbers"])
def test_queries_in_places_of_tables_have_their_own_rows(spark, dirs, numbers, kind):
    """Some of the conditions reach the scan. No other place of the statement loses rows."""
    name, low, all_ = (dirs, "dir0 = 'a'", 4) if kind == "dirs" else (f"{numbers} {OFF}", "i < 1", ROWS)
    one = f"(select count(*) n from (select * from {name}) t where {low})"
    rest = f"(select count(*) n from (select * from {name}) t)"
    assert values(spark.sql(f"select * from {one} union all select * from {rest}")) == [(1,), (all_,)]
    assert values(spark.sql(f"with c as {one}, d as {rest} select c.n, d.n from c join d on true")) == [(1, all_)]
    twice = f"with c as (select * from {name}), d as (select * from c where {low}), e as (select * from c)"
    assert values(spark.sql(f"{twice} select (select count(*) from d), (select count(*) from e)")) == [(1, all_)]
    assert values(spark.sql(f"{twice} select count(*) from d union all select count(*) from e")) == [(1,), (all_,)]
    frame = spark.sql(f"with c as (select * from {name}) select * from c")
    assert [frame.filter(low).count(), frame.count(), frame.filter(low).union(frame).count()] == [1, all_, all_ + 1]


def test_variables_that_use_a_table_again_have_their_own_rows(restored_spark, dirs):
    restored_spark.conf.set("lodge.test.more", "union all select i from c")
    text = f"with c as (select * from {dirs}) select i from c where dir0 = 'a' ${{lodge.test.more}}"
    assert restored_spark.sql(text).count() == 5
    assert restored_spark.sql(f"select count(*) from ({text})").collect() == [(5,)]


def test_subqueries_have_their_own_rows(spark, dirs, numbers):
    text = f"select i from {dirs} where dir0 = 'a' or exists (select 1 from {dirs} where dir0 = 'zz')"
    assert values(spark.sql(text)) == [(0,)]
    name = f"{numbers} {OFF}"
    text = f"select i, (select count(*) from {name} b where b.i < a.i) from {name} a where a.i < 3 order by i"
    assert values(spark.sql(text)) == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.parametrize("api", ["table", "sql"])
def test_data_frame_gives_each_use_its_rows(spark, dirs, api):
    frame = spark.table(dirs) if api == "table" else spark.sql(f"select * from {dirs}")
    assert frame.columns == ["i", "dir0"]
    assert frame.filter("dir0 = 'a'").union(frame.filter("dir0 = 'b'")).count() == 2
    assert frame.filter("dir0 = 'a'").union(frame).count() == 5
    assert frame.filter("dir0 = 'a'").join(frame, "i", "right").count() == 4
    selected = frame.select("dir0")
    assert selected.columns == ["dir0"]
    assert [selected.filter("dir0 = 'a'").count(), selected.count(), frame.filter("dir0 > 'b'").count()] == [1, 4, 2]
    assert [frame.count(), selected.filter("upper(dir0) = 'A'").count(), frame.count()] == [4, 1, 4]


@pytest.mark.parametrize("kind", ["data frame", "statement"])
def test_view_gives_each_statement_its_rows(restored_spark, dirs, kind):
    if kind == "data frame":
        restored_spark.table(dirs).createOrReplaceTempView("v")
    else:
        restored_spark.sql(f"create or replace temporary view v using lodge options (path '{dirs}')")
    counts = [
        restored_spark.sql(f"select count(*) from v{where}").first()[0]
        for where in ("", " where dir0 = 'a'", "", " where dir0 >= 'c'", " where upper(dir0) = 'B'")
    ]
    assert counts == [4, 1, 4, 2, 1]


def test_loops_of_a_script_have_their_own_rows(spark, dirs):
    text = (
        "begin declare n int default 0; declare total bigint default 0; while n < 2 do "
        f"set total = total + (select count(*) from {dirs} where dir0 = if(n = 0, 'a', dir0)); set n = n + 1; "
        "end while; select total; end"
    )
    assert values(spark.sql(text)) == [(5,)]


def test_persisted_data_frame_is_read_once(own_spark, lodge, tmp_path_factory):
    folder = lodge.files / tmp_path_factory.mktemp("persisted").name
    folder.mkdir()
    (folder / "f.json").write_text('{"i": 1}\n{"i": 2}\n')
    os.utime(folder / "f.json", (1_700_000_000, 1_700_000_000))
    frame = own_spark.table(f"dfs.`{folder.name}`").persist()
    assert frame.count() == 2
    plan = frame.filter("i = 1")._explain_string()
    assert "InMemoryTableScan" in plan
    assert frame.filter("i = 1").count() == 1
    frame.unpersist()


def test_filters_still_exclude_files_of_single_uses(restored_spark, lodge, tmp_path_factory):
    folder = lodge.files / tmp_path_factory.mktemp("single").name
    for name, content in (("a", '{"i": 1}\n'), ("b", "no JSON\n")):
        (folder / name).mkdir(parents=True)
        (folder / name / "f.json").write_text(content)
    declared = f"dfs.`{folder.name}` with (schema = 'i long, dir0 string')"
    assert values(restored_spark.sql(f"select i from {declared} where dir0 = 'a'")) == [(1,)]
    assert values(restored_spark.sql(f"select i, dir0 from {declared}").filter("dir0 = 'a'")) == [(1, "a")]
    reader = restored_spark.read.format("lodge").schema("i long, dir0 string")
    assert values(reader.load(f"dfs.`{folder.name}`").filter("dir0 = 'a'").select("i")) == [(1,)]
    restored_spark.sql(f"create temporary table t as select i from {declared} where dir0 = 'a'")
    assert values(restored_spark.table("t")) == [(1,)]


@pytest.fixture(scope="module")
def with_root_file(lodge, tmp_path_factory):
    """Four directories with a file each, and a file beside them, for which ``dir0`` is null."""
    folder = lodge.files / tmp_path_factory.mktemp("root").name
    for number, place in enumerate((".", "a", "b", "c", "d")):
        (folder / place).mkdir(parents=True, exist_ok=True)
        (folder / place / "f.json").write_text(json.dumps({"i": number}) + "\n")
    return f"dfs.`{folder.name}`"


@pytest.fixture
def own_view(restored_spark, tmp_path):
    """A view that Spark does not keep in memory, so that it does not simplify subqueries of it."""
    pq.write_table(pa.table({"k": [1, 2], "d": ["a", "b"]}), tmp_path / "v.parquet")
    restored_spark.read.parquet(str(tmp_path / "v.parquet")).createOrReplaceTempView("v")


SUBQUERIES = (
    "(select count(*) from v where v.d < dir0)",
    "(from v |> where v.d < dir0 |> aggregate count(*) as n)",
    "(select count(*) from (select * from v where v.d <= dir0 and dir0 = 'b' union all "
    "select * from v where v.d < dir0 and dir0 = 'b'))",
)


def test_correlated_subqueries_in_expressions_lose_no_rows(restored_spark, with_root_file, own_view):
    frame = restored_spark.table(with_root_file)
    for subquery in SUBQUERIES:
        selected = frame.selectExpr("i", "dir0", f"{subquery} c")
        assert sorted(row.i for row in selected.collect()) == [0, 1, 2, 3, 4], subquery
        text = f"select i, dir0, {subquery} c from {with_root_file}"
        assert sorted(row.i for row in restored_spark.sql(text).collect()) == [0, 1, 2, 3, 4], subquery


def test_sql_functions_with_subqueries_lose_no_rows(restored_spark, with_root_file, own_view):
    body = "(x string) returns bigint return (select count(*) from v where v.d < x)"
    restored_spark.sql(f"create temporary function lower_ones{body}")
    for call in (
        "lower_ones(dir0)",
        "lower_ones /* count( */ (dir0)",
        "`lower_ones`(dir0)",
        "session.lower_ones(dir0)",
    ):
        assert restored_spark.sql(f"select i, {call} c from {with_root_file}").count() == 5, call
        assert restored_spark.table(with_root_file).selectExpr("i", f"{call} c").count() == 5, call
    restored_spark.sql(f"create temporary table kept as select i, lower_ones(dir0) c from {with_root_file}")
    assert restored_spark.table("kept").count() == 5
