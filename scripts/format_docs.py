"""Writes the suffixes and options of formats into docs/reference/formats.md.

    python -m scripts.format_docs

Only the blocks between two comments are generated. The options come from the classes that validate the options.
Therefore the page always matches the code.
"""

import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path

from engine.options import Option, options_of
from engine.readers.registry import BUILT_IN
from engine.scan.reader import ReaderFormat
from engine.scan_options import ScanOptions
from engine.suffixes import COMPRESSIONS

DOCUMENT = Path(__file__).parents[1] / "docs" / "reference" / "formats.md"

_BEGIN = "<!-- Begin of {}. `make format-docs` writes it. -->\n"
_END = "<!-- End of {}. -->"


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


def options_table(model: type) -> str:
    rows = ["| option | values | default | description |", "| --- | --- | --- | --- |"]
    for name, option in options_of(model).items():
        description = option.description.replace("|", "\\|")
        rows.append(f"| `{name}` | {option.kind.values} | {default_of(option)} | {description} |")
    return "".join(f"{row}\n" for row in rows)


def default_of(option: Option) -> str:
    if option.is_required:
        return "none: it must be given"
    value = option.default.value if isinstance(option.default, Enum) else option.default
    if value is None:
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return "empty" if value == "" else f"`{value}`"


def _format_block(one: ReaderFormat) -> str:
    head = f"Suffixes {_code_words(one.suffixes)}; option `format = '{one.name}'`.\n"
    return (
        f"{head}\n{options_table(one.options)}" if options_of(one.options) else f"{head}\nThis format has no options.\n"
    )


def _code_words(names: Sequence[str] | Mapping[str, str]) -> str:
    return " ".join(f"`{name}`" for name in names)


def main() -> None:
    DOCUMENT.write_text(with_blocks(DOCUMENT.read_text()))
    print(f"Wrote {DOCUMENT}", file=sys.stderr)


if __name__ == "__main__":
    main()
