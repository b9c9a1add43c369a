"""The types of Parquet and ORC: each row of the tables in ``docs/reference/formats.md``, beside Spark's own reader."""

import datetime
import os
import re
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc, parquet
from pyspark.errors import PySparkException

from engine.file_scan.file_scan import FileScan
from engine.file_scan.schema_discovery import examine_file
from engine.readers.columnar.spark_marks import is_marked
from engine.scan_source import ScanSource
from tests.engine.file_bytes import written
from tests.thrift_footers import STRUCT, change_schema, i32

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference" / "formats.md"
FILES = ROOT / "tests" / "foreign_files" / "files"
ROW = re.compile(r"\| (.+?) \| (.+?) \| (.+?) \| (\w*) ?\|")
TYPE, NAME, CHILDREN, CONVERTED, LOGICAL = 1, 4, 5, 6, 10
POINT = bytes.fromhex("0101000000000000000000F03F0000000000000040")
NOON = datetime.datetime(2001, 2, 3, 12, 30, 15, 123000)
INSTANT = NOON.replace(tzinfo=datetime.UTC)
OFF = "with (spark_readers = false)"


def logical(number, converted=None):
    """Return the fields of a schema element with a logical type that has no details."""
    fields = {LOGICAL: (STRUCT, {number: (STRUCT, {})})}
    return fields if converted is None else {**fields, CONVERTED: i32(converted)}


PARQUET = {
    "`BOOLEAN`": (pa.bool_(), True, None),
    "`INT32`": (pa.int32(), -5, None),
    "`INT64`": (pa.int64(), -(2**63), None),
    "`INT32` as `INT(8, signed)`": (pa.int8(), -128, None),
    "`INT32` as `INT(16, signed)`": (pa.int16(), -32768, None),
    "`INT32` as `INT(8, unsigned)`": (pa.uint8(), 255, None),
    "`INT32` as `INT(16, unsigned)`": (pa.uint16(), 65535, None),
    "`INT32` as `INT(32, unsigned)`": (pa.uint32(), 2**32 - 1, None),
    "`INT64` as `INT(64, unsigned)`": (pa.uint64(), 2**64 - 1, None),
    "`FLOAT`": (pa.float32(), 1.5, None),
    "`DOUBLE`": (pa.float64(), -0.1, None),
    "`FIXED_LEN_BYTE_ARRAY` as `FLOAT16`": (pa.float16(), 1.5, None),
    "`INT32` as `DECIMAL`": (pa.decimal128(9, 2), Decimal("1.25"), None),
    "`INT64` as `DECIMAL`": (pa.decimal128(18, 2), Decimal("-1.25"), None),
    "`FIXED_LEN_BYTE_ARRAY` as `DECIMAL`": (pa.decimal128(38, 2), Decimal("1.25"), None),
    "`INT32` as `DATE`": (pa.date32(), datetime.date(1500, 1, 1), None),
    "`INT32` as `TIME(ms)`": (pa.time32("ms"), NOON.time(), None),
    "`INT64` as `TIME(us)`": (pa.time64("us"), NOON.time(), None),
    "`INT64` as `TIMESTAMP(ms, UTC)`": (pa.timestamp("ms", "UTC"), INSTANT, None),
    "`INT64` as `TIMESTAMP(us, UTC)`": (pa.timestamp("us", "UTC"), INSTANT, None),
    "`INT64` as `TIMESTAMP(ns, UTC)`": (pa.timestamp("ns", "UTC"), INSTANT, None),
    "`INT64` as `TIMESTAMP(ms, local)`": (pa.timestamp("ms"), NOON, None),
    "`INT64` as `TIMESTAMP(us, local)`": (pa.timestamp("us"), NOON, None),
    "`INT64` as `TIMESTAMP(ns, local)`": (pa.timestamp("ns"), NOON, None),
    "`INT96`": (pa.timestamp("ns"), NOON, "int96"),
    "`BYTE_ARRAY`": (pa.binary(), b"\xff", None),
    "`FIXED_LEN_BYTE_ARRAY`": (pa.binary(3), b"abc", None),
    "`BYTE_ARRAY` as `STRING`": (pa.string(), "ä", None),
    "`BYTE_ARRAY` as `ENUM`": (pa.binary(), b"RED", logical(4, 4)),
    "`BYTE_ARRAY` as `JSON`": (pa.binary(), b"[1]", logical(12, 19)),
    "`BYTE_ARRAY` as `BSON`": (pa.binary(), b"\x05\x00\x00\x00\x00", logical(13, 20)),
    "`FIXED_LEN_BYTE_ARRAY` as `UUID`": (pa.binary(16), bytes(16), logical(14)),
    "`FIXED_LEN_BYTE_ARRAY` as `INTERVAL`": (pa.binary(12), bytes(12), {CONVERTED: i32(21)}),
    "`INT32` as `UNKNOWN`, a column of nulls": (pa.null(), None, None),
    "`BYTE_ARRAY` as `GEOMETRY`": (pa.binary(), POINT, logical(17)),
    "`BYTE_ARRAY` as `GEOGRAPHY`": (pa.binary(), POINT, logical(18)),
    "group as `VARIANT`": (
        pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)]),
        {"metadata": b"\x01\x00\x00", "value": b"\x0c\x05"},
        {LOGICAL: (STRUCT, {16: (STRUCT, {1: (3, b"\x01")})})},
    ),
}
"""The type, a value and the annotation of the file of each row. None if PyArrow writes the annotation."""

ORC = {
    "`boolean`": pa.array([True, None]),
    "`tinyint`": pa.array([-128, None], pa.int8()),
    "`smallint`": pa.array([-32768, None], pa.int16()),
    "`int`": pa.array([-5, None], pa.int32()),
    "`bigint`": pa.array([2**63 - 1, None]),
    "`float`": pa.array([1.5, None], pa.float32()),
    "`double`": pa.array([-0.1, None]),
    "`string`": pa.array(["ä", None]),
    "`char`": ("hive-2.3.10-none.orc", "char"),
    "`varchar`": ("hive-2.3.10-none.orc", "varchar"),
    "`binary`": pa.array([b"\xff", None]),
    "`decimal`": pa.array([Decimal("1.25"), None], pa.decimal128(18, 2)),
    "`date`": pa.array([datetime.date(2001, 2, 3), None]),
    "`timestamp`": pa.array([NOON, None], pa.timestamp("ns")),
    "`timestamp with local time zone`": pa.array([INSTANT, None], pa.timestamp("ns", "UTC")),
}
"""The values of the file of each row, or the name of a file of another program and of its column."""


def rows_of(kind):
    """Return the rows of a table: the types of Spark and of Lodge, and the reader, by the type in the file."""
    text = PAGE.read_text()
    table = text.partition(f"<!-- Begin of types of {kind}. -->")[2].partition("<!-- End")[0]
    rows = [ROW.fullmatch(line).groups() for line in table.strip().splitlines()[2:]]
    return {row[0]: tuple(cell.strip("`") for cell in row[1:]) for row in rows}


OF_PARQUET, OF_ORC = rows_of("Parquet"), rows_of("ORC")
REFUSED = "refused"


@pytest.fixture(scope="module")
def lodge(start_lodge, spark_server):
    gateway = start_lodge(backend=spark_server)
    yield gateway
    gateway.stop()


def nested(type_, value):
    """Return the columns of a file: the value alone, and inside a struct, a list and a map."""
    return pa.table(
        {
            "alone": pa.array([value, None], type_),
            "member": pa.array([{"x": value}, {"x": None}], pa.struct([("x", type_)])),
            "many": pa.array([[value, None], None], pa.list_(type_)),
            "named": pa.array([[("k", value)], None], pa.map_(pa.string(), type_)),
        }
    )


def annotate(annotation, *, is_group):
    """Return the function that gives an annotation to each leaf, or group, of a type."""

    def change(element):
        is_of_type = element[NAME][1] in (b"alone", b"x", b"element", b"value")
        is_variant = is_group and element.get(CHILDREN) == i32(2)
        is_leaf = not is_group and TYPE in element
        if is_of_type and (is_variant or is_leaf):
            element.pop(CONVERTED, None)
            element.update(annotation)

    return change


def types_of(type_):
    return [type_, f"struct<x:{type_}>", f"array<{type_}>", f"map<string,{type_}>"]


def read(build):
    """Return the types and values of a DataFrame. "refused" if it cannot be read."""
    try:
        frame = build()
        return [field.dataType.simpleString() for field in frame.schema], list(map(repr, frame.collect()))
    except PySparkException:
        return REFUSED


def reader_of(lodge, name, columns, format_):
    """Return which reader may read columns of a file."""
    scan = FileScan.from_options(ScanSource("dfs", str(lodge.files), name).to_options())
    schema = examine_file(scan, scan.open_later(scan.list_files()[0]))
    marked = {is_marked(schema.find(column).metadata, format_) for column in columns}
    assert len(marked) == 1
    return "both" if marked.pop() else "engine"


def put(lodge, name, data):
    path = lodge.files / name
    path.write_bytes(data)
    os.utime(path, (1e9, 1e9))  # the gateway does not trust recent files
    return path


def test_tables_have_all_types():
    assert list(OF_PARQUET) == list(PARQUET)
    assert list(OF_ORC) == list(ORC)


@pytest.mark.parametrize("row", PARQUET)
def test_type_of_parquet(spark, direct, lodge, row):
    type_, value, annotation = PARQUET[row]
    of_spark, of_lodge, reader = OF_PARQUET[row]
    is_int96 = annotation == "int96"
    data = written(
        parquet.write_table,
        nested(type_, value),
        store_schema=False,
        use_deprecated_int96_timestamps=is_int96,
        version="2.6",
        store_decimal_as_integer=True,
    )
    if annotation is not None and not is_int96:
        data = change_schema(data, annotate(annotation, is_group=pa.types.is_struct(type_)))
    name = f"{list(PARQUET).index(row)}.parquet"
    path = put(lodge, name, data)
    expected = read(lambda: direct.read.parquet(str(path)))
    found = read(lambda: spark.table(f"dfs.`{name}`"))
    assert (expected if expected == REFUSED else expected[0]) == (
        REFUSED if of_spark == REFUSED else types_of(of_spark)
    )
    assert (found if found == REFUSED else found[0]) == (REFUSED if of_lodge == REFUSED else types_of(of_lodge))
    assert read(lambda: spark.sql(f"select * from dfs.`{name}` {OFF}")) == found
    if of_spark == of_lodge:
        assert found == expected
    if found != REFUSED:
        columns = ["alone", "member", "many", "named"]
        floating = ["alone", "many", "named"]  # filters on members depend on NaN
        assert reader_of(lodge, name, floating if "FLOAT" in row or "DOUBLE" in row else columns, "parquet") == reader


@pytest.mark.parametrize("row", ORC)
def test_type_of_orc(spark, direct, lodge, row):
    case = ORC[row]
    of_spark, of_lodge, reader = OF_ORC[row]
    if isinstance(case, tuple):
        source, column = case
        name, columns, types = source, [column], [lambda type_: type_]
        path = put(lodge, name, (FILES / source).read_bytes())
    else:
        name, columns, types = f"{list(ORC).index(row)}.orc", ["alone", "member", "many", "named"], None
        path = put(lodge, name, written(orc.write_table, nested(case.type, case[0].as_py())))
    expected = read(lambda: direct.read.orc(str(path)).select(columns))
    found = read(lambda: spark.sql(f"select {', '.join(columns)} from dfs.`{name}`"))
    assert expected[0] == ([of_spark] if types else types_of(of_spark))
    assert found[0] == ([of_lodge] if types else types_of(of_lodge))
    assert found[1] == expected[1]
    assert reader_of(lodge, name, columns[:1], "orc") == reader
