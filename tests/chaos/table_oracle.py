"""The possible contents of temporary tables, derived from a client's answers.

After a fault, the tables must agree with the answers:

- A successful statement took effect.
- A refused statement had no effect.
- A statement whose answer was lost took effect as a whole, or not at all.

So a session has a set of possible states. A lost answer enlarges the set, and reading a table reduces it. A state
contains all tables, because a lost answer of ``RENAME TO`` leaves either the old or the new name.
"""

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableContents:
    """The content of a table.

    Attributes:
        ids: The ids of all rows, each once.
        added_columns: The number of columns that were added since the table was created.
    """

    ids: frozenset[int]
    added_columns: int = 0


Contents = TableContents | None
"""The content of a table; None if the table does not exist."""

_State = Mapping[str, TableContents]
"""The content of each table that exists."""


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
        self._possible: Sequence[_State] = [{}]

    def names(self) -> Sequence[str]:
        """Return all tables that may exist."""
        return list(dict.fromkeys(name for state in self._possible for name in state))

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
        self._record(outcome, lambda state: _with(state, name, after))

    def record_renaming(self, name: str, new_name: str, outcome: Outcome) -> None:
        """Record the outcome of ``RENAME TO``. Both names have one possible content."""
        self._record(outcome, lambda state: _with(_with(state, name, None), new_name, state.get(name)))

    def record_read(self, name: str, ids: Iterable[int] | None, added_columns: int = 0, *, is_final: bool) -> None:
        """Record the content that a client read.

        Args:
            name: The table.
            ids: The ids of its rows; None if the table does not exist.
            added_columns: The number of its columns that were added.
            is_final: Whether no statement can be running any more.

        Raises:
            WrongAnswerError: If the table must not have this content.
        """
        contents = _contents(name, ids, added_columns)
        possible = self._possible_contents(name)
        if contents not in possible:
            expected = " or ".join(sorted(map(_describe, possible)))
            raise WrongAnswerError(f"table {name} is {_describe(contents)}, but it can only be {expected}")
        if is_final:
            self._possible = [state for state in self._possible if state.get(name) == contents]

    def _record(self, outcome: Outcome, change: Callable[[_State], _State]) -> None:
        after = [change(state) for state in self._possible]
        if outcome is Outcome.DONE:
            self._possible = after
        elif outcome is Outcome.UNKNOWN:
            self._possible = [*self._possible, *(state for state in after if state not in self._possible)]

    def _possible_contents(self, name: str) -> frozenset[Contents]:
        return frozenset(state.get(name) for state in self._possible)


def _with(state: _State, name: str, contents: Contents) -> _State:
    others = {each: found for each, found in state.items() if each != name}
    return others if contents is None else {**others, name: contents}


def _contents(name: str, ids: Iterable[int] | None, added_columns: int) -> Contents:
    if ids is None:
        return None
    listed = list(ids)
    if len(set(listed)) < len(listed):
        raise WrongAnswerError(f"table {name} has rows twice: {_format_ranges(listed)}")
    return TableContents(frozenset(listed), added_columns)


def _describe(contents: Contents) -> str:
    if contents is None:
        return "missing"
    added = f" with {contents.added_columns} added columns" if contents.added_columns else ""
    return f"[{_format_ranges(contents.ids)}]{added}"


def _format_ranges(ids: Iterable[int]) -> str:
    """Format ids for people: ``1000-1019 2000-2009``."""
    runs: list[list[int]] = []
    for each in sorted(ids):
        if runs and each - runs[-1][-1] <= 1:
            runs[-1][-1] = each
        else:
            runs.append([each, each])
    return " ".join(f"{first}-{last}" for first, last in runs)
