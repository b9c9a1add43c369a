"""What a client knows about its temporary tables, from the answers that it got: no I/O.

Why it exists: after a fault, what the storage holds is judged by what the client was told. An answer binds Lodge; an
error means that nothing is left of the statement; and of a statement whose answer was lost, the whole effect or none
of it may be there, never a part. So for each name there is a set of contents that are right, which an uncertain
statement makes larger and a look makes smaller.
"""

import enum
from collections.abc import Iterable, Sequence

Contents = frozenset[int] | None
"""The ids of all rows of a table, none of which is there twice; None if there is no table."""

_NO_TABLE: frozenset[Contents] = frozenset({None})


class Fate(enum.Enum):
    """What a client knows of a statement that it sent."""

    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class WrongAnswerError(Exception):
    """A table is not as it can be."""


class TableKnowledge:
    """The contents that each table of one session may have."""

    def __init__(self) -> None:
        self._possible: dict[str, frozenset[Contents]] = {}

    def names(self) -> Sequence[str]:
        """All tables that may be there."""
        return [name for name, possible in self._possible.items() if possible != _NO_TABLE]

    def is_certain(self, name: str) -> bool:
        return len(self._of(name)) == 1

    def contents(self, name: str) -> Contents:
        """Of a table that is certain."""
        (contents,) = self._of(name)
        return contents

    def changed(self, name: str, after: Contents, fate: Fate) -> None:
        """Takes in a statement on a table that was certain.

        Args:
            after: What the table holds if the statement was done.
        """
        if fate is Fate.DONE:
            self._possible[name] = frozenset({after})
        elif fate is Fate.UNKNOWN:
            self._possible[name] = self._of(name) | {after}

    def seen(self, name: str, ids: Iterable[int] | None, *, is_final: bool) -> None:
        """Takes in what a look at the table has shown.

        Args:
            ids: Of its rows; None if there was no such table.
            is_final: Whether no statement can be under way any more.

        Raises: WrongAnswerError
        """
        contents = _contents(name, ids)
        possible = self._of(name)
        if contents not in possible:
            expected = " or ".join(sorted(map(_described, possible)))
            raise WrongAnswerError(f"table {name} is {_described(contents)}, but it can only be {expected}")
        if is_final:
            self._possible[name] = frozenset({contents})

    def _of(self, name: str) -> frozenset[Contents]:
        return self._possible.get(name, _NO_TABLE)


def _contents(name: str, ids: Iterable[int] | None) -> Contents:
    if ids is None:
        return None
    listed = list(ids)
    if len(set(listed)) < len(listed):
        raise WrongAnswerError(f"table {name} has rows twice: {_ranges(listed)}")
    return frozenset(listed)


def _described(contents: Contents) -> str:
    return "missing" if contents is None else f"[{_ranges(contents)}]"


def _ranges(ids: Iterable[int]) -> str:
    """Ids as a person reads them: ``1000-1019 2000-2009``."""
    runs: list[list[int]] = []
    for each in sorted(ids):
        if runs and each - runs[-1][-1] <= 1:
            runs[-1][-1] = each
        else:
            runs.append([each, each])
    return " ".join(f"{first}-{last}" for first, last in runs)
