"""Filters on the columns of a path exclude files before they are opened."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException

pytestmark = pytest.mark.slow

BROKEN = "2025/01"


@pytest.fixture(scope="module")
def scan(lodge, tmp_path_factory):
    """A directory in which one file cannot be read, so that each statement that opens the file fails."""
    folder = lodge.files / tmp_path_factory.mktemp("pruned").name
    for directory, value in (("2025/12", 1), ("2026/01", 2), ("2026/11", 3)):
        (folder / directory).mkdir(parents=True)
        pq.write_table(pa.table({"a": [value]}), folder / directory / "a.parquet")
    (folder / BROKEN).mkdir()
    (folder / BROKEN / "broken.parquet").write_bytes(b"PAR1 and nothing else")
    return f"dfs.`{folder.name}` with (schema = 'a long, dir0 string, dir1 string, filename string')"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("dir0 in ('2026', '2027') and dir1 = '11'", [3]),
        ("dir0 > '2025' and a > 0", [2, 3]),
        ("dir1 between '02' and '12'", [1, 3]),
        ("dir1 like '%2'", [1]),
        ("not (filename like 'b%') and filename = 'a.parquet'", [1, 2, 3]),
        ("dir0 = '1999'", []),
    ],
)
def test_excluded_files_are_not_opened(spark, scan, condition, expected):
    assert spark.sql(f"select a from {scan} where {condition} order by a").collect() == [(each,) for each in expected]


@pytest.mark.parametrize("condition", ["dir0 = '2025'", "dir0 = '2026' or a = 1", "upper(dir0) = '2026'"])
def test_other_conditions_open_the_file(spark, scan, condition):
    with pytest.raises(AnalysisException, match=r"broken\.parquet"):
        spark.sql(f"select a from {scan} where {condition}").collect()


@pytest.mark.parametrize(
    "query",
    [
        "with c as (select * from {}) select a from c where dir0 = '2026'",
        "with c as (select a x, dir0 y from {}), d as (select c.x from c where c.y = '2026') select x from d",
        "select a from (select * from {}) t where t.dir0 = '2026'",
        "select a from (select a, dir0 from {} union all select 2, null) where dir0 = '2026'",
        "with c as (select 1 b) select a from (select a, dir0 d from {}) join (select b from c) on d = '2026'",
    ],
)
def test_conditions_reach_scans_in_other_queries(spark, scan, query):
    assert sorted(row[0] for row in spark.sql(query.format(scan)).collect()) == [2, 3]


def test_conditions_reach_scans_of_data_frames_and_parameters(spark, scan):
    frame = spark.sql(f"select a, dir0 from {scan}")
    assert frame.filter(frame.dir0 == "2026").groupBy("dir0").sum("a").collect() == [("2026", 5)]
    assert spark.sql(f"select count(*) from {scan} where dir0 = :year", args={"year": "2026"}).collect() == [(2,)]
    assert spark.sql(f"select count(*) from {scan} where dir0 = ?", args=["2026"]).collect() == [(2,)]
