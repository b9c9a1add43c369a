"""Conversions of scalar values, and conversions of nested values to text.

The rules are those of :mod:`engine.result_set.conversion.convert`.
"""

import json
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from engine.arrow_types import is_bytes, is_text, is_view
from engine.result_set.conversion.conversion_errors import NoConversionError, RefusedError
from engine.result_set.conversion.decimals import cast_decimals
from engine.result_set.conversion.local_times import to_instants
from engine.spark_type import SparkType

_INTEGER = r"^-?[0-9]+$"
_OFFSET = r"[0-9](Z|[+-]((0[0-9]|1[0-7])(:?[0-9]{2})?|18(:?00)?))$"
"""The offset of a local time, which in Spark is at most 18 hours."""
_TIME = r"^[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?$"
_EXACT_FLOATS = {pa.float32(): 2.0**24, pa.float64(): 2.0**53}
_DIGIT = r"[0-9]"
_LONG_INTEGER = r"^\s*-?[0-9]{8,}\s*$"

Cast = Callable[[pa.Array], pa.Array]


def decode(array: pa.Array) -> pa.Array:
    """Convert dictionary-encoded, run-end encoded and view arrays to plain arrays."""
    type_ = array.type
    if pt.is_dictionary(type_):
        return decode(array.dictionary).take(array.indices) if is_view(type_.value_type) else array.dictionary_decode()
    if pt.is_run_end_encoded(type_):
        return pc.run_end_decode(array)
    if pt.is_string_view(type_):
        return array.cast(pa.string())
    return array.cast(pa.binary()) if pt.is_binary_view(type_) else array


def check_floats(result: pa.Array, text: Callable[[], pa.Array]) -> pa.Array:
    """Check floats that were parsed from text, and return them.

    Args:
        result: The parsed floats.
        text: Returns the text of the floats. It is called only if one of the numbers is large.

    Raises:
        ValueError: If an integer cannot be represented exactly, or a number became infinite.
    """
    smallest, largest = (one.as_py() for one in pc.min_max(result).values())
    exact_up_to = _EXACT_FLOATS.get(result.type, 0)
    if smallest is None or max(abs(smallest), abs(largest)) < exact_up_to:
        return result
    texts = text()
    number = pc.match_substring_regex(texts, _DIGIT)
    for index in pc.indices_nonzero(pc.and_kleene(number, pc.is_inf(result))):
        raise ValueError(f"{texts[index.as_py()]} is too large")
    integer = pc.match_substring_regex(texts, _LONG_INTEGER)
    for index in pc.indices_nonzero(integer).to_pylist():
        if int(result[index].as_py()) != int(texts[index].as_py()):
            raise ValueError(f"{texts[index]} has too many digits")
    return result


def cast_values(array: pa.Array, to: pa.DataType, column: str) -> pa.Array:
    """Cast values to a type.

    Raises:
        NoConversionError: If there is no conversion between the types.
        RefusedError: If a value cannot be converted.
    """
    if array.type.equals(to):
        return array
    cast = _find_cast(array.type, to)
    if cast is None:
        raise NoConversionError(column, array.type, to)
    try:
        return cast(array)
    except (pa.ArrowInvalid, ValueError) as error:
        index = _find_refused(array, cast)
        raise RefusedError(index, column, array[index].as_py(), to) from error


def _find_refused(array: pa.Array, cast: Cast) -> int:
    """Find the first value that makes the cast fail, by bisection, and return its index."""
    good, bad = 0, len(array)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            cast(array.slice(good, middle - good))
            good = middle
        except (pa.ArrowInvalid, ValueError):
            bad = middle
    return good


def _find_cast(offered: pa.DataType, to: pa.DataType) -> Cast | None:
    """Return the conversion between two types. None if there is no such conversion."""
    if isinstance(offered, SparkType) or isinstance(to, SparkType):
        return None
    if is_text(to):
        return _to_text(offered, to)
    if is_text(offered):
        return _from_text(to)
    return _from_integer(to) if pt.is_integer(offered) else _within_kind(offered, to)


def _within_kind(offered: pa.DataType, to: pa.DataType) -> Cast | None:
    if pt.is_decimal(offered) and pt.is_floating(to):
        return lambda array: array.cast(to, safe=False)
    if pt.is_decimal(offered) and pt.is_decimal(to):
        return lambda array: cast_decimals(array, to)
    if pt.is_floating(offered) and pt.is_floating(to):
        return lambda array: _change_width(array, to)
    if pt.is_date(offered) and pt.is_timestamp(to):
        return lambda array: _assume_zone(array.cast(pa.timestamp(to.unit)), to)
    return (lambda array: array.cast(to)) if _differ_in_unit(offered, to) else None


def _differ_in_unit(offered: pa.DataType, to: pa.DataType) -> bool:
    if pt.is_timestamp(offered) and pt.is_timestamp(to):
        return (offered.tz is None) == (to.tz is None)
    kinds = (pt.is_date, pt.is_time, pt.is_duration, is_bytes)
    return any(is_kind(offered) and is_kind(to) for is_kind in kinds)


def _from_integer(to: pa.DataType) -> Cast | None:
    if pt.is_integer(to):
        return lambda array: array.cast(to)
    if pt.is_floating(to):
        return lambda array: _to_exact_floats(array, to)
    if pt.is_decimal(to):
        return lambda array: cast_decimals(array, to)
    return None


def _change_width(array: pa.Array, to: pa.DataType) -> pa.Array:
    """Cast floats to another width.

    Each value except NaN must be equal to the original when it is cast back.
    """
    result = array.cast(to, safe=False)
    back = result.cast(array.type, safe=False)
    same = pc.or_kleene(pc.equal(back, array), pc.is_nan(array))
    return _check_all(result, same)


def _to_exact_floats(array: pa.Array, to: pa.DataType) -> pa.Array:
    """Cast integers to floats. Every integer must have an exact representation."""
    try:
        return array.cast(to)
    except pa.ArrowInvalid:  # Arrow rejects all large integers, even those with an exact representation.
        result = array.cast(to, safe=False)
        end = 2.0 ** (array.type.bit_width - int(pt.is_signed_integer(array.type)))
        is_inside = pc.less(result, pa.scalar(end, to))
        back = pc.if_else(is_inside, result, pa.scalar(0.0, to)).cast(array.type, safe=False)
        return _check_all(result, pc.and_kleene(is_inside, pc.equal(back, array)))


def _check_all(result: pa.Array, is_good: pa.Array) -> pa.Array:
    if not pc.all(is_good, min_count=0).as_py():
        raise ValueError("not every value can be converted")
    return result


def _assume_zone(array: pa.Array, to: pa.DataType) -> pa.Array:
    """Interpret local times in the time zone of the type, if the type has one."""
    return array if to.tz is None else to_instants(array, to.tz)


def _to_text(offered: pa.DataType, to: pa.DataType) -> Cast | None:
    if pt.is_union(offered):
        return None
    if pt.is_nested(offered):
        return lambda array: pa.array([_to_json(value.as_py()) for value in array], to)
    return lambda array: array.cast(to)


def _to_json(value: object) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, default=_to_json_text)


def _to_json_text(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _from_text(to: pa.DataType) -> Cast | None:
    if pt.is_integer(to):
        return lambda array: _check_all(array, pc.match_substring_regex(array, _INTEGER)).cast(to)
    if pt.is_timestamp(to):
        return lambda array: _parse_timestamps(array, to)
    if pt.is_time(to):
        return lambda array: _parse_times(array, to)
    if pt.is_floating(to):
        return lambda array: check_floats(array.cast(to), lambda: array)
    if pt.is_decimal(to):
        return lambda array: cast_decimals(array, to)
    kinds = (pt.is_boolean, pt.is_date, is_bytes)
    return (lambda array: array.cast(to)) if any(is_kind(to) for is_kind in kinds) else None


def _parse_timestamps(array: pa.Array, to: pa.DataType) -> pa.Array:
    if to.tz is None:
        return array.cast(to)
    has_offset = pc.match_substring_regex(array, _OFFSET)
    has_time = pc.greater(pc.utf8_length(array), len("2024-01-01"))
    is_instant = pc.and_kleene(has_offset, has_time)
    nothing = pa.scalar(None, array.type)
    instants = pc.if_else(is_instant, array, nothing).cast(to)
    local = pc.if_else(is_instant, nothing, array).cast(pa.timestamp(to.unit))
    return pc.coalesce(instants, _assume_zone(local, to))


def _parse_times(array: pa.Array, to: pa.DataType) -> pa.Array:
    """Parse times of day. The result is based on timestamps of 1970-01-01."""
    good = _check_all(array, pc.match_substring_regex(array, _TIME))
    moments = pc.binary_join_element_wise(pa.scalar("1970-01-01 ", array.type), good, pa.scalar("", array.type))
    return moments.cast(pa.timestamp("ns")).cast(pa.time64("ns")).cast(to)
