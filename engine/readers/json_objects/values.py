"""JSON read by Python's parser: for lines that pyarrow refuses, and for types that it cannot give.

Guarantees:

1. A number keeps its text until its type is known, so no digit is lost on the way.
2. Two members of one object with one name, in whatever letter case, are a DuplicateColumnError.
3. Values nested deeper than the stack bears are a FormatError.
"""

import json
from collections.abc import Iterator
from typing import Any

from engine.context import ErrorContext
from engine.errors import DuplicateColumnError
from engine.readers.errors import FormatError
from engine.schema import fold_case

MAX_DEPTH = 100

_WHITE_SPACE = " \t\r\n"


Row = tuple[dict[str, Any], int]
"""An object, and the number of its line or its own number in the file."""


class Number(str):
    """A number as it stands in the file."""

    __slots__ = ()

    @property
    def is_integer(self) -> bool:
        return self.lstrip("-").isdigit()


class _RepeatedNameError(Exception):
    """Ends the parsing of an object with two members of one name."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first, second)
        self.first = first
        self.second = second


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    first: dict[str, str] = {}
    for name, _ in pairs:
        if first.setdefault(fold_case(name), name) != name:
            raise _RepeatedNameError(first[fold_case(name)], name)
    if len(first) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for index, name in enumerate(names) if name in names[:index])
        raise _RepeatedNameError(repeated, repeated)
    return dict(pairs)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_members, parse_int=Number, parse_float=Number, parse_constant=Number, strict=True
)


def values_in(text: str, context: ErrorContext) -> Iterator[Any]:
    """The values that follow each other in a text.

    Raises:
        FormatError: It is no JSON.
        DuplicateColumnError: See guarantee 2.
    """
    position = skip_white_space(text, 0)
    while position < len(text):
        try:
            value, position = _DECODER.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise FormatError(context, f"this is no JSON: {error.msg} at character {error.pos + 1}") from None
        except RecursionError:
            raise too_deep(context) from None
        except _RepeatedNameError as error:
            raise DuplicateColumnError(error.first, error.second, context) from None
        yield value
        position = skip_white_space(text, position)


def skip_white_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in _WHITE_SPACE:
        position += 1
    return position


def too_deep(context: ErrorContext) -> FormatError:
    return FormatError(context, f"values are nested deeper than {MAX_DEPTH} levels, which no scan reads")


def text_of(value: Any) -> str:
    """A value as text: text as it is, numbers as they stand in the file, others as JSON."""
    return str(value) if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_json(name)}:{_json(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_json(one) for one in value) + "]"
    return json.dumps(value, ensure_ascii=False)
