"""``EXPLAIN`` and ``DataFrame.explain`` count the files that conditions on columns of the path exclude."""

import contextlib
import io
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.connect.proto import base_pb2

pytestmark = pytest.mark.slow

PRUNED = re.compile(r"^  Pruned: (.*)$", re.MULTILINE)
NONE = "0 files (0 bytes)"
SIZES = {"2025/12/a": 100, "2025/11/b": 20, "2026/01/c": 3000}
ROWS = {path: f'{{"a":"{number:_>{size - 9}}"}}\n' for number, (path, size) in enumerate(SIZES.items())}


@pytest.fixture(scope="module")
def folder(lodge, tmp_path_factory):
    """A directory with files of known sizes in directories of years and months."""
    folder = lodge.files / tmp_path_factory.mktemp("explained_pruning").name
    for path, text in ROWS.items():
        (folder / path).parent.mkdir(parents=True)
        (folder / f"{path}.json").write_text(text)
        assert len(text) == SIZES[path]
    return folder


@pytest.fixture(scope="module")
def partitioned(lodge, tmp_path_factory):
    """A directory with two Parquet files in partitions, and the size of the file of 2025.

    Others may write to the files, so that only the engine reads them.
    """
    folder = lodge.files / tmp_path_factory.mktemp("explained_partitions").name
    for year in (2025, 2026):
        (folder / f"year={year}").mkdir(parents=True)
        path = folder / f"year={year}" / "part.parquet"
        pq.write_table(pa.table({"a": list(range(year))}), path)
        path.chmod(0o666)
    return folder, (folder / "year=2025" / "part.parquet").stat().st_size


def explain(spark, statement):
    ((text,),) = spark.sql(statement).collect()
    return PRUNED.findall(text)


def printed(frame):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        frame.explain()
    return PRUNED.findall(output.getvalue())


PRUNED_BY_CONDITION = {
    "dir0 in ('2026', '2027')": "2 files (120 bytes)",
    "dir0 < '2026'": "1 file (3,000 bytes)",
    "dir1 between '11' and '12' and a is not null": "1 file (3,000 bytes)",
    "dir1 like '1%'": "1 file (3,000 bytes)",
    "filename = 'b.json'": "2 files (3,100 bytes)",
    "dir0 = '1999'": "3 files (3,120 bytes)",
    "dir0 = '2025' or a = 'x'": NONE,
    "upper(dir0) = '2026'": NONE,
}


def test_files_are_counted(spark, folder):
    for condition, pruned in PRUNED_BY_CONDITION.items():
        statement = f"explain select a from dfs.`{folder.name}` where {condition}"
        assert explain(spark, statement) == [pruned], condition


def test_modes_count_the_same(spark, folder):
    for mode in ("EXTENDED", "/* x */ codegen"):
        statement = f"explain {mode} select a from dfs.`{folder.name}` where dir0 = '2026'"
        assert explain(spark, statement) == ["2 files (120 bytes)"], mode


def test_partition_columns_are_counted(spark, partitioned):
    folder, size_bytes = partitioned
    expected = [f"1 file ({size_bytes:,} bytes)"]
    assert explain(spark, f"explain select count(*) from dfs.`{folder.name}` where year > 2025") == expected
    assert printed(spark.table(f"dfs.`{folder.name}`").filter("year = 2026").select("a")) == expected


def test_filters_of_the_data_frame_are_counted(spark, folder):
    frame = spark.table(f"dfs.`{folder.name}`")
    assert printed(frame) == [NONE]
    assert printed(frame.filter(frame.dir0 == "2026").groupBy("a").count()) == ["2 files (120 bytes)"]


@pytest.mark.parametrize(
    "query",
    [
        "with c as (select * from {}) select a from c where dir0 = '2026'",
        "with c as (select a x, dir0 y from {}), d as (select c.x from c where c.y = '2026') select x from d",
        "select a from (select * from {}) t where t.dir0 = '2026'",
        "select a from (select a, dir0 from {} union all select 'x', null) where dir0 = '2026'",
        "with c as (select 1 b) select a from (select a, dir0 d from {}) join (select b from c) on d = '2026'",
    ],
)
def test_conditions_reach_scans_in_other_queries(spark, folder, query):
    frame = spark.sql(query.format(f"dfs.`{folder.name}`"))
    assert printed(frame) == ["2 files (120 bytes)"]
    assert frame.count() == 1


def test_parameters_are_kept(spark, folder):
    query = f"select a from dfs.`{folder.name}` where dir0 = "
    ((text,),) = spark.sql(f"explain {query} :year", args={"year": "2026"}).collect()
    assert PRUNED.findall(text) == ["2 files (120 bytes)"]
    assert printed(spark.sql(f"{query} ?", args=["2026"])) == ["2 files (120 bytes)"]


def test_each_scan_has_its_own_number(spark, folder, partitioned):
    other, size_bytes = partitioned
    query = f"""select l.a from dfs.`{folder.name}` l join dfs.`{other.name}` r on length(l.a) = r.a
        where l.dir0 = '2026' and r.year = 2026"""
    assert explain(spark, f"explain {query}") == ["2 files (120 bytes)", f"1 file ({size_bytes:,} bytes)"]


def test_scans_of_a_data_frame_have_their_own_numbers(spark, folder):
    def of(year):
        return spark.table(f"dfs.`{folder.name}`").filter(f"dir0 = '{year}'")

    assert printed(of(2025).unionAll(of(2026))) == ["1 file (3,000 bytes)", "2 files (120 bytes)"]


@pytest.mark.parametrize(
    "query",
    [
        "select a from {} where dir0 = '2025' union all select a from {} where dir0 = '2026'",
        "with c as (select * from {}) select a from c where dir0 = '2025' union select a from c where dir0 = '2026'",
        "with c as (select 1 b) select a from {} where dir0 = '2026' and exists (select 1 from c where b = length(a))",
        "select a from {} where dir0 = '2026' and a in (select max(b) from values ('x') t(b))",
    ],
)
def test_scans_that_spark_may_use_twice_keep_all_files(spark, folder, query):
    query = query.format(*[f"dfs.`{folder.name}`"] * 2)
    assert set(explain(spark, f"explain {query}")) == {NONE}


def test_sessions_with_persisted_data_frames_keep_all_files(own_spark, folder):
    persisted = own_spark.table(f"dfs.`{folder.name}`").persist()
    assert printed(own_spark.table(f"dfs.`{folder.name}`").filter("dir0 = '2026'")) == [NONE]
    persisted.unpersist()


def test_declared_schema_is_counted(spark, folder):
    scan = f"dfs.`{folder.name}` with (schema = 'a string, dir0 string')"
    assert explain(spark, f"explain select a from {scan} where dir0 = '2026'") == ["2 files (120 bytes)"]


def test_creation_of_a_temporary_table_is_counted(spark, folder):
    query = f"select a from dfs.`{folder.name}` where dir0 = '2026'"
    assert explain(spark, f"explain create temporary table pruned as {query}") == ["2 files (120 bytes)"]
    assert "pruned" not in {table.name for table in spark.catalog.listTables()}


def test_commands_are_neither_counted_nor_executed(spark, folder):
    spark.sql("create table explained_target (a string) using parquet")
    try:
        query = f"select a from dfs.`{folder.name}` where dir0 = '2026'"
        assert explain(spark, f"explain insert into explained_target {query}") == []
        with_table = f"with insert as ({query})"
        assert explain(spark, f"explain {with_table} from insert insert into explained_target select a") == []
        assert explain(spark, f"explain create table explained_new as {query}") == []
        assert spark.table("explained_target").count() == 0
        assert not spark.catalog.tableExists("explained_new")
    finally:
        spark.sql("drop table explained_target")


def test_commands_in_an_analysis_run_no_second_time(spark, folder):
    """Spark executes a SQL command in a plan while it analyzes the plan, also for ``DataFrame.explain``."""
    spark.sql("create table analyzed_target (a string) using parquet")
    try:
        plan = base_pb2.Plan()
        plan.root.sql.query = f"insert into analyzed_target select a from dfs.`{folder.name}` where dir0 = '2026'"
        text = spark.client._analyze("explain", plan=plan, explain_mode="simple").explain_string
        assert PRUNED.findall(text) == []
        assert spark.table("analyzed_target").count() == 1
    finally:
        spark.sql("drop table analyzed_target")


def test_clients_cannot_set_the_task(spark, folder):
    reader = spark.read.format("lodge").option("task", "count_pruned")
    with pytest.raises(Exception, match="cannot be specified for a path of a workspace"):
        reader.load(f"dfs.`{folder.name}`").collect()
