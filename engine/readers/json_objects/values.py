"""JSON values as Python's parser reads them.

Python's parser reads the lines that pyarrow rejects, and the types that pyarrow cannot return.

Guarantees:

1. A number remains text until its type is known, so that no digit is lost.
2. Two members of one object whose names are equal when case is ignored raise a DuplicateColumnError.
3. Values that are nested too deeply for the stack raise a FormatError.
"""

import json
from collections.abc import Iterator
from typing import Any

from engine.context import ErrorContext
from engine.errors import DuplicateColumnError
from engine.readers.reader_errors import FormatError
from engine.schema import fold_case

MAX_DEPTH = 100

_WHITE_SPACE = " \t\r\n"


Row = tuple[dict[str, Any], int]
"""An object and its number, which is either the number of its line or its index in the file."""


class Number(str):
    """A number, as it is written in the file."""

    __slots__ = ()

    @property
    def is_integer(self) -> bool:
        return self.lstrip("-").isdigit()


class _RepeatedNameError(Exception):
    """Stops the parsing of an object that has two members with the same name."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first, second)
        self.first = first
        self.second = second


def _to_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    first: dict[str, str] = {}
    for name, _ in pairs:
        if first.setdefault(fold_case(name), name) != name:
            raise _RepeatedNameError(first[fold_case(name)], name)
    if len(first) < len(pairs):
        names: set[str] = set()
        for name, _ in pairs:
            if name in names:
                raise _RepeatedNameError(name, name)
            names.add(name)
    return dict(pairs)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_to_members, parse_int=Number, parse_float=Number, parse_constant=Number, strict=True
)


def parse_values(text: str, context: ErrorContext) -> Iterator[Any]:
    """Yield the values of a string that contains one or more JSON values.

    Raises:
        FormatError: If the string is not valid JSON.
        DuplicateColumnError: If an object has two members with the same name (guarantee 2).
    """
    position = skip_white_space(text, 0)
    while position < len(text):
        try:
            value, position = _DECODER.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise FormatError(context, f"this is not JSON: {error.msg} at character {error.pos + 1}") from None
        except RecursionError:
            raise too_deep(context) from None
        except _RepeatedNameError as error:
            raise DuplicateColumnError(error.first, error.second, context) from None
        yield value
        position = skip_white_space(text, position)


def skip_white_space(text: str, position: int) -> int:
    """Return the first position at or after ``position`` that is not white space."""
    while position < len(text) and text[position] in _WHITE_SPACE:
        position += 1
    return position


def too_deep(context: ErrorContext) -> FormatError:
    """Create the error for values that are nested too deeply."""
    return FormatError(context, f"values are nested deeper than {MAX_DEPTH} levels, which is not supported")


def not_an_object(context: ErrorContext, text: str) -> FormatError:
    """Create the error for a row that is not an object."""
    return FormatError(context, f"a row must be an object, but {text[:40]!r} is not")


def not_utf_8(context: ErrorContext) -> FormatError:
    """Create the error for bytes that are not UTF-8."""
    return FormatError(context, "the bytes are not UTF-8; specify the option 'encoding', or convert the file")


def text_of(value: Any) -> str:
    """Return a value as text.

    A string is returned unchanged, and a number as it is written in the file. Any other value is returned as JSON.
    """
    return str(value) if isinstance(value, str) else _to_json(value)


def _to_json(value: Any) -> str:
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_to_json(name)}:{_to_json(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_to_json(one) for one in value) + "]"
    return json.dumps(value, ensure_ascii=False)
