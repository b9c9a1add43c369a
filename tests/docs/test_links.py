"""Links between the Markdown files of the repository."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

REPOSITORY = Path(__file__).parents[2]
FOLDERS = ("docs", "engine", "examples", "gateway", "helm", "lodge", "reaper", "tests", "workspace")
PAGES = sorted(
    [*REPOSITORY.glob("*.md"), *(page for folder in FOLDERS for page in (REPOSITORY / folder).rglob("*.md"))]
)
DOCS = [page for page in PAGES if page.is_relative_to(REPOSITORY / "docs")]
CONTENTS = REPOSITORY / "docs" / "README.md"


@cache
def tokens(page: Path) -> Sequence[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text())


def links(page: Path) -> Iterator[str]:
    for block in tokens(page):
        for token in block.children or ():
            target = token.attrGet("href") if token.type == "link_open" else None
            if isinstance(target, str) and not urlsplit(target).scheme:
                yield target


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings, as GitHub makes them."""
    headings = [block.content for before, block in zip(tokens(page), tokens(page)[1:], strict=False)
                if before.type == "heading_open"]  # fmt: skip
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def resolve(page: Path, link: str) -> tuple[Path, str]:
    path, _, anchor = link.partition("#")
    return ((page.parent / unquote(path)).resolve() if path else page), anchor


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    broken = []
    for link in links(page):
        target, anchor = resolve(page, link)
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_table_of_contents_lists_every_page() -> None:
    listed = {resolve(CONTENTS, link)[0] for link in links(CONTENTS)}
    assert [str(page.relative_to(REPOSITORY)) for page in DOCS if page != CONTENTS and page not in listed] == []
