"""Options as dataclasses: conversion from text, checks and descriptions.

Spark passes the options of a data source as text. A class of options is a frozen dataclass whose fields are created
with :func:`option`:

    @dataclass(frozen=True, slots=True, kw_only=True)
    class LineOptions:
        skip_lines: int = option(Integer(at_least=0), default=0, description="The number of lines to skip.")

:func:`parse_options` converts the text of all options and creates an instance. ``__post_init__`` can check several
options together, and raises ``ValueError``.

This module uses only the standard library, because executors may have no other packages than pyarrow.

Guarantees:

1. An unknown, missing or invalid option raises a ScanOptionError with the name of the option and, if it is invalid, its
   value.
2. An option that is not given has its default, which is not converted or checked.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass
from decimal import Decimal
from enum import Enum
from functools import cache
from types import MappingProxyType
from typing import Any, Protocol

from engine.errors import ScanOptionError

_KIND = "kind"
_DESCRIPTION = "description"

_INTEGER = re.compile(r"\s*(?P<number>[+-]?\d{1,40})(?:\.0*)?\s*", re.ASCII)
_BYTES = re.compile(
    r"\s*(?P<number>\d{1,40}(?:\.\d{1,40})?)\s*(?P<unit>[kmgtpe]?)(?P<binary>i?)b?\s*", re.ASCII | re.IGNORECASE
)
_UNITS = "kmgtpe"
_BOOLEANS = {
    **dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "off", "0"), False),
}


class OptionKind(Protocol):
    """A kind of option values."""

    @property
    def values(self) -> str:
        """The values in Markdown, for the reference."""
        ...

    def convert(self, text: str) -> Any:
        """Convert the text of an option to its value.

        Raises:
            ValueError: If the text is invalid. The message continues "Option 'x' of a scan cannot be 'y':".
        """
        ...


@dataclass(frozen=True, slots=True)
class Text:
    """Text, or a value that is written as text.

    Attributes:
        parse: Returns the value for a text. It raises ``ValueError`` if the text is invalid.
    """

    parse: Callable[[str], Any] = str

    @property
    def values(self) -> str:
        return "text"

    def convert(self, text: str) -> Any:
        return self.parse(text)


@dataclass(frozen=True, slots=True)
class Boolean:
    """``true`` or ``false``, or one of the other words that mean the same."""

    @property
    def values(self) -> str:
        return "`true`, `false`"

    def convert(self, text: str) -> bool:
        value = _BOOLEANS.get(text.lower())
        if value is None:
            raise ValueError("must be true or false")
        return value


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer between two bounds, both inclusive."""

    at_least: int | None = None
    at_most: int | None = None

    @property
    def values(self) -> str:
        return ", ".join(["integer", *self._bounds()])

    def convert(self, text: str) -> int:
        found = _INTEGER.fullmatch(text)
        if found is None:
            raise ValueError("must be an integer")
        value = int(found["number"])
        if not _is_between(value, self.at_least, self.at_most):
            raise ValueError(f"must be {' '.join(self._bounds())}")
        return value

    def _bounds(self) -> list[str]:
        return _bounds(self.at_least, self.at_most)


@dataclass(frozen=True, slots=True)
class ByteCount:
    """A number of bytes with an optional unit, such as ``64000``, ``100kB`` or ``32MiB``."""

    at_least: int | None = None

    @property
    def values(self) -> str:
        return ", ".join(["bytes, for example `32MiB`", *_bounds(self.at_least, None)])

    def convert(self, text: str) -> int:
        found = _BYTES.fullmatch(text)
        if found is None or (found["binary"] and not found["unit"]):
            raise ValueError("must be a number of bytes, such as 1048576 or 32MiB")
        power = _UNITS.index(found["unit"].lower()) + 1 if found["unit"] else 0
        value = int(Decimal(found["number"]) * (1024 if found["binary"] else 1000) ** power)
        if not _is_between(value, self.at_least, None):
            raise ValueError(f"must be {' '.join(_bounds(self.at_least, None))}")
        return value


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several words.

    Attributes:
        choices: The value for each word.
    """

    choices: Mapping[str, Any]

    @classmethod
    def of(cls, choices: type[Enum] | Iterable[str]) -> "Choice":
        """Create a choice between the values of an enumeration, or between words."""
        return cls({str(getattr(one, "value", one)): one for one in choices})

    @property
    def values(self) -> str:
        return ", ".join(f"`{word}`" for word in self.choices)

    def convert(self, text: str) -> Any:
        if text not in self.choices:
            *others, last = (repr(word) for word in self.choices)
            raise ValueError(f"must be {', '.join(others)} or {last}")
        return self.choices[text]


@dataclass(frozen=True, slots=True)
class Option:
    """The definition of an option."""

    name: str
    kind: OptionKind
    default: Any
    description: str

    @property
    def is_required(self) -> bool:
        return self.default is MISSING


def option(kind: OptionKind, *, default: Any = MISSING, description: str) -> Any:
    """Return a dataclass field for an option. Without a default, the option must be given."""
    return dataclasses.field(default=default, metadata={_KIND: kind, _DESCRIPTION: description})


def is_options(model: object) -> bool:
    """Return whether an object is a class of options: a dataclass whose fields were created with :func:`option`."""
    return (
        isinstance(model, type)
        and dataclasses.is_dataclass(model)
        and all(_KIND in field.metadata for field in dataclasses.fields(model))
    )


@cache
def options_of(model: type) -> Mapping[str, Option]:
    """Return the options of a class by name, in the order of their definition."""
    return MappingProxyType(
        {
            field.name: Option(field.name, field.metadata[_KIND], field.default, field.metadata[_DESCRIPTION])
            for field in dataclasses.fields(model)
        }
    )


def parse_options(model: type, options: Mapping[str, str]) -> Any:
    """Convert and check options, and return them as an instance of the given class.

    Raises:
        ScanOptionError: If an option is unknown, missing or invalid. For an unknown option, the message lists all
            supported options.
    """
    known = options_of(model)
    for name in options:
        if name not in known:
            raise ScanOptionError(name, f"is unknown; the options are {', '.join(sorted(known))}")
    values = {}
    for one in known.values():
        if one.name in options:
            values[one.name] = _convert(one, options[one.name])
        elif one.is_required:
            raise ScanOptionError(one.name, "is missing, but files of this format require it")
    try:
        return model(**values)
    except ValueError as error:
        raise ScanOptionError("options", f"cannot be {dict(options)!r}: {error}") from None


def _convert(one: Option, text: str) -> Any:
    try:
        return one.kind.convert(text)
    except ValueError as error:
        raise ScanOptionError(one.name, f"cannot be {text!r}: {error}") from None


def _is_between(value: int, at_least: int | None, at_most: int | None) -> bool:
    return (at_least is None or value >= at_least) and (at_most is None or value <= at_most)


def _bounds(at_least: int | None, at_most: int | None) -> list[str]:
    """Return the text of the bounds as one item, or no item if there are no bounds."""
    words = {"at least": at_least, "at most": at_most}
    bounds = [f"{word} {bound}" for word, bound in words.items() if bound is not None]
    return [" and ".join(bounds)] if bounds else []
