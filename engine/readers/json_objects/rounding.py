"""Detection of numbers that pyarrow may change: rounded to floats or doubles, or too large for a decimal."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow_types import inner_fields
from engine.readers.byte_arrays import ByteArray, matches
from engine.schema import MAX_DECIMAL_DIGITS

_EXACT_UP_TO = {pa.float32(): 2.0**24, pa.float64(): 2.0**53}
_LONG_INTEGER = r"[:\[,]\s*-?\d{16,}\s*[,}\]]"
_UNSAFE_NUMBER = (
    r'[:\[,]\s*"?[-+]?(?:0*[1-9][0-9]{%d,}|[0-9]*\.[0-9]{23,}|[0-9.]+[eE](?:\+?[0-9]+'
    r'|-0*(?:1[6-9]|[2-9][0-9]|[0-9]{3,})|[-+]{2,}[0-9]+)"?\s*[,}\]])|"[-+0-9.eE]*\\u00'
)


def has_unsafe_decimals(schema: pa.Schema, data: ByteArray) -> bool:
    """Return whether pyarrow must not parse the data, because a number may overflow in a column of decimals.

    pyarrow counts only the digits that a number or a text has, and not those that it appends after the point. A huge
    exponent can end the process. The result is also true if another column has such a number.

    Args:
        schema: The columns that pyarrow would parse.
        data: The lines.
    """
    scales = [type_.scale for field in schema for type_ in _decimals(field.type)]
    return bool(scales) and matches(data, _UNSAFE_NUMBER % (MAX_DECIMAL_DIGITS - max(scales)))


def may_have_rounded(table: pa.Table, data: ByteArray) -> bool:
    """Return whether pyarrow may have changed a number of the data.

    The result may be a false positive. It is always true in these cases:

    - A column of doubles or floats contains an integer without an exact representation.
    - A column of floats contains a number that is too large for a float.
    - A column of decimals contains a number with more digits than its type.

    Args:
        table: The table that pyarrow parsed from the data.
        data: The lines.
    """
    if any(_has_large_number(column, pa.float32()) for column in table.columns):
        return True
    if any(True for column in table.schema for _ in _decimals(column.type)):
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
    """Yield the decimals in a type."""
    if pa.types.is_decimal128(type_):
        yield type_
    for field in inner_fields(type_):
        yield from _decimals(field.type)
