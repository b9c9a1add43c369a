"""Casts to decimals that never change a number.

Arrow checks the precision of a number before it appends digits after the point. So a number with many digits before the
point becomes too large for its type, or overflows to another number, without an error. A text with more digits than any
decimal overflows as well.
"""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from engine.schema import MAX_DECIMAL_DIGITS

_WIDE_DIGITS = 76
"""The maximum precision of Arrow's 256-bit decimals, which is enough for a 128-bit decimal at any scale."""

_NINE = ord("9")


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
    result.validate(full=True)
    if _may_overflow(array, to):
        _check(result, array)
    return result


def _may_overflow(texts: pa.Array, to: pa.DataType) -> bool:
    """Return whether there are numbers with many digits or exponents. It takes much less time than the cast."""
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    characters = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    return bool(longest + to.scale > MAX_DECIMAL_DIGITS or (characters > _NINE).any())


def _check(result: pa.Array, texts: pa.Array) -> None:
    before = result.type.precision - result.type.scale
    pattern = rf"^[^0-9.]*0*[1-9][0-9]{{{before},}}|[0-9.]{{{MAX_DECIMAL_DIGITS + 1},}}|[eE]"
    for index in pc.indices_nonzero(pc.match_substring_regex(texts, pattern)).to_pylist():
        if Decimal(texts[index].as_py()) != result[index].as_py():
            raise ValueError(f"{texts[index]} has too many digits")
