"""Casts to decimals that never change a number.

Arrow checks the precision of a number before it appends digits after the point. So a number with many digits before the
point becomes too large for its type, or overflows to another number, without an error. A text with more digits than any
decimal overflows as well.
"""

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from engine.schema import MAX_DECIMAL_DIGITS

_WIDE_DIGITS = 76
"""The maximum precision of Arrow's 256-bit decimals, which is enough for a 128-bit decimal at any scale."""

_UNUSUAL = rf"[0-9.]{{{MAX_DECIMAL_DIGITS + 1},}}|[0-9.][eE][-+]?[0-9]"


def cast_decimals(array: pa.Array, to: pa.DataType) -> pa.Array:
    """Cast decimals or text to decimals.

    Raises:
        ValueError: If a number does not fit into the type.
    """
    if pt.is_decimal(array.type):
        digits = to.precision - to.scale
        is_safe = to.scale <= array.type.scale or array.type.precision - array.type.scale <= digits
        return array.cast(to) if is_safe else array.cast(pa.decimal256(_WIDE_DIGITS, to.scale)).cast(to)
    result = array.cast(to)
    check_decimals(result, array)
    return result


def check_decimals(result: pa.Array, texts: pa.Array) -> None:
    """Check that the numbers that Arrow has parsed are those of the texts.

    Raises:
        ValueError: If a number is another one, because it does not fit into the type.
    """
    result.validate(full=True)
    for index in pc.indices_nonzero(pc.match_substring_regex(texts, _pattern(result.type))).to_pylist():
        if Decimal(texts[index].as_py()) != result[index].as_py():
            raise ValueError(f"{texts[index]} has too many digits")


def may_overflow(data: pa.Buffer, type_: pa.DataType) -> bool:
    """Return whether data, such as the rows of a file, may contain a number that Arrow parses to another decimal."""
    ends = pa.py_buffer(memoryview(bytearray(4) + len(data).to_bytes(4, "little")))
    whole = pa.Array.from_buffers(pa.binary(), 1, [None, ends, data])
    return bool(pc.match_substring_regex(whole, _pattern(type_))[0].as_py())


def _pattern(type_: pa.DataType) -> str:
    """Return a pattern of all numbers that may overflow, and of some that do not."""
    return rf"[1-9][0-9]{{{type_.precision - type_.scale},}}|{_UNUSUAL}"
