"""A file in a listing, and how many files a listing may have."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

from engine.errors import UnreadableFileError
from engine.path_patterns import PathPattern
from engine.scan_source import ScanSource

MAX_FILES: Final = 500_000
"""The maximum number of files of a scan. A listing of so many files occupies about 250 MB."""

_Item = TypeVar("_Item")

OnProgress = Callable[[], None]
"""A function that a listing calls for each directory, and for each ``PROGRESS_ENTRIES`` entries of a directory.

If it raises an error, the listing ends with this error.
"""

PROGRESS_ENTRIES: Final = 1000


def ignore_progress() -> None:
    """Do nothing about the progress of a listing."""


def with_progress(items: Iterable[_Item], on_progress: OnProgress) -> Iterator[_Item]:
    """Yield the items, and report the progress after each ``PROGRESS_ENTRIES`` of them."""
    for number, item in enumerate(items, start=1):
        if number % PROGRESS_ENTRIES == 0:
            on_progress()
        yield item


def select_files(source: ScanSource, files: Iterable["ListedFile"], on_progress: OnProgress) -> list["ListedFile"]:
    """Return the files that the path of a scan matches as a pattern.

    Raises:
        PatternError: If the comparison takes too many steps.
        PatternSyntaxError: If the pattern is malformed.
    """
    pattern = PathPattern(source.workspace, source.path)
    return [file for file in with_progress(files, on_progress) if pattern.matches(file.path)]


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file of a scan, as it was when it was listed.

    Attributes:
        path: The path of the file, relative to the workspace's root.
        size_bytes: The size of the file.
        version: A text that changes when the contents of the file change. Its form depends on the storage: for a local
            file, it is the modification time in nanoseconds.
        is_settled: Whether any later change of the contents changes the version. False for a local file that was
            modified so recently that another change could have the same modification time.
    """

    path: str
    size_bytes: int
    version: str
    is_settled: bool = field(default=True, compare=False)


def require_few_files(source: ScanSource, count: int, max_files: int = MAX_FILES) -> None:
    """Check the number of files of a scan.

    Raises:
        UnreadableFileError: If there are too many files.
    """
    if count > max_files:
        reason = f"there are more than {max_files:,} files; scan its directories separately, or combine small files"
        raise UnreadableFileError(source.workspace, source.path, reason)


def require_few_entries(source: ScanSource, count: int, max_files: int = MAX_FILES) -> None:
    """Check the number of entries that a listing reads, which also counts entries that scans ignore.

    At most two are allowed for each possible file.

    Raises:
        UnreadableFileError: If there are too many entries.
    """
    if count > 2 * max_files:
        reason = f"its directories have more than {2 * max_files:,} entries; remove what is not to be scanned"
        raise UnreadableFileError(source.workspace, source.path, reason)
