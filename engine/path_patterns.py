r"""Path patterns that select files: Hadoop's patterns, as Spark applies them, and ``**``.

| pattern | matches |
| --- | --- |
| ``*``, ``?`` | any characters, or one character, within a name |
| ``[a-z]``, ``[^a-z]``, ``[!a-z]`` | one character of a range, or one outside of it |
| ``{a,b}`` | one of the alternatives, which can be patterns and contain ``/`` |
| ``**`` | any number of directories. In Spark, it is the same as ``*`` |
| ``\`` and another character | this character, which has no special meaning then |

A path that exists is not interpreted as a pattern.

Guarantees:

1. A pattern never becomes a regular expression.
2. All matches of a pattern together compare at most ``MAX_STEPS`` characters and names, and a pattern has at most
   ``MAX_ALTERNATIVES`` alternatives. Otherwise :class:`engine.errors.PatternError` is raised. No alternative needs more
   steps for a path than its parts times the names of the path, times the characters of the two.
3. A pattern that Spark refuses is refused, for example ``[a`` or ``{a``. Patterns that Spark reads as regular
   expressions, for example ``\d*`` and ``[a?]``, are refused too.

Source: [hadoop-globs].
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

from engine.errors import PatternError, PatternSyntaxError

MAX_STEPS: Final = 20_000_000
"""Enough for a pattern of ten parts and all files that a scan may have."""

MAX_ALTERNATIVES: Final = 1000
_MAX_EXPANDED_CHARACTERS: Final = 1024 * 1024

_WILDCARDS = frozenset("*?[{\\")

_Character = Callable[[str], bool]


class _SyntaxError(Exception):
    """A pattern is malformed. The text says why."""


def is_pattern(path: str) -> bool:
    """Return whether a path contains a wildcard or an escaped character."""
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

    Raises:
        PatternSyntaxError: If the pattern is malformed.
        PatternError: If it has too many alternatives.
    """

    def __init__(self, workspace: str, text: str, max_steps: int = MAX_STEPS) -> None:
        self._workspace, self._text = workspace, text
        self._max_steps = max_steps
        self._steps_left = max_steps
        names: dict[str, _NamePattern] = {}
        self._alternatives: list[_Alternative] = []
        characters = 0
        try:
            for alternative in _expand(text):
                characters += len(alternative)
                if len(self._alternatives) == MAX_ALTERNATIVES or characters > _MAX_EXPANDED_CHARACTERS:
                    problem = f"has more than {MAX_ALTERNATIVES:,} alternatives, or long ones"
                    raise PatternError(workspace, text, problem)
                self._alternatives.append(_Alternative(alternative, names, self._take))
        except _SyntaxError as error:
            raise PatternSyntaxError(workspace, text, str(error)) from None

    def matches(self, path: str) -> bool:
        """Return whether the pattern matches the path of a file, or a parent directory of the file.

        Raises:
            PatternError: If the comparisons have used all steps.
        """
        parts = PurePosixPath(path).parts
        return any(alternative.matches(parts) for alternative in self._alternatives)

    def _take(self, steps: int) -> None:
        self._steps_left -= steps
        if self._steps_left < 0:
            raise PatternError(self._workspace, self._text, f"needs more than {self._max_steps:,} comparisons")


def _expand(text: str) -> Iterator[str]:
    """Yield the alternatives of a pattern, which have no more groups."""
    waiting = [text]
    while waiting:
        pattern = waiting.pop()
        group = _first_group(pattern)
        if group is None:
            yield pattern
            continue
        start, *commas, end = group
        for left, right in reversed(list(zip([start, *commas], [*commas, end], strict=True))):
            waiting.append(pattern[:start] + pattern[left + 1 : right] + pattern[end + 1 :])


def _first_group(text: str) -> Sequence[int] | None:
    """Return the positions of the brackets and commas of the first group of a pattern."""
    found: list[int] = []
    depth = position = 0
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 2
            continue
        if character == "[":
            end = _end_of_set(text, position)
            if depth and "," in text[position:end]:
                raise _SyntaxError("a comma in [...] in {...} needs a backslash")
            position = end
            continue
        if character == "{":
            depth += 1
        if (character == "{" and depth == 1) or (character in ",}" and depth == 1):
            found.append(position)
        if character == "}" and depth:
            depth -= 1
            if not depth:
                return found
        position += 1
    if depth:
        raise _SyntaxError("a bracket { is not closed")
    return None


def _end_of_set(text: str, position: int) -> int:
    """Return the position after the ``]`` that ends the set at a position."""
    end = position + 1
    end += text[end : end + 1] in ("^", "!")
    first = end
    while end < len(text) and (text[end] != "]" or end == first):
        if text[end] in "[{}*?/":
            raise _SyntaxError(f"the character {text[end]} in [...] needs a backslash")
        end += 2 if text[end] == "\\" else 1
    if end >= len(text):
        raise _SyntaxError("a bracket [ is not closed")
    return end + 1


class _Alternative:
    """An alternative of a pattern: the patterns of its names.

    Args:
        text: The alternative.
        names: The patterns of names that other alternatives have too.
        take_steps: Counts the comparisons.
    """

    def __init__(self, text: str, names: dict[str, "_NamePattern"], take_steps: Callable[[int], None]) -> None:
        self._take = take_steps
        self._parts: list[_NamePattern | None] = []  # None for a run of `**`
        for part in PurePosixPath(text).parts:
            if part == "**":
                if not self._parts or self._parts[-1] is not None:
                    self._parts.append(None)
                continue
            if part not in names:
                names[part] = _NamePattern(part)
            self._parts.append(names[part])

    def matches(self, names: Sequence[str]) -> bool:
        end = len(self._parts)
        states = self._with_skipped({0})
        for name in names:
            reached = set()
            for state in states - {end}:
                part = self._parts[state]
                if part is None:
                    reached.add(state)
                elif part.matches(name, self._take):
                    reached.add(state + 1)
            if not reached:
                return False
            states = self._with_skipped(reached)
            if end in states:
                return True
        return False

    def _with_skipped(self, states: set[int]) -> set[int]:
        """Add the state after each ``**``, because ``**`` also matches zero directories."""
        skipped = {state + 1 for state in states if state < len(self._parts) and self._parts[state] is None}
        return states | skipped


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
    """Return the comparison with the character, or the set, at a position of a pattern, and the next position."""
    if text[position] == "?":
        return lambda _: True, position + 1
    if text[position] != "[":
        character, position = _literal(text, position)
        return character.__eq__, position
    end = _end_of_set(text, position)
    start = position + 1
    is_negated = text[start] in "^!"
    ranges = _ranges(text, start + is_negated, end - 1)
    return lambda found: any(low <= found <= high for low, high in ranges) is not is_negated, end


def _literal(text: str, position: int) -> tuple[str, int]:
    """Return the character at a position, which may be escaped, and the next position."""
    if text[position] != "\\":
        return text[position], position + 1
    escaped = text[position + 1 : position + 2]
    if not escaped:
        raise _SyntaxError("a character must follow the backslash at the end")
    if escaped.isalnum():
        raise _SyntaxError(f"the character {escaped} does not need a backslash")
    return escaped, position + 2


def _ranges(text: str, position: int, end: int) -> Sequence[tuple[str, str]]:
    ranges = []
    while position < end:
        low, position = _literal(text, position)
        high = low
        if text[position] == "-" and position + 1 < end:
            high, position = _literal(text, position + 1)
        if high < low:
            raise _SyntaxError(f"the range {low}-{high} is empty")
        ranges.append((low, high))
    return ranges
