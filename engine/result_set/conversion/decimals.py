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

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from engine.schema import MAX_DECIMAL_DIGITS

_WIDE_DIGITS = 76
"""The maximum precision of decimals of 256 bits."""

_NINE = ord("9")
_NUMBER = re.compile(r"[-+]?(?=\.?[0-9])[0-9]*\.?[0-9]*(?:[eE][-+]?[0-9]+)?", re.ASCII)


def cast_decimals(array: pa.Array, to: pa.DataType) -> pa.Array:
    """Cast decimals or text to decimals.

    Raises:
        ValueError: If a text is not a number, or a number does not fit into the type.
    """
    wide = pa.decimal256(_WIDE_DIGITS, to.scale)
    if pt.is_decimal(array.type):
        is_safe = to.scale <= array.type.scale or _digits_before(array.type) <= _digits_before(to)
        return array.cast(to) if is_safe else array.cast(wide).cast(to)
    texts = _plain_texts(array, _WIDE_DIGITS - max(to.scale, 0))
    if _longest(texts) + max(to.scale, 0) > MAX_DECIMAL_DIGITS:
        return texts.cast(wide).cast(to)
    result = texts.cast(to)
    result.validate(full=True)
    return result


def exact_decimal(text: str, to: pa.DataType) -> Decimal:
    """Return a number with the digits of a type after the point.

    Raises:
        ValueError: If the text is not a number, or the number does not fit into the type.
    """
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(f"{text} is not a number")
    try:
        number = Decimal(text).quantize(Decimal((0, (1,), -to.scale)), context=_exact_context(to.precision))
    except ArithmeticError as error:
        raise ValueError(f"{text} has too many digits") from error
    if number and number.adjusted() >= _digits_before(to):
        raise ValueError(f"{text} has too many digits")
    return number


@cache
def _exact_context(digits: int) -> Context:
    return Context(prec=digits, traps=[Inexact, InvalidOperation])


def _digits_before(type_: pa.DataType) -> int:
    return int(type_.precision - type_.scale)


def _longest(texts: pa.Array) -> int:
    return pc.max(pc.binary_length(texts)).as_py() or 0


def _plain_texts(texts: pa.Array, longest: int) -> pa.Array:
    """Write numbers that have exponents or are longer than ``longest`` in another way."""
    characters = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    is_unusual = None
    if (characters > _NINE).any():
        is_unusual = pc.match_substring_regex(texts, "[eE]")
    if _longest(texts) > longest:
        is_long = pc.greater(pc.binary_length(texts), longest)
        is_unusual = is_long if is_unusual is None else pc.or_(is_unusual, is_long)
    if is_unusual is None or not pc.any(is_unusual).as_py():
        return texts
    plain = [_plain_text(text) for text in texts.filter(is_unusual).to_pylist()]
    return pc.replace_with_mask(texts, is_unusual, pa.array(plain, texts.type))


def _plain_text(text: str) -> str:
    """Return a number without an exponent and without zeros at its ends."""
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(f"{text} is not a number")
    try:
        number = Decimal(text) or Decimal()
    except ArithmeticError as error:  # the exponent is too long
        raise ValueError(f"{text} has too many digits") from error
    if abs(number.adjusted()) <= MAX_DECIMAL_DIGITS:
        plain = f"{number:f}"
        before, _, after = plain.rstrip("0").partition(".") if "." in plain else (plain, "", "")
        if len(before.lstrip("-")) <= MAX_DECIMAL_DIGITS and len(after) <= MAX_DECIMAL_DIGITS:
            return f"{before}.{after}"
    raise ValueError(f"{text} has too many digits")
