"""The possible contents of temporary tables, derived from a client's answers.

After a fault, the tables must agree with the answers:

- A successful statement took effect.
- A refused statement had no effect.
- A statement whose answer was lost took effect as a whole, or not at all.

So each table has a set of possible contents. A lost answer enlarges the set, and reading the table reduces it.
"""

import enum
from collections.abc import Iterable, Sequence

Contents = frozenset[int] | None
"""The ids of all rows, each once; None if the table does not exist."""

_NO_TABLE: frozenset[Contents] = frozenset({None})


class Outcome(enum.Enum):
    """The outcome of a statement, as its client knows it."""

    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class WrongAnswerError(Exception):
    """A table has a content that it must not have."""


class TableOracle:
    """The possible contents of the tables of one session."""

    def __init__(self) -> None:
        self._possible: dict[str, frozenset[Contents]] = {}

    def names(self) -> Sequence[str]:
        """Return all tables that may exist."""
        return [name for name, possible in self._possible.items() if possible != _NO_TABLE]

    def is_certain(self, name: str) -> bool:
        return len(self._possible_contents(name)) == 1

    def contents(self, name: str) -> Contents:
        """Return the content of a table that has only one possible content."""
        (contents,) = self._possible_contents(name)
        return contents

    def record_change(self, name: str, after: Contents, outcome: Outcome) -> None:
        """Record the outcome of a statement on a table with one possible content.

        Args:
            name: The table.
            after: The table's content after success.
            outcome: The outcome.
        """
        if outcome is Outcome.DONE:
            self._possible[name] = frozenset({after})
        elif outcome is Outcome.UNKNOWN:
            self._possible[name] = self._possible_contents(name) | {after}

    def record_read(self, name: str, ids: Iterable[int] | None, *, is_final: bool) -> None:
        """Record the content that a client read.

        Args:
            name: The table.
            ids: The ids of its rows; None if the table does not exist.
            is_final: Whether no statement can be running any more.

        Raises:
            WrongAnswerError: If the table must not have this content.
        """
        contents = _contents(name, ids)
        possible = self._possible_contents(name)
        if contents not in possible:
            expected = " or ".join(sorted(map(_describe, possible)))
            raise WrongAnswerError(f"table {name} is {_describe(contents)}, but it can only be {expected}")
        if is_final:
            self._possible[name] = frozenset({contents})

    def _possible_contents(self, name: str) -> frozenset[Contents]:
        return self._possible.get(name, _NO_TABLE)


def _contents(name: str, ids: Iterable[int] | None) -> Contents:
    if ids is None:
        return None
    listed = list(ids)
    if len(set(listed)) < len(listed):
        raise WrongAnswerError(f"table {name} has rows twice: {_format_ranges(listed)}")
    return frozenset(listed)


def _describe(contents: Contents) -> str:
    return "missing" if contents is None else f"[{_format_ranges(contents)}]"


def _format_ranges(ids: Iterable[int]) -> str:
    """Format ids for people: ``1000-1019 2000-2009``."""
    runs: list[list[int]] = []
    for each in sorted(ids):
        if runs and each - runs[-1][-1] <= 1:
            runs[-1][-1] = each
        else:
            runs.append([each, each])
    return " ".join(f"{first}-{last}" for first, last in runs)
