"""The table "Tests for each rule" in the reference of temporary tables names every test exactly once."""

import re
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
REFERENCE = REPOSITORY / "docs" / "reference" / "temporary-tables.md"
TABLES = REPOSITORY / "tests" / "gateway" / "tables"
TEST = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)


def lines() -> Sequence[Sequence[str]]:
    text = REFERENCE.read_text().split("## Tests for each rule")[1]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line[:1] == "|"]
    return rows[2:]


def named() -> Sequence[tuple[Path, str]]:
    """Return the tests in the table, as file and name."""
    found = []
    for line in lines():
        file, _, name = line[-1].strip("` ").partition("::")
        found.append(((TABLES if "/" not in file else REPOSITORY) / file, name))
    return found


def names_in(file: Path) -> Sequence[str]:
    return TEST.findall(file.read_text()) if file.is_file() else ()


def test_every_line_has_rule_source_and_test() -> None:
    assert [line for line in lines() if len(line) != 3 or not all(line)] == []


def test_every_named_test_exists() -> None:
    assert [f"{file}::{name}" for file, name in named() if name not in names_in(file)] == []


def test_every_test_of_temporary_tables_has_one_line() -> None:
    there = [(file, name) for file in sorted(TABLES.glob("test_*.py")) for name in names_in(file)]
    assert sorted(each for each in named() if each[0].parent == TABLES) == sorted(there)


def test_every_message_and_testing_implication_has_a_line() -> None:
    sources = {source for line in lines() for source in line[1].split(", ")}
    wanted = {f"create {number}" for number in range(1, 9)} | {f"drop {number}" for number in range(1, 5)}
    wanted |= {f"5.14-{number}" for number in range(1, 17)}
    wanted |= {f"5.1.1-{number}" for number in range(1, 7)} | {f"5.1.{number}" for number in (3, *range(5, 9), 9)}
    assert wanted - sources == set()
