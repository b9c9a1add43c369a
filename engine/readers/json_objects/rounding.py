"""Detection of numbers that pyarrow may have changed: rounded to floats or doubles, or too large for a decimal."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow_types import inner_fields
from engine.readers.byte_arrays import ByteArray, matches
from engine.schema import MAX_DECIMAL_DIGITS

_EXACT_UP_TO = {pa.float32(): 2.0**24, pa.float64(): 2.0**53}
_LONG_INTEGER = r"[:\[,]\s*-?\d{16,}\s*[,}\]]"
_UNUSUAL_NUMBER = r"[:\[,]\s*-?(?:[1-9]\d{%d,}|\d+(?:\.\d+)?[eE])"


def may_have_rounded(table: pa.Table, data: ByteArray) -> bool:
    """Return whether pyarrow may have changed a number of the data.

    The result may be a false positive. It is always true in these cases:

    - A column of doubles or floats contains an integer without an exact representation.
    - A column of floats contains a number that is too large for a float.
    - A column of decimals contains a number with too many digits before the point. pyarrow counts only the digits that
      the data has, and not those that it appends after the point.

    Args:
        table: The table that pyarrow parsed from the data.
        data: The lines.
    """
    if any(_has_large_number(column, pa.float32()) for column in table.columns):
        return True
    scales = [type_.scale for column in table.schema for type_ in _decimals(column.type)]
    if scales:
        if matches(data, _UNUSUAL_NUMBER % (MAX_DECIMAL_DIGITS - max(scales))):
            return True
        try:
            table.validate(full=True)
        except pa.ArrowInvalid:
            return True
    has_large_double = any(_has_large_number(column, pa.float64()) for column in table.columns)
    return has_large_double and matches(data, _LONG_INTEGER)


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
