"""Filters on implicit columns."""

import pyarrow as pa
import pytest
from pyspark.sql import datasource

from engine.file_scan.file_scan import FileScan
from engine.file_scan.partitions import plan_partitions
from engine.scan.path_filter import IS_NOT_NULL, IS_NULL, PathFilter
from engine.schema import IMPLICIT_MARK, TupleSchema
from engine.spark import to_path_filter

FILES = ["2025/01/a.csv", "2025/12/b.csv", "2026/01/a.csv", "2026/c.csv", "d.csv"]
COLUMNS = [pa.field(name, pa.string(), metadata=IMPLICIT_MARK) for name in ("dir0", "dir1", "filename")]


@pytest.fixture
def source(workspace):
    for path in FILES:
        workspace.write(path, "1\n")
    return workspace.scan(".")


def read_files(source, *filters, schema=COLUMNS, is_declared=False):
    scan = FileScan.from_options(source.to_options())
    partitions = plan_partitions(scan, TupleSchema(schema), is_declared=is_declared, path_filters=filters)
    return [file.path for files in partitions for file in files]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([PathFilter("dir0", "=", ["2026"])], [2, 3]),
        ([PathFilter("DIR0", "=", ["2026"])], [2, 3]),
        ([PathFilter("dir0", "=", ["2024", "2025"])], [0, 1]),
        ([PathFilter("dir0", "=", [])], []),
        ([PathFilter("dir0", ">", ["2025"])], [2, 3]),
        ([PathFilter("dir0", ">=", ["2025"]), PathFilter("dir1", "<=", ["01"])], [0, 2]),
        ([PathFilter("dir0", "starts with", ["20"])], [0, 1, 2, 3]),
        ([PathFilter("filename", "ends with", ["a.csv"])], [0, 2]),
        ([PathFilter("filename", "contains", ["."])], [0, 1, 2, 3, 4]),
        ([PathFilter("dir1", IS_NULL)], [3, 4]),
        ([PathFilter("dir1", IS_NOT_NULL)], [0, 1, 2]),
        ([PathFilter("dir0", "<", ["~"])], [0, 1, 2, 3]),
        ([PathFilter("columns", "=", ["x"])], [0, 1, 2, 3, 4]),
        ([PathFilter("dir0", "=", [2026])], [0, 1, 2, 3]),
    ],
)
def test_filters_select_files(source, filters, expected):
    assert read_files(source, *filters) == [FILES[number] for number in expected]


def test_column_of_the_files_does_not_select_files(source):
    """A column of the files takes precedence over an implicit column with its name."""
    filter_ = PathFilter("dir0", "=", ["2026"])
    assert read_files(source, filter_, schema=[pa.field("dir0", pa.string())]) == FILES
    assert read_files(source, filter_, schema=[pa.field("dir0", pa.string())], is_declared=True) == FILES[2:4]


def test_excluded_files_are_not_opened(source, workspace):
    scan = FileScan.from_options(source.to_options(reader={"partition_bytes": "65536", "header": "true"}))
    files = scan.list_files()
    for path in ("2025/01/a.csv", "2025/12/b.csv"):
        (workspace.root / path).unlink()
    listed = FileScan(scan.source, scan.options, scan.reader_options, listed=files)
    only = plan_partitions(listed, TupleSchema(COLUMNS), path_filters=[PathFilter("dir0", ">=", ["2026"])])
    assert [file.path for group in only for file in group] == FILES[2:4]


@pytest.mark.parametrize(
    ("spark_filter", "expected"),
    [
        (datasource.EqualTo(("a",), "x"), PathFilter("a", "=", ["x"])),
        (datasource.EqualTo(("a",), None), PathFilter("a", "=", [])),
        (datasource.In(("a",), ("x", None)), PathFilter("a", "=", ["x"])),
        (datasource.LessThanOrEqual(("a",), "x"), PathFilter("a", "<=", ["x"])),
        (datasource.StringStartsWith(("a",), "x"), PathFilter("a", "starts with", ["x"])),
        (datasource.IsNotNull(("a",)), PathFilter("a", IS_NOT_NULL)),
        (datasource.EqualTo(("a", "b"), "x"), None),
        (datasource.Not(datasource.EqualTo(("a",), "x")), None),
        (datasource.EqualNullSafe(("a",), None), None),
    ],
)
def test_filters_of_spark_are_converted(spark_filter, expected):
    assert to_path_filter(spark_filter) == expected
