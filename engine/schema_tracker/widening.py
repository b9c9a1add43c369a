"""Type widening: common types, and conversions between types.

Discovery uses these rules before a scan, and readers use them during the scan. :func:`common_type` returns the
following types if two files have different types for the same column:

| one | other | common |
| --- | --- | --- |
| any | the same | the same |
| null (LATE) | any | the other type |
| int8 … int64, uint8 … uint64 | the same family | the wider type |
| int | uint | the narrowest int that can represent both; double for uint64 |
| any integer | any float | double |
| float | wider float | the wider type |
| int, or uint other than uint64, converted to int | decimal | a decimal with all digits of both, at most 38 |
| decimal | decimal | as above |
| date | larger date type, timestamp without time zone | the other type |
| timestamp, time, duration | the same in another unit | the finer unit |
| timestamp with time zone | with another time zone | in UTC |
| string, binary | large or fixed-size kind | the larger kind |
| map (struct) | map | all members of both, merged by name; nullable if missing in one of the maps |
| array (list) | array | array of the common element type |
| dict (map) | dict | dict of the common key type and the common value type |

All other pairs have no common type. In particular, text and other types have no common type. Numbers are converted to
text only if a provided schema declares it. The common field of two fields is nullable if one of the fields is
nullable. Integers are converted to double, as in other SQL engines. Integers beyond 2**53 without an exact
representation are rejected when the values are converted.

Guarantees:

1. ``common_type`` is idempotent, symmetric and associative, provided that a missing common type of two types means that
   there is no common type of all types. The order of members and the case of their names are those of the first type.
2. ``can_become(offered, promised)`` is true if ``promised`` is the common type of both types. The time zones of two
   timestamps with time zone do not matter, because a conversion does not change the instant. If ``promised`` is LATE,
   it is true for any type.
3. ``can_be_declared`` is true whenever ``can_become`` is true.
"""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.types as pt

from engine.arrow_types import inner_fields, is_bytes, is_text, with_element
from engine.schema import MAX_DECIMAL_DIGITS, TupleSchema
from engine.spark_type import SparkType

_NUMBERS: Sequence[pa.DataType] = (
    *(pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
)
"""All number types. Each type precedes the types that can represent all of its values."""

_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_UNITS = ("s", "ms", "us", "ns")


def common_type(known: pa.DataType, offered: pa.DataType) -> pa.DataType | None:
    """Return the narrowest type that can represent the values of both types.

    Return None if there is no common type.
    """
    if known.equals(offered) or pt.is_null(offered):
        return known
    if pt.is_null(known):
        return offered
    for rule in (_number, _decimal, _date_or_timestamp, _time_or_duration, _text, _bytes, _struct, _list, _dict):
        common = rule(known, offered)
        if common is not None:
            return common
    return None


def common_field(known: pa.Field, offered: pa.Field) -> pa.Field | None:
    """Return the first field with the common type of both fields. Return None if there is none."""
    common = common_type(known.type, offered.type)
    return None if common is None else known.with_type(common).with_nullable(known.nullable or offered.nullable)


def can_become(offered: pa.DataType, promised: pa.DataType) -> bool:
    """Return whether every value of the offered type can be represented in the promised type.

    See guarantee 2.
    """
    return _fits(offered, promised, _widens)


def can_be_declared(offered: pa.DataType, declared: pa.DataType) -> bool:
    """Return whether values can be read as the type that a provided schema declares.

    In addition to widening, text can be read as any type, and any type as text, except for maps, arrays and dicts.
    Text that is not a valid value of the declared type raises a ``ValueConversionError`` when it is read.
    """
    return _fits(offered, declared, lambda one, other: _widens(one, other) or _is_text_and_scalar(one, other))


def _fits(offered: pa.DataType, wanted: pa.DataType, leaf: Callable[[pa.DataType, pa.DataType], bool]) -> bool:
    if pt.is_null(offered) or pt.is_null(wanted):
        return True
    if pt.is_struct(offered) and pt.is_struct(wanted):
        return _members_fit(TupleSchema.of(offered), TupleSchema.of(wanted), leaf)
    if _list_rank(offered) and _list_rank(wanted):
        if not _list_kind_fits(offered, wanted):
            return False
    elif not (pt.is_map(offered) and pt.is_map(wanted)):
        return leaf(offered, wanted)
    elif wanted.keys_sorted and not offered.keys_sorted:
        return False
    pairs = zip(inner_fields(offered), inner_fields(wanted), strict=True)
    return all(_field_fits(one, other, leaf) for one, other in pairs)


def _members_fit(offered: TupleSchema, wanted: TupleSchema, leaf: Callable[[pa.DataType, pa.DataType], bool]) -> bool:
    if any(wanted.find(member.name) is None for member in offered):
        return False
    pairs = ((offered.find(member.name), member) for member in wanted)
    return all(member.nullable if one is None else _field_fits(one, member, leaf) for one, member in pairs)


def _field_fits(offered: pa.Field, wanted: pa.Field, leaf: Callable[[pa.DataType, pa.DataType], bool]) -> bool:
    return (wanted.nullable or not offered.nullable) and _fits(offered.type, wanted.type, leaf)


def _widens(offered: pa.DataType, wanted: pa.DataType) -> bool:
    if isinstance(offered, SparkType) and offered.is_text and is_text(wanted):
        return True
    common = common_type(offered, wanted)
    if common is not None and pt.is_timestamp(common) and common.tz is not None:
        return bool(common.unit == wanted.unit)
    return common is not None and bool(common.equals(wanted))


def _is_text_and_scalar(offered: pa.DataType, wanted: pa.DataType) -> bool:
    return (is_text(offered) or is_text(wanted)) and not (pt.is_nested(offered) or pt.is_nested(wanted))


def _number(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if one not in _NUMBERS or other not in _NUMBERS:
        return None
    return next(number for number in _NUMBERS if _holds(number, one) and _holds(number, other))


def _holds(wide: pa.DataType, narrow: pa.DataType) -> bool:
    if pt.is_floating(narrow) or pt.is_floating(wide):
        return bool(wide.equals(pa.float64())) or (
            bool(pt.is_floating(narrow) and pt.is_floating(wide)) and wide.bit_width >= narrow.bit_width
        )
    if pt.is_signed_integer(wide) and pt.is_unsigned_integer(narrow):
        return bool(wide.bit_width > narrow.bit_width)
    same_family = pt.is_signed_integer(wide) == pt.is_signed_integer(narrow)
    return bool(same_family and wide.bit_width >= narrow.bit_width)


def _decimal(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    digits = [_digits(one), _digits(other)]
    if not (pt.is_decimal(one) or pt.is_decimal(other)) or None in digits:
        return None
    scale = max(fraction for _, fraction in filter(None, digits))
    precision = scale + max(whole for whole, _ in filter(None, digits))
    return pa.decimal128(precision, scale) if precision <= MAX_DECIMAL_DIGITS else None


def _digits(type_: pa.DataType) -> tuple[int, int] | None:
    """Return the number of digits before and after the decimal point.

    For a uint, these are the digits of the int that can represent all of its values. For a uint64, the function
    returns None. The common type of uint64 and int is double, so a uint64 is never converted to a decimal.
    """
    if pt.is_decimal(type_):
        return type_.precision - type_.scale, type_.scale
    if pt.is_integer(type_) and not type_.equals(pa.uint64()):
        return _INTEGER_DIGITS[type_.bit_width * (2 if pt.is_unsigned_integer(type_) else 1)], 0
    return None


def _date_or_timestamp(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if pt.is_timestamp(one) and pt.is_timestamp(other):
        if (one.tz is None) != (other.tz is None):
            return None
        return pa.timestamp(_finer(one, other), one.tz if one.tz == other.tz else "UTC")
    for date, later in ((one, other), (other, one)):
        is_local = pt.is_timestamp(later) and later.tz is None
        if (pt.is_date(date) and is_local) or (pt.is_date32(date) and pt.is_date64(later)):
            return later
    return None


def _time_or_duration(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if pt.is_duration(one) and pt.is_duration(other):
        return pa.duration(_finer(one, other))
    if not (pt.is_time(one) and pt.is_time(other)):
        return None
    unit = _finer(one, other)
    return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)


def _finer(one: pa.DataType, other: pa.DataType) -> str:
    return _UNITS[max(_UNITS.index(one.unit), _UNITS.index(other.unit))]


def _text(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    return pa.large_string() if is_text(one) and is_text(other) else None


def _bytes(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if not (is_bytes(one) and is_bytes(other)):
        return None
    return pa.large_binary() if pt.is_large_binary(one) or pt.is_large_binary(other) else pa.binary()


def _struct(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if not (pt.is_struct(one) and pt.is_struct(other)):
        return None
    members = list(_common_members(TupleSchema.of(one), TupleSchema.of(other)))
    return None if any(member is None for member in members) else pa.struct(members)


def _common_members(one: TupleSchema, other: TupleSchema) -> Iterator[pa.Field | None]:
    for member in one:
        same = other.find(member.name)
        yield member.with_nullable(True) if same is None else common_field(member, same)
    for member in other:
        if one.find(member.name) is None:
            yield member.with_nullable(True)


def _list(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the array type that can represent both types. Return None if there is none."""
    if not (_list_rank(one) and _list_rank(other)):
        return None
    element = common_field(one.value_field, other.value_field)
    if element is None:
        return None
    if _list_kind_fits(other, one):
        return with_element(one, element)
    return with_element(other, element) if _list_kind_fits(one, other) else pa.list_(element)


def _list_kind_fits(offered: pa.DataType, wanted: pa.DataType) -> bool:
    if pt.is_fixed_size_list(offered) and pt.is_fixed_size_list(wanted):
        return bool(offered.list_size == wanted.list_size)
    return _list_rank(offered) <= _list_rank(wanted)


def _list_rank(type_: pa.DataType) -> int:
    kinds = (pt.is_fixed_size_list, pt.is_list, pt.is_large_list)
    return next((rank for rank, is_kind in enumerate(kinds, start=1) if is_kind(type_)), 0)


def _dict(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if not (pt.is_map(one) and pt.is_map(other)):
        return None
    key, item = common_field(one.key_field, other.key_field), common_field(one.item_field, other.item_field)
    if key is None or item is None:
        return None
    return pa.map_(key, item, keys_sorted=one.keys_sorted and other.keys_sorted)
