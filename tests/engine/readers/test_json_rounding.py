"""Numbers that pyarrow may change. Such a block is parsed again, which takes about 25 times as long."""

import io

import pyarrow as pa
import pytest
from pyarrow import json

from engine.readers.byte_arrays import as_byte_array
from engine.readers.json_objects.rounding import has_unsafe_decimals, may_have_rounded


def is_doubtful(types, lines):
    data = lines.encode()
    schema = pa.schema(list(types.items()))
    if has_unsafe_decimals(schema, as_byte_array(data)):
        return True
    table = json.read_json(io.BytesIO(data), parse_options=json.ParseOptions(explicit_schema=schema))
    return may_have_rounded(table, as_byte_array(data))


@pytest.mark.parametrize(
    "types",
    [
        {"a": pa.decimal128(10, 2)},
        {"a": pa.decimal128(20, 18)},
        {"a": pa.decimal128(38, 2), "id": pa.decimal128(38, 0)},
        {"a": pa.list_(pa.decimal128(3, 1)), "id": pa.int64()},
        {"a": pa.float64(), "id": pa.int64()},
    ],
)
def test_decimals_beside_long_integers_are_not_doubtful(types):
    value = "[10.5]" if pa.types.is_list(types["a"]) else "10.5"
    others = f'"id": 1234567890123456789, "t": "x1e5 {"9" * 60}", "u": "3e4567a", "v": 1.5e-7, "w": "2026-01-02"'
    others += r', "x": "\u00e9cole \u0031", "y": 0.1234567890123456789012345'
    assert not is_doubtful(types, f'{{"a": {value}, {others}}}\n' * 2)


@pytest.mark.parametrize(
    ("type_", "number"),
    [
        (pa.decimal128(10, 2), "123456789.5"),
        (pa.decimal128(38, 22), "95962291402021331334"),
        (pa.decimal128(38, 22), "95962291402021331.334e3"),
        (pa.decimal128(38, 22), '"95962291402021331334"'),
        (pa.decimal128(38, 22), '"+00095962291402021331334"'),
        (pa.decimal128(38, 22), '"95\\u003962291402021331334"'),
        (pa.decimal128(38, 2), "1e-999999999"),
        (pa.decimal128(38, 2), '"1e+-999999999"'),
        (pa.decimal128(10, 2), '"1e0xC4653601"'),
        (pa.decimal128(10, 2), '"1e+0X3"'),
        (pa.decimal128(10, 2), '"1e\\u0030x3"'),
        (pa.decimal128(10, 2), "1e-999999999"),
        (pa.decimal128(10, 2), f"0.{'0' * 25}1e-15"),
        (pa.decimal128(38, 22), "1e18"),
        (pa.decimal128(38, 0), f"0.{'0' * 45}1"),
        (pa.list_(pa.decimal128(5, 2)), "[1.5, 1234]"),
        (pa.struct({"x": pa.decimal128(38, 22)}), '{"x": 95962291402021331334}'),
        (pa.float64(), "9007199254740993"),
        (pa.float32(), "16777217"),
    ],
)
def test_number_that_pyarrow_changes_is_doubtful(type_, number):
    assert is_doubtful({"a": type_}, f'{{"a": {number}}}\n')
