"""The files of a table: their size, contents, copies, and modes in public tables.

Guarantees:

1. Links are never followed, even if the owner of the directories replaces them with links or FIFOs at the same time.
   Each directory is opened relative to its open parent, and only if it is a directory.
2. If a directory tree is nested more deeply than a table can be, an error is raised. As a result, no owner can cause
   this process to use up all file descriptors.
3. A copy is independent of the original. Removing one of them does not affect the other. A copy contains no links, and
   its directories have the same modes and owners as the original directories.
"""

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO

from workspace.files.private_files import open_directory, scan_directory

MAX_DEPTH = 64
_PUBLIC_DIRECTORY_MODE = 0o775
_PUBLIC_FILE_MODE = 0o644


class ForeignFileError(PermissionError):
    """Raised if the directory of a table contains a file that may not belong to the table."""


def size_bytes(directory: int) -> int:
    """Return the total size of all regular files below an open directory.

    Files that are removed during the call do not count.

    Raises:
        OSError: If the directory tree cannot be read or has more than ``MAX_DEPTH`` levels.
    """
    total = 0
    for entry, _ in _walk(directory, skip_vanished=True):
        with suppress(FileNotFoundError):
            status = entry.stat(follow_symlinks=False)
            total += status.st_size if stat.S_ISREG(status.st_mode) else 0
    return total


def sum_data_files(directory: int, measure: Callable[[BinaryIO], int]) -> int:
    """Return the sum of a measure over the data files below an open directory.

    Data files are the regular files that Spark reads. Spark ignores files and directories whose names begin with ``.``,
    those whose names begin with ``_`` and contain no ``=``, and those whose names end with ``._COPYING_``.

    Args:
        directory: The directory of a table.
        measure: A function that returns the measure of an open file.

    Raises:
        FileNotFoundError: If a file was removed during the call.
        OSError: If a file cannot be opened, or the directory tree has more than ``MAX_DEPTH`` levels.
    """
    total = 0
    for entry, parent in _walk(directory, is_visible=_is_read_by_spark):
        if entry.is_file(follow_symlinks=False):
            descriptor = os.open(entry.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=parent)
            with os.fdopen(descriptor, "rb") as file:
                total += measure(file)
    return total


def _is_read_by_spark(name: str) -> bool:
    """Return whether Spark reads files and directories with a name."""
    is_internal = name.startswith("_") and "=" not in name
    return not (is_internal or name.startswith(".") or name.endswith("._COPYING_"))


def has_links(path: Path) -> bool:
    """Return whether a directory tree contains anything except directories and files.

    The result is also True if the tree is nested too deeply to be searched.

    Raises:
        OSError: If the directory tree cannot be read.
    """
    with open_directory(path) as directory:
        try:
            entries = (entry for entry, _ in _walk(directory))
            return not all(
                entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False) for entry in entries
            )
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            return True


def make_public(path: Path) -> None:
    """Set the mode of all directories to 0775 and of all files to 0644.

    These are the modes of public tables [temporary-tables §5.2].

    As root, this process could make a private file of another user public. Therefore only files count that belong to
    the owner of the table's directory and that have a single name. A hard link to another file does not.

    Raises:
        ForeignFileError: If the directory tree contains a hard link, a special file, or a file of another user than the
            owner of the directory.
        OSError: If the directory tree contains a symbolic link, or a mode cannot be changed.
    """
    with open_directory(path) as directory:
        owner = os.fstat(directory).st_uid
        os.fchmod(directory, _PUBLIC_DIRECTORY_MODE)
        for entry, parent in _walk(directory):
            is_directory = entry.is_dir(follow_symlinks=False)
            kind, mode = (
                (os.O_DIRECTORY, _PUBLIC_DIRECTORY_MODE) if is_directory else (os.O_NONBLOCK, _PUBLIC_FILE_MODE)
            )
            descriptor = os.open(entry.name, os.O_RDONLY | os.O_NOFOLLOW | kind, dir_fd=parent)
            try:
                _require_own(os.fstat(descriptor), owner, entry.name)
                os.fchmod(descriptor, mode)
            finally:
                os.close(descriptor)


def write_public_file(name: str, content: bytes, directory: Path) -> None:
    """Write a new file with mode 0644.

    Raises:
        FileExistsError: If a file or link with the same name exists.
    """
    with open_directory(directory) as parent:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PUBLIC_FILE_MODE, dir_fd=parent)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, _PUBLIC_FILE_MODE)
            file.write(content)


def copy_table(source: Path, target: Path) -> None:
    """Copy a directory tree.

    If the file system supports hard links, the files are linked and not copied.

    Raises:
        FileNotFoundError: If the source does not exist.
        FileExistsError: If the target exists.
        OSError: If the source cannot be copied.
    """
    with open_directory(source) as original, open_directory(target.parent) as parent:
        _copy(original, target.name, parent, 0)


def _require_own(status: os.stat_result, owner: int, name: str) -> None:
    is_single_file = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
    if status.st_uid != owner or not (is_single_file or stat.S_ISDIR(status.st_mode)):
        raise ForeignFileError(errno.EPERM, "The file is a hard link or belongs to another user", name)


def _walk(
    directory: int,
    *,
    skip_vanished: bool = False,
    is_visible: Callable[[str], bool] = lambda _: True,
    depth: int = 0,
) -> Iterator[tuple[os.DirEntry[str], int]]:
    """Yield each entry below an open directory, with the descriptor of its parent.

    A directory is yielded before its entries. If a directory was removed or replaced after it was listed, it is
    skipped if ``skip_vanished`` is True. Otherwise, an error is raised. Entries whose names are not visible are
    skipped, with everything below them.
    """
    _check_depth(depth)
    for entry in scan_directory(directory):
        if not is_visible(entry.name):
            continue
        yield entry, directory
        if entry.is_dir(follow_symlinks=False):
            with ExitStack() as stack:
                try:
                    below = stack.enter_context(open_directory(entry.name, directory))
                except (FileNotFoundError, NotADirectoryError):
                    if skip_vanished:
                        continue
                    raise
                yield from _walk(below, skip_vanished=skip_vanished, is_visible=is_visible, depth=depth + 1)


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise OSError(errno.ELOOP, f"The directory of the table is nested deeper than {MAX_DEPTH} levels")


def _copy(source: int, name: str, parent: int, depth: int) -> None:
    _check_depth(depth)
    status = os.fstat(source)
    os.mkdir(name, mode=0o700, dir_fd=parent)
    with open_directory(name, parent) as target:
        for entry in scan_directory(source):
            if entry.is_dir(follow_symlinks=False):
                with open_directory(entry.name, source) as below:
                    _copy(below, entry.name, target, depth + 1)
            elif entry.is_file(follow_symlinks=False):
                _copy_file(entry.name, source, target)
        with suppress(PermissionError):
            os.fchown(target, status.st_uid, status.st_gid)
        os.fchmod(target, stat.S_IMODE(status.st_mode))


def _copy_file(name: str, source: int, target: int) -> None:
    try:
        os.link(name, name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError:  # hard links are not supported, or not between these directories
        original = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=source)
        with os.fdopen(original, "rb") as reader:
            copy = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=target)
            with os.fdopen(copy, "wb") as writer:
                shutil.copyfileobj(reader, writer)
                status = os.fstat(original)
                with suppress(PermissionError):
                    os.fchown(copy, status.st_uid, status.st_gid)
