"""Private files and directories that no link can redirect.

On shared storage, the modes of Lodge's files are its access control, and a link in the place of a directory is an
attack. So this module creates and opens everything below a root that must be private.

Not guaranteed: safety against someone who may write to the parent directory of what is opened. Only the owner may write
to the root and to ``.lodge``.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_DIRECTORY_MODE = 0o700
_FILE_MODE = 0o600


def open_directory_descriptor(path: str | Path, parent: int | None = None) -> int:
    """Open a directory that is no link, and return its descriptor.

    Args:
        path: The directory, relative to ``parent`` if that is given.
        parent: The descriptor of an open directory.

    Raises:
        FileNotFoundError: If it does not exist.
        NotADirectoryError: If a link or a file has its name.
    """
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)


@contextmanager
def open_directory(path: str | Path, parent: int | None = None) -> Iterator[int]:
    """Open a directory that is no link, and close it at the end of the block."""
    descriptor = open_directory_descriptor(path, parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def make_private_directory(path: Path) -> None:
    """Create a directory of mode 0700, or give an existing directory that mode.

    Raises:
        NotADirectoryError: If a link or a file has its name.
    """
    with suppress(FileExistsError):
        path.mkdir(mode=_DIRECTORY_MODE)
    with open_directory(path) as descriptor:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o777 != _DIRECTORY_MODE:
            os.fchmod(descriptor, _DIRECTORY_MODE)


def write_private_file(name: str, content: bytes, directory: int) -> None:
    """Write a new file of mode 0600 in an open directory, and sync it to the disk.

    Raises:
        FileExistsError: If a file or a link of that name exists.
    """
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE, dir_fd=directory)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, _FILE_MODE)
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def read_private_file(name: str, directory: int) -> bytes:
    """Read a file in an open directory.

    Raises:
        OSError: If the file cannot be read; ``ELOOP`` if a link has its name.
    """
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=directory)
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def file_exists(name: str, directory: int) -> bool:
    """Return whether an open directory contains a name, without following a link."""
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def remove_file(name: str, directory: int) -> None:
    """Remove a file from an open directory. A missing file is no error."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)


def scan_directory(directory: int) -> Sequence[os.DirEntry[str]]:
    """Return the entries of an open directory; none if it was removed."""
    with os.scandir(directory) as entries:
        return list(entries)


def sync_directory(path: Path) -> None:
    """Sync the names in a directory to the disk.

    Raises:
        OSError: If the directory is missing, or the disk fails.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
