"""Finding and opening the files of a scan, inside one workspace.

Why it exists: users write into workspaces, links included, and a scan runs with the rights of Spark. A check
of a path before it is opened proves nothing, because the path can lead elsewhere a moment later. So
everything is opened first, directories too, and then the kernel is asked where the open descriptor is.

Guarantees:

1. Nothing is read, and no directory listed, that lies outside the real directory of the workspace or inside
   the excluded directory when its descriptor is checked, however links and directories are exchanged
   meanwhile. Links that stay inside are followed. A workspace that is itself the excluded directory has each
   directory in it for itself: a path may name one, and no link in that leads to another.
2. Only regular files are read. Opening never waits: a FIFO without writer is an error, not a hanging task.
3. A directory gives the same files in the same order each time. Names that start with ``.`` or ``_`` are left
   out, as Spark does, and so is the excluded directory. Nothing else is left out: a file without a reader is
   an error.
4. No file is scanned twice: two paths of one scan that lead to the same place are an error, and so is a link
   that leads back to a directory above it.
5. A link, or what is no regular file, is checked when it is listed, so that most errors come up while Spark
   plans the query and not in its tasks. :func:`open_file` checks again.

A path that is none may be a pattern (:mod:`engine.path_patterns`); it selects among the files below its fixed part.

Not guaranteed: anything about hard links, which look like the file itself; that a listing is one point in
time; that a link cannot be used to find out whether a path outside exists; systems other than Linux, where
nothing can be opened for want of ``/proc``.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from engine.errors import NoReaderError, PathNotFoundError, PathRefusedError, UnreadableFileError
from engine.path_patterns import fixed_directory, is_pattern, matches
from engine.scan_source import ScanSource, has_reader, supported_suffixes

_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_OPEN_DESCRIPTORS = Path("/proc/self/fd")


def list_files(source: ScanSource, *, any_suffix: bool = False) -> list[str]:
    """The files of a scan, as paths relative to the workspace's root, sorted. An empty directory has none.

    Args:
        source: What to scan.
        any_suffix: The reader is chosen otherwise than by the files' suffixes.

    Raises:
        PathNotFoundError, PathRefusedError, UnreadableFileError: Something cannot or may not be read.
        NoReaderError: A file has a suffix that no reader knows.
    """
    files = _selected_files(source)
    unknown = [file for file in files if not has_reader(file)]
    if unknown and not any_suffix:
        raise NoReaderError(
            source.workspace, unknown[0], others=len(unknown) - 1, supported=tuple(supported_suffixes())
        )
    return files


def open_file(source: ScanSource, path: str) -> BinaryIO:
    """Opens a file of the scan for reading; ``path`` is one of :func:`list_files`. The caller closes it.

    Raises:
        PathNotFoundError, PathRefusedError, UnreadableFileError: It cannot or may not be read.
    """
    with _opened(source, PurePosixPath(path)) as opened:
        if opened.is_directory:
            raise UnreadableFileError(source.workspace, path, "it is a directory")
        return os.fdopen(os.dup(opened.descriptor), "rb")


def _selected_files(source: ScanSource) -> list[str]:
    path = PurePosixPath(source.path)
    try:
        with _opened(source, path) as opened:
            if opened.location in _excluded(source):
                raise _excluded_error(source, path)
            if not opened.is_directory:
                return [str(path)]
    except PathNotFoundError:
        if not is_pattern(source.path):
            raise
        below = _Walk(source).files_below(fixed_directory(source.path))
        found = [file for file in below if matches(source.path, file)]
        if not found:
            raise
        return found
    return _Walk(source).files_below(path)


def size_of(source: ScanSource, path: str) -> int:
    """The bytes of a file of the scan now.

    Raises:
        PathNotFoundError, PathRefusedError, UnreadableFileError: It cannot or may not be read.
    """
    with open_file(source, path) as file:
        return os.fstat(file.fileno()).st_size


class _Walk:
    """One walk through a directory; remembers by which path it came to each place."""

    def __init__(self, source: ScanSource) -> None:
        self._source = source
        self._excluded = _excluded(source)
        self._reached: dict[Path, PurePosixPath] = {}
        self._files: list[str] = []
        self._directories: list[PurePosixPath] = []

    def files_below(self, directory: PurePosixPath) -> list[str]:
        self._directories.append(directory)
        while self._directories:
            self._list(self._directories.pop())
        return sorted(self._files)

    def _list(self, directory: PurePosixPath) -> None:
        with _opened(self._source, directory) as opened:
            if opened.location in self._excluded:
                return
            self._reach(opened.location, directory)
            with os.scandir(opened.descriptor) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name):
                    if not entry.name.startswith((".", "_")):
                        self._take(entry, directory / entry.name, opened.location / entry.name)

    def _take(self, entry: os.DirEntry[str], path: PurePosixPath, location: Path) -> None:
        """Sorts one entry of a directory; ``location`` is where it really is unless it is a link."""
        is_directory = entry.is_dir(follow_symlinks=False)
        if not is_directory and not entry.is_file(follow_symlinks=False):
            with _opened(self._source, path) as opened:
                is_directory, location = opened.is_directory, opened.location
        if is_directory:
            self._directories.append(path)
        else:
            self._reach(location, path)
            self._files.append(str(path))

    def _reach(self, location: Path, path: PurePosixPath) -> None:
        first = self._reached.setdefault(location, path)
        if first != path:
            raise PathRefusedError(
                self._source.workspace,
                str(path),
                f"{str(first)!r} of the same scan leads to the same place, so its rows would count twice; "
                "scan one of them",
            )


@dataclass(frozen=True, slots=True)
class _Opened:
    """A file or directory, open and found to be inside the workspace."""

    descriptor: int
    location: Path
    is_directory: bool


@contextmanager
def _opened(source: ScanSource, path: PurePosixPath) -> Iterator[_Opened]:
    """Opens, checks, and closes at the end; an ``OSError`` inside becomes an error that names the path."""
    if path.is_absolute() or ".." in path.parts or "\0" in str(path):
        raise PathRefusedError(
            source.workspace,
            str(path),
            "a path must be relative to the workspace, without '..' and without NUL",
        )
    descriptor = -1
    try:
        descriptor = os.open(Path(source.root, path), _OPEN_FLAGS)
        yield _checked(source, path, descriptor)
    except (FileNotFoundError, NotADirectoryError):
        raise PathNotFoundError(source.workspace, str(path)) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UnreadableFileError(source.workspace, str(path), reason) from None
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _checked(source: ScanSource, path: PurePosixPath, descriptor: int) -> _Opened:
    """Finds out where the open descriptor is and what it is."""
    try:
        location = (_OPEN_DESCRIPTORS / str(descriptor)).readlink()
    except FileNotFoundError:
        reason = "this system has no /proc to tell where an open file is, so links cannot be checked"
        raise UnreadableFileError(source.workspace, str(path), reason) from None
    if not location.is_relative_to(Path(source.root).resolve()):
        raise PathRefusedError(
            source.workspace, str(path), "a link on it leads out of the workspace; copy the data into it"
        )
    if not _may_read(source, path, location):
        raise _excluded_error(source, path)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise UnreadableFileError(source.workspace, str(path), "it is neither a file nor a directory")
    return _Opened(descriptor, location, stat.S_ISDIR(mode))


def _may_read(source: ScanSource, path: PurePosixPath, location: Path) -> bool:
    """Whether a place is outside of the excluded directories, or in what a path of a workspace inside of one names."""
    root = Path(source.root).resolve()
    named = root / path
    for excluded in _excluded(source) & frozenset(location.parents):
        is_own = root.is_relative_to(excluded) and excluded in named.parents
        if not is_own or not location.is_relative_to(excluded / named.relative_to(excluded).parts[0]):
            return False
    return True


def _excluded(source: ScanSource) -> frozenset[Path]:
    return frozenset(Path(directory).resolve() for directory in source.excluded)


def _excluded_error(source: ScanSource, path: PurePosixPath) -> PathRefusedError:
    return PathRefusedError(source.workspace, str(path), "it lies in a directory that no scan may read")
