"""Names of types in messages are those of Spark."""

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_type

from engine.type_names import MAX_MEMBERS, type_name

SCALARS = [
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
    *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(4), pa.decimal128(38, 10)),
    *(
        pa.date32(),
        pa.time64("us"),
        pa.timestamp("us"),
        pa.timestamp("us", "Europe/Berlin"),
        pa.duration("us"),
        pa.null(),
    ),
]


class Named(pa.ExtensionType):
    spark_name = "geometry(4326)"

    def __init__(self):
        super().__init__(pa.binary(), "tests.named")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type, serialized):
        return cls()


class Unnamed(Named):
    spark_name = None


@pytest.mark.parametrize("type_", SCALARS, ids=str)
@pytest.mark.parametrize(
    "nested",
    [
        lambda one: one,
        pa.list_,
        pa.large_list,
        lambda one: pa.map_(pa.string(), pa.list_(one)),
        lambda one: pa.struct([("a b", one), ("C", pa.struct([("d", one)]))]),
    ],
    ids=["plain", "array", "large_array", "map", "struct"],
)
def test_name_is_the_one_of_spark(type_, nested):
    assert type_name(nested(type_)) == from_arrow_type(nested(type_)).simpleString()


@pytest.mark.parametrize(
    ("type_", "name"),
    [
        (pa.list_view(pa.string_view()), "array<string>"),
        (pa.list_(pa.int8(), 2), "array<tinyint>"),
        (pa.dictionary(pa.int8(), pa.large_string()), "string"),
        (pa.run_end_encoded(pa.int32(), pa.date64()), "date"),
        (pa.decimal256(76, 2), "decimal(76,2)"),
        (pa.timestamp("ns", "UTC"), "timestamp"),
        (pa.time32("s"), "time(0)"),
        (pa.list_(Named()), "array<geometry(4326)>"),
        (Unnamed(), "binary"),
        (pa.uint64(), "uint64"),
    ],
    ids=str,
)
def test_types_without_equal_in_spark_have_the_nearest_name(type_, name):
    assert type_name(type_) == name


def test_name_of_a_wide_struct_is_short():
    type_ = pa.struct([(f"c{number}", pa.int32()) for number in range(1000)])
    assert type_name(type_).endswith(f",c24:int,... {1000 - MAX_MEMBERS} more fields>")
