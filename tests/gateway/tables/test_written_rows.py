"""The number of rows that a statement has written, at a backend that does not report it."""

import pytest

WITHOUT_METRICS = """
import sys
from dataclasses import replace
from gateway import backend_session
from lodge.cli import main

result = backend_session._Following.result
backend_session._Following.result = lambda following: replace(result(following), observed={})
sys.exit(main())
"""


@pytest.fixture(scope="module")
def silent_lodge(start_lodge, spark_server):
    return start_lodge("--writable-workspace", "dfs", backend=spark_server, program=["-c", WITHOUT_METRICS])


@pytest.mark.parametrize(
    ("storage_format", "partitions"),
    [("parquet", ""), ("parquet", " partitioned by (k)"), ("orc", ""), ("json", ""), ("csv", "")],
)
def test_rows_are_counted_in_the_files(silent_lodge, connect, storage_format, partitions):
    spark = connect(silent_lodge)
    rows = "select concat('a\\n', id) s, id % 3 k from range(10)"
    created = spark.sql(f"create temporary table t using {storage_format}{partitions} as {rows}")
    assert created.collect() == [("0_0", 10)]
    spark.sql(f"insert into t {rows} where id < 4")
    assert spark.table("t").count() == 14
    kept = f"dfs.kept_{storage_format}{len(partitions)}"
    assert spark.sql(f"create table {kept} using {storage_format}{partitions} as {rows}").collect() == [("0_0", 10)]
    assert spark.sql(f"create temporary table empty as {rows} where id < 0").collect() == [("0_0", 0)]
