"""The number of rows that a statement has written."""

import pytest
from pyspark.errors.exceptions.connect import SparkConnectException

WITHOUT_METRICS = """
import sys
from dataclasses import replace
from gateway.backends.followed_operation import FollowedOperation
from lodge.cli import main

result = FollowedOperation.result
FollowedOperation.result = lambda following: replace(result(following), observed={})
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


def test_text_files_are_counted_with_the_schema_of_the_table(spark):
    """Spark would infer a column for each key of the map, and two columns with the same name."""
    rows = "select map('a', id, 'A', id, cast(id as string), id) m from range(30000)"
    assert spark.sql(f"create temporary table json_map using json as {rows}").collect() == [("0_0", 30000)]
    assert spark.sql("select m['a'], m['A'] from json_map where m['a'] = 7").collect() == [(7, 7)]


@pytest.mark.parametrize(
    "definition",
    [
        "using csv options (nullValue '') as select cast(null as int) a from range(4)",
        "using csv options (emptyValue '') as select '' a from range(4)",
        "partitioned by (k) as select id, if(id < 1, 'x', 'y._COPYING_') k from range(4)",
        "partitioned by (`.k`) as select id, id `.k` from range(4)",
    ],
)
def test_rows_that_spark_cannot_read_again_are_refused(spark, definition):
    with pytest.raises(SparkConnectException, match=r"LODGE_ROWS_DIFFER.*The backend wrote 4 rows for table"):
        spark.sql(f"create temporary table unreadable {definition}").collect()
    assert not spark.catalog.tableExists("unreadable")
