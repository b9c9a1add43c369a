"""Creation and reading of private files and directories, without following links.

On shared storage, access to Lodge's files is controlled only by their modes, and a link in place of a directory may be
an attack. Therefore, this module creates and opens all files and directories in a root that must be private.

Not guaranteed: The functions are not safe if an attacker can write to the parent directory. Only the owner may have
write permission for the root and for ``.lodge``.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_DIRECTORY_MODE = 0o700
_FILE_MODE = 0o600


def open_directory_descriptor(path: str | Path, parent: int | None = None) -> int:
    """Open a directory that is not a link, and return its file descriptor.

    Args:
        path: The path of the directory, relative to ``parent`` if a parent is given.
        parent: The file descriptor of an open directory.

    Raises:
        FileNotFoundError: If the directory does not exist.
        NotADirectoryError: If the path refers to a link or a file.
    """
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)


@contextmanager
def open_directory(path: str | Path, parent: int | None = None) -> Iterator[int]:
    """Open a directory that is not a link for the duration of the block."""
    descriptor = open_directory_descriptor(path, parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def make_private_directory(path: Path) -> None:
    """Create a directory with mode 0700, or set the mode of an existing directory.

    Raises:
        NotADirectoryError: If the path refers to a link or a file.
    """
    with suppress(FileExistsError):
        path.mkdir(mode=_DIRECTORY_MODE)
    with open_directory(path) as descriptor:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o777 != _DIRECTORY_MODE:
            os.fchmod(descriptor, _DIRECTORY_MODE)


def write_private_file(name: str, content: bytes, directory: int, *, is_synced: bool = True) -> None:
    """Write a new file with mode 0600 in an open directory. If this fails, for example on a full disk, remove the file.

    Args:
        name: The name of the file.
        content: The content of the file.
        directory: The file descriptor of the directory.
        is_synced: Whether to sync the file to disk.

    Raises:
        FileExistsError: If a file or link with the same name exists.
    """
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE, dir_fd=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, _FILE_MODE)
            file.write(content)
            file.flush()
            if is_synced:
                os.fsync(descriptor)
    except OSError:
        remove_file(name, directory)
        raise


def overwrite_private_file(name: str, content: bytes, directory: int) -> bool:
    """Replace the content of a file by another one of the same size, which needs no space on the disk.

    A concurrent reader may read a part of both contents.

    Returns:
        Whether there was a file of this size. A link is not followed, and counts as no file.

    Raises:
        OSError: If the file cannot be written.
    """
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.EISDIR, errno.ENXIO):
            return False
        raise
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size != len(content):
            return False
        file.write(content)
        os.fsync(descriptor)  # a network file system reports errors only now
    return True


def read_private_file(name: str, directory: int) -> bytes:
    """Return the content of a file in an open directory.

    Raises:
        OSError: If the file cannot be read. The error number is ``ELOOP`` if the file is a link.
    """
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=directory)
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def file_exists(name: str, directory: int) -> bool:
    """Return whether a name exists in an open directory.

    Links are not followed, so a broken link counts as existing.
    """
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def remove_file(name: str, directory: int) -> None:
    """Remove a file from an open directory, if it exists."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)


def scan_directory(directory: int) -> Sequence[os.DirEntry[str]]:
    """Return the entries of an open directory.

    If the directory has been removed, the result is empty.
    """
    with os.scandir(directory) as entries:
        return list(entries)


def sync_directory(path: Path) -> None:
    """Sync the entries of a directory to disk.

    Raises:
        OSError: If the directory does not exist or the disk fails.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
