"""Path patterns that select files.

| pattern | matches |
| --- | --- |
| ``*``, ``?`` | any characters, or one character, within a name |
| ``[a-z]`` | one character of a range |
| ``**`` | any number of directories |

Alternatives such as ``{a,b}`` are not supported. There is no escape character, because a path that exists is not
interpreted as a pattern.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

_WILDCARDS = frozenset("*?[")


def is_pattern(path: str) -> bool:
    """Return whether a path contains a wildcard."""
    return not _WILDCARDS.isdisjoint(path)


def fixed_directory(pattern: str) -> PurePosixPath:
    """Return the deepest directory that contains all possible matches of a pattern."""
    parts = PurePosixPath(pattern).parts
    fixed = next((index for index, part in enumerate(parts) if is_pattern(part)), len(parts))
    return PurePosixPath(*parts[:fixed])


def matches(pattern: str, path: str) -> bool:
    """Return whether a pattern matches the path of a file, or a parent directory of the file."""
    names = PurePosixPath(path).parts
    wanted = PurePosixPath(pattern).parts
    return any(_matches_parts(wanted, names[:length]) for length in range(1, len(names) + 1))


def _matches_parts(wanted: Sequence[str], names: Sequence[str]) -> bool:
    """Match all names.

    The function follows all possible states simultaneously, so that a pattern with many ``**`` remains fast.
    """
    states = _skip_empty(wanted, {0})
    for name in names:
        reached = set()
        for state in states:
            if state < len(wanted) and wanted[state] == "**":
                reached.add(state)
            elif state < len(wanted) and fnmatchcase(name, wanted[state]):
                reached.add(state + 1)
        states = _skip_empty(wanted, reached)
    return len(wanted) in states


def _skip_empty(wanted: Sequence[str], states: set[int]) -> set[int]:
    """Add the states after each ``**``, because ``**`` also matches zero directories."""
    found = set(states)
    for state in sorted(states):
        following = state
        while following < len(wanted) and wanted[following] == "**":
            following += 1
            found.add(following)
    return found
