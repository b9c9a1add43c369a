from dataclasses import dataclass

import pytest

from engine.options import ByteCount, Choice, Text, option
from scripts.format_docs import DOCUMENT, PageError, blocks, options_table, with_blocks


def test_page_is_up_to_date():
    page = DOCUMENT.read_text()
    assert page == with_blocks(page), "Run: make format-docs"


def test_page_without_a_block_is_rejected():
    with pytest.raises(PageError, match="Begin of orc"):
        with_blocks(DOCUMENT.read_text().replace("Begin of orc", "Begin of oracle"))


def test_only_the_blocks_are_replaced():
    page = "".join(
        f"before {name}\n<!-- Begin of {name}. `make format-docs` writes it. -->\nOUTDATED\n<!-- End of {name}. -->\n"
        for name in blocks()
    )
    written = with_blocks(page)
    assert "OUTDATED" not in written
    assert all(f"before {name}\n" in written and text in written for name, text in blocks().items())
    assert with_blocks(written) == written


def test_option_row_has_name_values_default_and_description():
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options:
        kind: str = option(Choice.of(("a", "b")), default="a", description="a | b")
        size: int | None = option(ByteCount(at_least=10), default=None, description="The size.")
        name: str = option(Text(), description="Needed.")

    assert options_table(Options).splitlines()[2:] == [
        "| `kind` | `a`, `b` | `a` | a \\| b |",
        "| `size` | bytes, for example `32MiB`, at least 10 |  | The size. |",
        "| `name` | text | none: it must be given | Needed. |",
    ]
