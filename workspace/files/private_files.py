"""Files and directories for their owner only, whatever the umask, and never through a link.

Why it exists: on shared storage the modes of what Lodge makes are its access control, and a link where a
directory is expected is an attack. So everything below a workspace's root that must be private is made and
opened here.

Not guaranteed: safety against someone who may already write into the parent directory of what is opened; the
root and ``.lodge`` are for their owner alone to write.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_DIRECTORY_MODE = 0o700
_FILE_MODE = 0o600


@contextmanager
def open_directory(path: Path, parent: int | None = None) -> Iterator[int]:
    """The descriptor of a real directory; of one below an open directory, if that is given.

    Raises: FileNotFoundError; NotADirectoryError for a link or a file in its place.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def make_private_directory(path: Path) -> None:
    """Makes a directory of mode 0700, or gives an existing one that mode.

    Raises: NotADirectoryError for a link or a file in its place.
    """
    with suppress(FileExistsError):
        path.mkdir(mode=_DIRECTORY_MODE)
    with open_directory(path) as descriptor:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o777 != _DIRECTORY_MODE:
            os.fchmod(descriptor, _DIRECTORY_MODE)


def write_private_file(name: str, content: bytes, directory: int) -> None:
    """Writes a new file of mode 0600 below an open directory, down to the disk.

    Raises: FileExistsError, also for a link of that name.
    """
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE, dir_fd=directory)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, _FILE_MODE)
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def read_private_file(name: str, directory: int) -> bytes:
    """Reads a file below an open directory; a link of that name raises OSError (ELOOP)."""
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=directory)
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def file_exists(name: str, directory: int) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def remove_file(name: str, directory: int) -> None:
    """Removes a file below an open directory; that it is gone already is no error."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)


def scan_directory(directory: int) -> Sequence[os.DirEntry[str]]:
    """What is in an open directory; nothing, if the directory itself was removed meanwhile."""
    with os.scandir(directory) as entries:
        return list(entries)


def sync_directory(path: Path) -> None:
    """Brings the names in a directory down to the disk. Raises: OSError, also if it is missing."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
