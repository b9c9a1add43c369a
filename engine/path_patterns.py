"""Path patterns that select files.

| pattern | matches |
| --- | --- |
| ``*``, ``?`` | any characters, or one character, within a name |
| ``[a-z]``, ``[!a-z]`` | one character of a range, or one outside of it |
| ``**`` | any number of directories |

Alternatives such as ``{a,b}`` are not supported. There is no escape character, because a path that exists is not
interpreted as a pattern.

Guarantees:

1. A pattern never becomes a regular expression.
2. All matches of a pattern together compare at most ``MAX_STEPS`` characters and names. Then
   :class:`engine.errors.PatternError` is raised. No pattern needs more steps for a path than its parts times the names
   of the path, times the characters of the two.
"""

from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Final

from engine.errors import PatternError

MAX_STEPS: Final = 20_000_000
"""Enough for a pattern of ten parts and all files that a scan may have."""

_WILDCARDS = frozenset("*?[")

_Character = Callable[[str], bool]


def is_pattern(path: str) -> bool:
    """Return whether a path contains a wildcard."""
    return not _WILDCARDS.isdisjoint(path)


def fixed_directory(pattern: str) -> PurePosixPath:
    """Return the deepest directory that contains all possible matches of a pattern."""
    parts = PurePosixPath(pattern).parts
    fixed = next((index for index, part in enumerate(parts) if is_pattern(part)), len(parts))
    return PurePosixPath(*parts[:fixed])


class PathPattern:
    """A pattern that is compared with many paths.

    Args:
        workspace: The name of the workspace, for the error.
        text: The pattern.
        max_steps: The maximum number of steps of all comparisons.
    """

    def __init__(self, workspace: str, text: str, max_steps: int = MAX_STEPS) -> None:
        self._workspace, self._text = workspace, text
        self._max_steps = max_steps
        self._steps_left = max_steps
        self._parts: list[_NamePattern | None] = []  # None for a run of `**`
        for part in PurePosixPath(text).parts:
            if part != "**":
                self._parts.append(_NamePattern(part))
            elif not self._parts or self._parts[-1] is not None:
                self._parts.append(None)

    def matches(self, path: str) -> bool:
        """Return whether the pattern matches the path of a file, or a parent directory of the file.

        Raises:
            PatternError: If the comparisons have used all steps.
        """
        end = len(self._parts)
        states = self._with_skipped({0})
        for name in PurePosixPath(path).parts:
            reached = set()
            for state in states - {end}:
                part = self._parts[state]
                if part is None:
                    reached.add(state)
                elif part.matches(name, self._take):
                    reached.add(state + 1)
            states = self._with_skipped(reached)
            if end in states:
                return True
        return False

    def _with_skipped(self, states: set[int]) -> set[int]:
        """Add the state after each ``**``, because ``**`` also matches zero directories."""
        skipped = {state + 1 for state in states if state < len(self._parts) and self._parts[state] is None}
        return states | skipped

    def _take(self, steps: int) -> None:
        self._steps_left -= steps
        if self._steps_left < 0:
            raise PatternError(self._workspace, self._text, self._max_steps)


class _NamePattern:
    """A pattern for one name: texts of fixed length between stars.

    The first text begins the name, the last one ends it, and each other is found at its first place after the one
    before. No other place needs to be tried, because a star matches anything.
    """

    def __init__(self, text: str) -> None:
        self._texts: list[list[_Character]] = [[]]
        self._shortest = 0
        position = 0
        while position < len(text):
            if text[position] == "*":
                self._texts.append([])
                position += 1
                continue
            character, position = _character(text, position)
            self._texts[-1].append(character)
            self._shortest += 1

    def matches(self, name: str, take_steps: Callable[[int], None]) -> bool:
        take_steps(1)
        if len(name) < self._shortest:
            return False
        first, *others = self._texts
        if not others:
            return len(name) == len(first) and self._fits(first, name, 0, take_steps)
        last = others.pop()
        end = len(name) - len(last)
        if not (self._fits(first, name, 0, take_steps) and self._fits(last, name, end, take_steps)):
            return False
        position = len(first)
        for text in others:
            while position + len(text) <= end and not self._fits(text, name, position, take_steps):
                position += 1
            position += len(text)
            if position > end:
                return False
        return True

    @staticmethod
    def _fits(text: Sequence[_Character], name: str, position: int, take_steps: Callable[[int], None]) -> bool:
        for compared, character in enumerate(text):
            if not character(name[position + compared]):
                take_steps(compared + 1)
                return False
        take_steps(len(text))
        return True


def _character(text: str, position: int) -> tuple[_Character, int]:
    """Return the comparison with the character, or the range, at a position of a pattern, and the next position."""
    if text[position] == "?":
        return lambda _: True, position + 1
    end = text.find("]", position + 3 if text[position + 1 : position + 2] == "!" else position + 2)
    if text[position] != "[" or end < 0:
        return text[position].__eq__, position + 1
    inside = text[position + 1 : end]
    is_negated = inside.startswith("!")
    ranges = _ranges(inside[is_negated:])
    return lambda found: any(low <= found <= high for low, high in ranges) is not is_negated, end + 1


def _ranges(inside: str) -> Sequence[tuple[str, str]]:
    ranges, position = [], 0
    while position < len(inside):
        is_range = inside[position + 1 : position + 2] == "-" and position + 2 < len(inside)
        ranges.append((inside[position], inside[position + 2 if is_range else position]))
        position += 3 if is_range else 1
    return ranges
