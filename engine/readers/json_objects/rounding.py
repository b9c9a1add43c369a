"""Detection of numbers that pyarrow may have changed: rounded to floats or doubles, or too large for a decimal."""

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow_types import inner_fields
from engine.readers.byte_arrays import ByteArray

_EXACT_UP_TO = {pa.float32(): 2.0**24, pa.float64(): 2.0**53}
_LONG_INTEGER = re.compile(rb"[:\[,]\s*-?\d{16,}\s*[,}\]]")
_UNUSUAL_NUMBER = rb"[:\[,]\s*-?(?:[1-9]\d{%d,}|[\d.]{39,}|\d+(?:\.\d+)?[eE])"


def may_have_rounded(table: pa.Table, data: ByteArray) -> bool:
    """Return whether pyarrow may have changed a number of the data.

    The result may be a false positive. It is always true in these cases:

    - A column of doubles or floats contains an integer without an exact representation.
    - A column of floats contains a number that is too large for a float.
    - A column of decimals contains a number with too many digits, as described in
      `engine.result_set.conversion.decimals`.

    Args:
        table: The table that pyarrow parsed from the data.
        data: The lines.
    """
    if any(_has_large_number(column, pa.float32()) for column in table.columns):
        return True
    decimals = [each for column in table.schema for each in _decimals(column.type)]
    if decimals:
        digits = min(each.precision - each.scale for each in decimals)
        if re.search(_UNUSUAL_NUMBER % digits, data.data) is not None:
            return True
    has_large_double = any(_has_large_number(column, pa.float64()) for column in table.columns)
    return has_large_double and _LONG_INTEGER.search(data.data) is not None


def _has_large_number(column: pa.ChunkedArray, floating: pa.DataType) -> bool:
    """Return whether a column contains a number beyond the range of exact integers.

    The range depends on the floating-point type.
    """
    type_ = column.type
    if pa.types.is_struct(type_):
        flat = column.flatten()
        return any(_has_large_number(member, floating) for member in flat)
    if pa.types.is_list(type_):
        return _has_large_number(pc.list_flatten(column), floating)
    if not type_.equals(floating):
        return False
    smallest, largest = pc.min_max(column).values()
    limit = _EXACT_UP_TO[floating]
    return any(one is not None and not abs(one) < limit for one in (smallest.as_py(), largest.as_py()))


def _decimals(type_: pa.DataType) -> Iterator[pa.Decimal128Type]:
    """Return the decimals in a type."""
    if pa.types.is_decimal128(type_):
        yield type_
    for field in inner_fields(type_):
        yield from _decimals(field.type)
