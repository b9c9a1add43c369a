"""Listing and opening of local files, inside one workspace.

Users can write to workspaces and create links there, while a scan runs with the permissions of Spark. It is not
sufficient to check a path before opening it, because the path can be changed between the check and the opening.
Therefore files and directories are opened first. The kernel then reports the actual location of the open descriptor.

Guarantees:

1. A scan does not read a file or list a directory if its open descriptor is outside the workspace's real directory, or
   inside an excluded directory. This is true even if links and directories are replaced at the same time. Links that
   stay inside the workspace are followed. If the workspace is itself inside an excluded directory, its subdirectories
   are separated from each other: a path may name one of them, but no link may lead from one to another.
2. Only regular files are read. Opening a file never blocks. For example, a FIFO without a writer raises an error.
3. A directory always results in the same files in the same order. Hidden names are ignored, as in Spark
   (:mod:`engine.storage.file_names`). Excluded directories are also ignored. All other files are included.
4. A scan has at most ``MAX_FILES`` files, and no file is scanned twice. If two paths of a scan lead to the same
   location, an error is raised. The same is true for a link that leads to one of its parent directories.
5. Links and special files are checked when they are listed. Therefore most errors occur while Spark plans the query,
   and not in its tasks. :func:`open_file` checks the file again.

If a path does not exist, it is interpreted as a pattern if possible (:mod:`engine.path_patterns`). The pattern then
selects files below its fixed directory.

Not guaranteed:

- There is no protection against hard links, because they cannot be distinguished from the file itself.
- A listing does not necessarily show the directory at a single point in time.
- A link may reveal whether a path outside the workspace exists.
- Only Linux is supported. Files cannot be opened without ``/proc``.
"""

import io
import os
import posixpath
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from engine.context import ErrorContext
from engine.errors import FileChangedError, FileError, PathNotFoundError, PathRefusedError, UnreadableFileError
from engine.path_patterns import fixed_directory, is_pattern
from engine.scan_source import ScanSource
from engine.storage.file_names import ICEBERG_METADATA, MARKING_DIRECTORIES, FoundTables, is_hidden, may_mark_table
from engine.storage.listed_file import (
    MAX_FILES,
    ListedFile,
    OnProgress,
    ignore_progress,
    require_few_entries,
    require_few_files,
    select_files,
    with_progress,
)

_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_OPEN_DESCRIPTORS = "/proc/self/fd"
_SETTLED_NS = 2_000_000_000
"""More than the resolution of modification times in any file system."""


def list_files(
    source: ScanSource,
    max_files: int = MAX_FILES,
    on_progress: OnProgress = ignore_progress,
    *,
    is_raw: bool = False,
) -> Sequence[ListedFile]:
    """Return the files of a scan, sorted by path.

    Args:
        source: The scan.
        max_files: The maximum number of files below a directory.
        on_progress: Called while directories are listed.
        is_raw: Whether the files may be in the directory of a table.

    Raises:
        PathNotFoundError: If the path does not exist and, interpreted as a pattern, does not match any file.
        PathRefusedError: If the path, or a link below it, leads to a location that the scan may not read.
        TableDirectoryError: If a file is in the directory of a Delta, Iceberg or Hudi table, unless ``is_raw``.
        UnreadableFileError: If a file or directory cannot be read, or there are too many files.
    """
    path = str(PurePosixPath(source.path))
    try:
        with _open_checked(source, path) as opened:
            if opened.location in _excluded_directories(source):
                raise _excluded_error(source, path)
            if not opened.is_directory:
                return [_listed(path, opened.status)]
    except PathNotFoundError:
        if not is_pattern(source.path):
            raise
        walk = _Walk(source, max_files, on_progress)
        found = select_files(source, walk.files_below(fixed_directory(source.path)), on_progress)
        if not found:
            raise
    else:
        walk = _Walk(source, max_files, on_progress)
        found = walk.files_below(PurePosixPath(path))
    if not is_raw:
        walk.refuse_tables(found)
    return found


def open_file(source: ScanSource, file: ListedFile) -> BinaryIO:
    """Open a file of the scan for reading. The caller must close the file.

    Raises:
        FileChangedError: If the file was modified since it was listed.
        PathNotFoundError: If the file does not exist.
        PathRefusedError: If the path leads to a location that the scan may not read.
        UnreadableFileError: If the file cannot be read.
    """
    with _open_checked(source, file.path) as opened:
        if opened.is_directory:
            raise UnreadableFileError(source.workspace, file.path, "it is a directory")
        if _version(opened.status) != file.version:
            raise FileChangedError(ErrorContext(source.workspace, file.path), "it was modified")
        # Readers read large blocks, so a buffer would only cost time.
        return cast("BinaryIO", io.FileIO(os.dup(opened.descriptor), "rb"))


class _Walk:
    """A walk through a directory that records the path to each location.

    Paths are texts, because a walk can reach hundreds of thousands of them.
    """

    def __init__(self, source: ScanSource, max_files: int, on_progress: OnProgress) -> None:
        self._source = source
        self._max_files = max_files
        self._on_progress = on_progress
        self._excluded = _excluded_directories(source)
        self._entries = 0
        self._reached: dict[str, str] = {}
        self._files: list[ListedFile] = []
        self._tables = FoundTables(source)
        self._directories: list[PurePosixPath] = []

    def files_below(self, directory: PurePosixPath) -> list[ListedFile]:
        for parent in directory.parents:
            self._note_marks(parent)
        self._directories.append(directory)
        while self._directories:
            self._list(self._directories.pop())
        return sorted(self._files, key=attrgetter("path"))

    def refuse_tables(self, files: Iterable[ListedFile]) -> None:
        """Check that no file is in the directory of a table of another format."""
        self._tables.refuse(files)

    def _note_marks(self, directory: PurePosixPath) -> None:
        """Note whether a directory above the selected one is that of a table."""
        for mark in MARKING_DIRECTORIES:
            with suppress(FileError), _open_checked(self._source, str(directory / mark)) as opened:
                if opened.is_directory:
                    self._tables.note([*directory.parts, mark])
        with suppress(FileError), _open_checked(self._source, str(directory / ICEBERG_METADATA)) as opened:
            if opened.is_directory:
                with os.scandir(opened.descriptor) as entries:
                    for entry in entries:
                        self._tables.note([*directory.parts, ICEBERG_METADATA, entry.name])

    def _list(self, directory: PurePosixPath) -> None:
        self._on_progress()
        with _open_checked(self._source, str(directory)) as opened:
            if opened.location in self._excluded:
                return
            self._reach(opened.location, str(directory))
            with os.scandir(opened.descriptor) as entries:
                found = sorted(self._visible(entries, directory), key=lambda entry: entry.name)
            for entry in with_progress(found, self._on_progress):
                path = posixpath.join(*directory.parts, entry.name)
                self._add(entry, path, posixpath.join(opened.location, entry.name))

    def _visible(self, entries: Iterable[os.DirEntry[str]], directory: PurePosixPath) -> Iterator[os.DirEntry[str]]:
        """Yield the entries that scans read. All entries count, because each takes time."""
        for entry in with_progress(entries, self._on_progress):
            self._entries += 1
            require_few_entries(self._source, self._entries, self._max_files)
            if may_mark_table(entry.name):
                self._tables.note([*directory.parts, entry.name])
            if not is_hidden(entry.name):
                yield entry

    def _add(self, entry: os.DirEntry[str], path: str, location: str) -> None:
        """Add a directory entry to the files or the directories.

        Unless the entry is a link, ``location`` is its real path.
        """
        if entry.is_dir(follow_symlinks=False):
            self._directories.append(PurePosixPath(path))
            return
        if entry.is_file(follow_symlinks=False):
            status = entry.stat(follow_symlinks=False)
        else:
            with _open_checked(self._source, path) as opened:
                if opened.is_directory:
                    self._directories.append(PurePosixPath(path))
                    return
                location, status = opened.location, opened.status
        self._reach(location, path)
        require_few_files(self._source, len(self._files) + 1, self._max_files)
        self._files.append(_listed(path, status))

    def _reach(self, location: str, path: str) -> None:
        """Record the path to a location.

        Raises:
            PathRefusedError: If another path of the scan leads to the same location.
        """
        first = self._reached.setdefault(location, path)
        if first != path:
            raise PathRefusedError(
                self._source.workspace,
                path,
                f"{first!r} of the same scan leads to the same location, so its rows would be read twice; "
                "scan only one of the paths",
            )


def _listed(path: str, status: os.stat_result) -> ListedFile:
    is_settled = time.time_ns() - status.st_mtime_ns > _SETTLED_NS
    return ListedFile(path, status.st_size, _version(status), is_settled)


def _version(status: os.stat_result) -> str:
    return str(status.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class _Opened:
    """An open file or directory that the scan may read.

    Attributes:
        descriptor: The open file descriptor.
        location: The real path of the descriptor.
        status: The status of the descriptor.
    """

    descriptor: int
    location: str
    status: os.stat_result

    @property
    def is_directory(self) -> bool:
        """Whether the descriptor refers to a directory."""
        return stat.S_ISDIR(self.status.st_mode)


@contextmanager
def _open_checked(source: ScanSource, path: str) -> Iterator[_Opened]:
    """Open a path, check its location, and close it at the end of the block.

    If the block raises an ``OSError``, it is converted to an error that contains the path.
    """
    if path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise PathRefusedError(
            source.workspace, path, "the path must be relative to the workspace and must not contain '..' or NUL"
        )
    descriptor = -1
    try:
        descriptor = os.open(posixpath.join(source.root, path), _OPEN_FLAGS)
        yield _check(source, path, descriptor)
    except (FileNotFoundError, NotADirectoryError):
        raise PathNotFoundError(source.workspace, path) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UnreadableFileError(source.workspace, path, reason) from None
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _check(source: ScanSource, path: str, descriptor: int) -> _Opened:
    """Check the location and the type of an open descriptor."""
    try:
        location = os.readlink(f"{_OPEN_DESCRIPTORS}/{descriptor}")  # noqa: PTH115 - a path object takes longer
    except FileNotFoundError:
        reason = "this system has no /proc, so the location of an open file cannot be checked"
        raise UnreadableFileError(source.workspace, path, reason) from None
    if not _is_in(location, source.root) and not _is_in(location, os.path.realpath(source.root)):
        raise PathRefusedError(
            source.workspace,
            path,
            "a link on the path leads out of the workspace; copy the data into the workspace",
        )
    if not _may_read(source, path, location):
        raise _excluded_error(source, path)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise UnreadableFileError(source.workspace, path, "it is neither a file nor a directory")
    return _Opened(descriptor, location, status)


def _may_read(source: ScanSource, path: str, location: str) -> bool:
    """Return whether a location is outside the excluded directories.

    A location inside an excluded directory is allowed only if both conditions are true:

    - The workspace is inside the same excluded directory.
    - The path names the subdirectory of the workspace that contains the location.
    """
    for excluded in _excluded_directories(source):
        if location != excluded and _is_in(location, excluded):
            root = os.path.realpath(source.root)
            named = Path(root, path)
            is_own = _is_in(root, excluded) and Path(excluded) in named.parents
            if not is_own or not _is_in(location, str(Path(excluded, named.relative_to(excluded).parts[0]))):
                return False
    return True


def _is_in(location: str, directory: str) -> bool:
    """Return whether a location is a directory, or below it.

    A location that the kernel reports has no links. So a directory with which it begins has none either.
    """
    return location == directory or location.startswith(f"{directory.rstrip('/')}/")


def _excluded_directories(source: ScanSource) -> frozenset[str]:
    return frozenset(map(os.path.realpath, source.excluded))


def _excluded_error(source: ScanSource, path: str) -> PathRefusedError:
    return PathRefusedError(source.workspace, path, "it is in a directory that scans may not read")
