"""Patterns that select files: ``*`` and ``?`` within a name, ``[a-z]`` for one character, ``**`` for any directories.

Not in a pattern: ``{a,b}``. There is no escape: a path that exists as it stands is that path.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

_MAGIC = frozenset("*?[")


def is_pattern(path: str) -> bool:
    return not _MAGIC.isdisjoint(path)


def fixed_directory(pattern: str) -> PurePosixPath:
    """The directory below which everything lies that a pattern can select."""
    parts = PurePosixPath(pattern).parts
    fixed = next((index for index, part in enumerate(parts) if is_pattern(part)), len(parts))
    return PurePosixPath(*parts[:fixed])


def selects(pattern: str, path: str) -> bool:
    """Whether a pattern selects a file, by its own path or by that of a directory above it."""
    names = PurePosixPath(path).parts
    wanted = PurePosixPath(pattern).parts
    return any(_matches(wanted, names[:length]) for length in range(1, len(names) + 1))


def _matches(wanted: Sequence[str], names: Sequence[str]) -> bool:
    """Follows all places at once where the names so far can stand in the pattern, so that ``**`` stays cheap."""
    places = _with_skipped(wanted, {0})
    for name in names:
        reached = set()
        for place in places:
            if place < len(wanted) and wanted[place] == "**":
                reached.add(place)
            elif place < len(wanted) and fnmatchcase(name, wanted[place]):
                reached.add(place + 1)
        places = _with_skipped(wanted, reached)
    return len(wanted) in places


def _with_skipped(wanted: Sequence[str], places: set[int]) -> set[int]:
    """``**`` also stands for no directory at all."""
    found = set(places)
    for place in sorted(places):
        following = place
        while following < len(wanted) and wanted[following] == "**":
            following += 1
            found.add(following)
    return found
