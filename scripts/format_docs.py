"""Writes the suffixes and options of formats into docs/reference/formats.md.

    python -m scripts.format_docs

Only the blocks between two comments are generated. The options come from the classes that validate the options.
Therefore the page always matches the code.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ByteSize
from pydantic.fields import FieldInfo

from engine.readers.registry import BUILT_IN
from engine.scan.reader import ReaderFormat
from engine.scan_options import ScanOptions
from engine.suffixes import COMPRESSIONS

DOCUMENT = Path(__file__).parents[1] / "docs" / "reference" / "formats.md"

_BEGIN = "<!-- Begin of {}. `make format-docs` writes it. -->\n"
_END = "<!-- End of {}. -->"
_BOUNDS = {"ge": "at least {}", "gt": "more than {}", "le": "at most {}", "lt": "less than {}"}


class PageError(Exception):
    """Raised if a block of the page is missing or repeated."""


def with_blocks(page: str) -> str:
    """Return the page with all blocks updated.

    Raises:
        PageError: If a block is missing or repeated.
    """
    for name, text in blocks().items():
        begin, end = _BEGIN.format(name), _END.format(name)
        before, found, rest = page.partition(begin)
        _, found_end, after = rest.partition(end)
        if not (found and found_end) or begin in after:
            raise PageError(f"{DOCUMENT.name} needs one block between {begin.strip()!r} and {end!r}.")
        page = f"{before}{begin}\n{text}\n{end}{after}"
    return page


def blocks() -> Mapping[str, str]:
    """Return the text of each block by the name of the block."""
    return {
        "compressions": f"{_code_words(COMPRESSIONS)}\n",
        "scan": options_table(ScanOptions),
        **{one.name: _format_block(one) for one in BUILT_IN},
    }


def options_table(model: type[BaseModel]) -> str:
    rows = ["| option | values | default | description |", "| --- | --- | --- | --- |"]
    for name, field in model.model_fields.items():
        description = (field.description or "").replace("|", "\\|")
        rows.append(f"| `{name}` | {values_of(field)} | {default_of(field)} | {description} |")
    return "".join(f"{row}\n" for row in rows)


def values_of(field: FieldInfo) -> str:
    """Describe the values that an option accepts.

    Raises:
        TypeError: If this script has no description for the type of the option.
    """
    type_ = _without_none(field.annotation)
    bounds = " and ".join(_bounds(field.metadata))
    if isinstance(type_, type) and issubclass(type_, Enum):
        return _code_list([one.value for one in type_])
    if get_origin(type_) is Literal:
        return _code_list(get_args(type_))
    words = {bool: "`true`, `false`", str: "text", int: "integer", ByteSize: "bytes, for example `32MiB`"}
    if type_ not in words:
        raise TypeError(f"there are no words for an option of type {type_}")
    return f"{words[type_]}, {bounds}" if bounds else words[type_]


def default_of(field: FieldInfo) -> str:
    if field.is_required():
        return "none: it must be given"
    value = field.default.value if isinstance(field.default, Enum) else field.default
    if value is None:
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return "empty" if value == "" else f"`{value}`"


def _format_block(one: ReaderFormat) -> str:
    head = f"Suffixes {_code_words(one.suffixes)}; option `format = '{one.name}'`.\n"
    return (
        f"{head}\n{options_table(one.options)}"
        if one.options.model_fields
        else f"{head}\nThis format has no options.\n"
    )


def _without_none(type_: Any) -> Any:
    if get_origin(type_) not in (Union, UnionType):
        return type_
    (only,) = (one for one in get_args(type_) if one is not NoneType)
    return only


def _bounds(metadata: Sequence[Any]) -> Iterator[str]:
    for one in metadata:
        for key, words in _BOUNDS.items():
            if hasattr(one, key):
                yield words.format(getattr(one, key))


def _code_list(values: Sequence[object]) -> str:
    return ", ".join(f"`{one}`" for one in values)


def _code_words(names: Sequence[str] | Mapping[str, str]) -> str:
    return " ".join(f"`{name}`" for name in names)


def main() -> None:
    DOCUMENT.write_text(with_blocks(DOCUMENT.read_text()))
    print(f"Wrote {DOCUMENT}", file=sys.stderr)


if __name__ == "__main__":
    main()
