"""Casts to decimals that never change a number.

Arrow casts texts and decimals without a check in three cases:

- A text has more digits than the type can hold.
- Digits are appended after the point, and the number then has more digits than the type can hold.
- A text has a huge exponent, which can end the process.

Therefore numbers with exponents become plain numbers, and long numbers are cast to decimals of 256 bits first.
"""

import re
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from engine.arrow_types import characters, is_text
from engine.schema import MAX_DECIMAL_DIGITS

_WIDE_DIGITS = 76
"""The maximum precision of decimals of 256 bits."""

_NINE = ord("9")
_NUMBER = re.compile(r"[-+]?(?=\.?[0-9])[0-9]*\.?[0-9]*(?:[eE][-+]?[0-9]+)?", re.ASCII)


def cast_decimals(array: pa.Array, to: pa.DataType) -> pa.Array:
    """Cast integers, decimals or text to decimals.

    Raises:
        ValueError: If a text is not a number, or a number does not fit into the type.
    """
    scale = max(to.scale, 0)
    if is_text(array.type):
        array = _plain_texts(array, _WIDE_DIGITS - scale, to)
        is_safe = _longest(array) + scale <= MAX_DECIMAL_DIGITS
    else:
        is_safe = pt.is_decimal(array.type) and (
            to.scale <= array.type.scale or array.type.precision - array.type.scale <= to.precision - to.scale
        )
    result = (array if is_safe else array.cast(pa.decimal256(_WIDE_DIGITS, scale))).cast(to)
    result.validate(full=True)
    return result


def exact_decimal(text: str, to: pa.DataType) -> Decimal:
    """Return the number in a text with the scale of a type.

    Raises:
        ValueError: If the text is not a number, or the number does not fit into the type.
    """
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(f"{text} is not a number")
    try:
        number = Decimal(text)
    except ArithmeticError as error:  # the exponent is too long
        raise ValueError(f"{text} has too many digits") from error
    return quantize(number, to)


def quantize(number: Decimal, to: pa.DataType) -> Decimal:
    """Return a number with the scale of a type.

    Raises:
        ValueError: If the number does not fit into the type.
    """
    try:
        result = number.quantize(Decimal((0, (1,), -to.scale)), context=exact_context(to.precision))
    except ArithmeticError as error:
        raise ValueError(f"{number} has too many digits") from error
    if not result.is_finite():
        raise ValueError(f"{number} is not finite")
    return result


@cache
def exact_context(digits: int) -> Context:
    """Return a context that refuses results of more digits."""
    return Context(prec=digits, traps=[Inexact, InvalidOperation])


def _longest(texts: pa.Array) -> int:
    return pc.max(pc.binary_length(texts)).as_py() or 0


def _plain_texts(texts: pa.Array, longest: int, to: pa.DataType) -> pa.Array:
    """Rewrite numbers that have exponents or are longer than ``longest``."""
    if not (characters(texts) > _NINE).any() and _longest(texts) <= longest:
        return texts
    is_long = pc.greater(pc.binary_length(texts), longest)
    is_unusual = pc.or_(is_long, pc.match_substring_regex(texts, "[eE]"))
    plain = [f"{exact_decimal(text, to):f}" for text in texts.filter(is_unusual).to_pylist()]
    return pc.replace_with_mask(texts, is_unusual, pa.array(plain, texts.type))
