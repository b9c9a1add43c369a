"""Types of Spark in Parquet files: hostile files, and files that differ only in what Arrow does not show."""

import decimal
import json

import pyarrow as pa
import pytest
from pyarrow import parquet

from engine.errors import NOWHERE, EngineError, SchemaConflictError
from engine.readers.columnar import orc_types
from engine.schema import TupleSchema, type_of_nulls, with_type_of_nulls
from engine.schema_tracker.merging import merge_schemas
from engine.spark_type import VARIANT, SparkType, UnreadableType, geometry
from engine.variants import to_variants
from tests.engine.file_bytes import write_stream, written
from tests.thrift_footers import STRUCT, TEXT, change_schema

METADATA = b"\x01\x00\x00"
ONE = b"\x0c\x01"
STORED = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
VARIANTS = pa.array([{"metadata": METADATA, "value": ONE}, None], STORED)
SHREDDED = ["metadata", "value", "typed_value"]
NAME, LOGICAL = 4, 10


def annotated(data, number, details=None):
    """Return a file in which each group, or else each leaf, of the root has a logical type."""

    def change(element):
        if element[NAME][1] == b"c":
            element[LOGICAL] = (STRUCT, {number: (STRUCT, details or {})})

    return change_schema(data, change)


def file_of(column, **how):
    return written(parquet.write_table, pa.table({"c": column}), store_schema=False, **how)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (SparkType("geometry(0)", pa.binary()), SparkType("geometry(4326)", pa.binary())),
        (UnreadableType("ORC", "a", pa.binary()), UnreadableType("ORC", "b", pa.binary())),
        (SparkType("geometry(0)", pa.binary()), pa.binary()),
    ],
)
def test_types_with_other_names_differ_at_every_depth(one, other):
    in_struct, in_map = (lambda type_: pa.struct([("x", type_)])), (lambda type_: pa.map_(pa.string(), type_))
    for wrap in (lambda type_: type_, pa.list_, in_struct, in_map):
        assert wrap(one) != wrap(other)
        assert not wrap(one).equals(wrap(other))
    with pytest.raises(SchemaConflictError):
        merge_schemas((TupleSchema([pa.field("c", type_)]), NOWHERE) for type_ in (one, other))


def test_types_do_not_depend_on_the_file_before(memory_file):
    plain = file_of(VARIANTS)
    variant = annotated(plain, 16)
    for _ in range(2):
        assert memory_file("a.parquet", plain).discover().fields[0].type == VARIANTS.type
        assert memory_file("a.parquet", variant).discover().fields[0].type == VARIANT
    points = file_of(pa.array([b"x"]))
    for crs in ("EPSG:3857", "SRID:0", "OGC:CRS84"):
        data = annotated(points, 17, {1: (TEXT, crs.encode())})
        assert memory_file("a.parquet", data).discover().fields[0].type == geometry(crs)


def test_shredded_decimals_have_all_digits():
    numbers = [decimal.Decimal("9" * 38), decimal.Decimal("-1." + "2" * 37)]
    for number in numbers:
        scale = -number.as_tuple().exponent
        typed = pa.array([number], pa.decimal128(38, scale))
        array = pa.StructArray.from_arrays([pa.array([METADATA]), pa.nulls(1, pa.binary()), typed], SHREDDED)
        value = to_variants(array).storage[0]["value"].as_py()
        assert value[1] == scale
        assert int.from_bytes(value[2:], "little", signed=True) == int(str(number).replace(".", ""))


def many_references_to_one_text(count):
    """Return an array of ``count`` elements, which are all the same long text."""
    text = bytes([16 << 2]) + count.to_bytes(4, "little") + b"x" * count
    offsets = b"\x00\x00\x00\x00" * count + len(text).to_bytes(4, "little")
    return bytes([3 | (3 | 1 << 2) << 2]) + count.to_bytes(4, "little") + offsets + text


@pytest.mark.parametrize(
    "value",
    [
        many_references_to_one_text(2000),
        b"\x03" * 1000,
        b"\x02\xff\x00",
        b"",
        b"\x40\xff\xff\xff\xff",
        b"\x03\x01\x00\x04" * 400,
    ],
)
def test_malformed_shredded_variants_are_refused_in_little_memory(value):
    members = [pa.array([METADATA]), pa.array([value]), pa.nulls(1, pa.int64())]
    array = pa.StructArray.from_arrays(members, SHREDDED)
    with pytest.raises(pa.ArrowInvalid):
        to_variants(array)


@pytest.mark.parametrize(
    "column",
    [
        {"metadata": "__COLLATIONS"},
        {"metadata": {"__COLLATIONS": 5}},
        {"metadata": {"__COLLATIONS": {"c": 5}}},
        {"metadata": {"__COLLATIONS": {"c": ""}}},
        {"type": {"type": "struct", "fields": 7}},
        {"type": {"type": "udt", "class": ["x"], "pyClass": "os.system"}},
        {"type": {"type": "udt", "class": "org.apache.spark.ml.linalg.VectorUDT"}},
        {"type": "void"},
        {"type": "variant"},
        {"name": ["variant"]},
    ],
)
def test_hostile_schema_of_spark_is_an_error_or_ignored(memory_file, column):
    described = {"name": "c", "type": "string", "nullable": True, "metadata": {}} | column
    schema = json.dumps({"type": "struct", "fields": [described, {"name": "_", "type": "variant __COLLATIONS"}]})
    table = pa.table({"c": ["x"]}).replace_schema_metadata({"org.apache.spark.sql.parquet.row.metadata": schema})
    file = memory_file("a.parquet", written(parquet.write_table, table, store_schema=False))
    try:
        assert file.rows() == [{"c": "x"}]
    except EngineError as error:
        assert "os.system" not in str(error)


def test_arrow_files_cannot_have_types_of_lodge(memory_file):
    for type_ in (SparkType("geometry(abc)", pa.binary()), UnreadableType("Arrow", "x", pa.int32())):
        table = pa.table({"c": pa.nulls(1, type_), "n": [1]})
        with pytest.raises(EngineError, match="only Lodge uses"):
            memory_file("a.arrow", written(write_stream, table)).rows()
    for encoded in (b"garbage", b"", b"struct"):
        schema = pa.schema([pa.field("c", pa.null(), metadata={b"lodge.nulls": encoded})])
        table = pa.table([pa.nulls(1)], schema=schema)
        assert memory_file("a.arrow", written(write_stream, table)).rows() == [{"c": None}]


def test_type_of_nulls_is_kept():
    for type_ in (pa.int32(), pa.binary(), SparkType("void", pa.null())):
        assert type_of_nulls(with_type_of_nulls(pa.field("c", pa.null()), type_)) == type_
    assert type_of_nulls(pa.field("c", pa.null())) is None


def test_padding_does_not_depend_on_the_number_of_rows(monkeypatch):
    batch = pa.record_batch({"c": ["ä", None, "12345", ""] * 5, "m": [{"x": "a"}] * 20})
    expected = orc_types.pad_chars(batch, {"c": [5], "m": [3]})
    assert expected.column(0).to_pylist() == ["ä    ", None, "12345", "     "] * 5
    assert expected.column(1).to_pylist() == [{"x": "a  "}] * 20
    monkeypatch.setattr(orc_types, "_PADDED_BYTES", 60)
    assert orc_types.pad_chars(batch, {"c": [5], "m": [3]}).equals(expected)
