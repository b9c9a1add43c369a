"""The table "What a client sees" in the reference of faults names tests that exist."""

import re
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "reference" / "faults.md"


def rows() -> Iterator[list[str]]:
    """Yield the cells of the rows of the table."""
    section = PAGE.read_text().partition("\n## What a client sees\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def exists(test: str) -> bool:
    file, _, name = test.partition("::")
    path = REPOSITORY / file
    return path.is_file() and re.search(rf"^(?:async )?def {re.escape(name)}\(", path.read_text(), re.M) is not None


def test_every_fault_has_an_effect_and_tests_that_exist() -> None:
    table = list(rows())
    assert len(table) > 10
    assert [row for row in table if len(row) != 5 or not all((row[0], row[1], row[3], row[4]))] == []
    named = [test.strip("` ") for row in table for test in row[4].split(", ")]
    assert [test for test in named if not exists(test)] == []
