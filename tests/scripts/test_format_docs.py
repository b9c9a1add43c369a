from typing import Literal

import pytest
from pydantic import BaseModel, ByteSize, Field

from scripts.format_docs import DOCUMENT, PageError, blocks, options_table, with_blocks


def test_the_page_says_what_the_code_says():
    page = DOCUMENT.read_text()
    assert page == with_blocks(page), "Run: make format-docs"


def test_a_page_without_a_block_of_each_format_is_refused():
    with pytest.raises(PageError, match="Begin of orc"):
        with_blocks(DOCUMENT.read_text().replace("Begin of orc", "Begin of oracle"))


def test_what_stands_in_a_block_is_replaced_and_all_else_is_kept():
    page = "".join(
        f"before {name}\n<!-- Begin of {name}. `make format-docs` writes it. -->\nOUTDATED\n<!-- End of {name}. -->\n"
        for name in blocks()
    )
    written = with_blocks(page)
    assert "OUTDATED" not in written
    assert all(f"before {name}\n" in written and text in written for name, text in blocks().items())
    assert with_blocks(written) == written


def test_an_option_has_its_name_values_default_and_description():
    class Options(BaseModel):
        kind: Literal["a", "b"] = Field("a", description="a | b")
        size: ByteSize | None = Field(None, ge=10, description="Of it.")
        name: str = Field(description="Needed.")

    assert options_table(Options).splitlines()[2:] == [
        "| `kind` | `a`, `b` | `a` | a \\| b |",
        "| `size` | bytes, also as `32MiB`, at least 10 |  | Of it. |",
        "| `name` | text | none: it must be given | Needed. |",
    ]


def test_a_type_that_has_no_words_is_not_written_down():
    class Options(BaseModel):
        odd: complex = Field(1j, description="Of no use.")

    with pytest.raises(TypeError, match="complex"):
        options_table(Options)
