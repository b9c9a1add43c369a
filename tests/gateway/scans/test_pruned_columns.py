"""Scans that leave out columns return the same rows as Spark's own reader, also with operations of a DataFrame."""

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql.connect.functions import col, expr

pytestmark = pytest.mark.slow

OPERATIONS = {
    "where": lambda frame: frame.where("b > 15"),
    "where with a column": lambda frame: frame.where(col("b") > 15),
    "order": lambda frame: frame.orderBy(expr("-b")),
    "where and order": lambda frame: frame.where("`b c` > 0").orderBy(col("b").desc()),
    "select": lambda frame: frame.select("a"),
    "nothing": lambda frame: frame,
}


@pytest.fixture(scope="module")
def files(lodge):
    table = pa.table({"a": [1, 2, 3], "b": [20, 10, 30], "b c": [1, 0, 1], "d": ["x", "y", "z"]})
    parquet.write_table(table, lodge.files / "pruned.parquet")
    return lodge.files


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("variable", [False, True])
def test_data_frame_operations_find_columns_that_the_statement_does_not_select(
    restored_spark, files, operation, variable
):
    """Spark adds such columns to the statement. A variable with the same name must not replace them."""
    spark = restored_spark
    if variable:
        spark.sql("declare or replace variable b int default 100")
    rows = [
        OPERATIONS[operation](spark.sql(f"select a from {name}")).collect()
        for name in ("dfs.`pruned.parquet`", f"parquet.`{files}/pruned.parquet`")
    ]
    assert rows[0] == rows[1]


def test_columns_of_a_reference_get_other_names(restored_spark, files):
    (row,) = restored_spark.sql("select max(w) as m from dfs.`pruned.parquet` as t(x, y, z, w)").collect()
    assert row.m == "z"
