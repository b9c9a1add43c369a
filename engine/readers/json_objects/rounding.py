"""Detection of numbers that pyarrow may change: rounded to floats or doubles, or too large for a decimal."""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow_types import inner_fields
from engine.readers.byte_arrays import ByteArray, matches
from engine.schema import MAX_DECIMAL_DIGITS

_EXACT_UP_TO = {pa.float32(): 2.0**24, pa.float64(): 2.0**53}
_LONG_INTEGER = r"[:\[,]\s*-?\d{16,}\s*[,}\]]"
_START = r'[:\[,]\s*"?[-+]?'
_END = r'"?\s*[,}\]]'
_SMALL = (
    rf"{_START}(?:[0-9]*\.[0-9]{{39,}}|[0-9]*\.[0-9]{{23,}}[eE]"
    rf"|[0-9.]+[eE]-0*(?:1[6-9]|[2-9][0-9]|[0-9]{{3,}}){_END})"
)
_HIDDEN = r'"[-+]?[0-9.]*[eE](?:[-+]*0[xX]|[-+]{2})|"[-+0-9.a-fA-FxX]*\\u00(?:2[bdeBDE]|3[0-9]|[46][1-6]|[57]8)'
_LARGE = rf"{_START}(?:0*[1-9][0-9]{{%d,}}|[0-9.]+[eE]\+?[0-9]+{_END})"


def has_unsafe_decimals(schema: pa.Schema, data: ByteArray) -> bool:
    """Return whether pyarrow must not parse the data, because it may change a number in a column of decimals.

    The result may be a false positive, because the data is searched without regard to columns. It is always true if a
    column of decimals contains one of these numbers or texts:

    - A number with a small exponent or many digits after the point. pyarrow has no check of the scale, and may end the
      process.
    - A text with an exponent that only pyarrow accepts, such as ``1e0x2``, or with an escaped digit.
    - A large number. pyarrow checks the precision before it appends digits after the point, so a number can overflow if
      the precision and the scale of the column are more than 38 together.

    Args:
        schema: The columns that pyarrow would parse.
        data: The lines.
    """
    decimals = _decimals(schema)
    if not decimals:
        return False
    scales = [type_.scale for type_ in decimals if type_.precision + type_.scale > MAX_DECIMAL_DIGITS]
    large = [_LARGE % (MAX_DECIMAL_DIGITS - max(scales))] if scales else []
    return matches(data, "|".join((_SMALL, _HIDDEN, *large)))


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
    if _decimals(table.schema):
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


def _decimals(fields: Iterable[pa.Field]) -> list[pa.Decimal128Type]:
    """Return the types of all decimals in columns."""
    found = []
    for field in fields:
        found += [field.type] if pa.types.is_decimal128(field.type) else _decimals(inner_fields(field.type))
    return found
