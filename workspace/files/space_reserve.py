"""Space that changes of session records and new leases use on a full disk.

On a full disk, a client must still be able to drop a table or close a session, because this frees space. Both change a
record, and need a gateway. A gateway that starts creates a lease. Therefore, this module creates files that reserve
space. On a full disk, a change of a record or a new lease moves one of these files to its own directory and overwrites
it. No other process can use the space in between.

Guarantees:

1. Only one process gets a file.
2. A file is used only if it has enough space.

Not guaranteed: The files hold no space on a file system that compresses files, or copies blocks before it changes them.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path

from workspace.files.private_files import open_directory, remove_file, write_private_file

COUNT = 16
FILE_BYTES = 32 * 1024
"""The size of a file. A larger record cannot be changed on a full disk."""

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
_BLOCK_BYTES = 512  # the unit of ``st_blocks``


def is_full(error: OSError) -> bool:
    """Return whether an error says that there is no space, or that a quota is used up."""
    return error.errno in _NO_SPACE


class SpaceReserve:
    """The files that hold space in one root.

    Args:
        directory: The directory of the files.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._is_short = False

    def fill(self) -> None:
        """Create the files that are missing, if there is space."""
        with suppress(OSError), open_directory(self._directory) as here:
            for number in range(COUNT):
                _create(str(number), here)
            self._is_short = False

    def refill(self) -> None:
        """Create the files that are missing, if this object has taken any."""
        if self._is_short:
            self.fill()

    def write(self, name: str, content: bytes, directory: int) -> None:
        """Write a new file with mode 0600. On a full disk, write it into the space of one of the files.

        Args:
            name: The name of the new file. It must not exist.
            content: Its content.
            directory: The file descriptor of its directory, in the same file system.

        Raises:
            OSError: If it cannot be written. A part of it may remain.
        """
        try:
            write_private_file(name, content, directory)
        except OSError as error:
            if not (is_full(error) and self.take(name, content, directory)):
                raise

    def take(self, name: str, content: bytes, directory: int) -> bool:
        """Write a new file into the space of one of the files.

        Args:
            name: The name of the new file. It must not exist.
            content: Its content.
            directory: The file descriptor of its directory, in the same file system.

        Returns:
            Whether there was such a file.

        Raises:
            OSError: If it cannot be written.
        """
        self._is_short = True
        with suppress(FileNotFoundError), open_directory(self._directory) as here:
            for number in range(COUNT):
                with suppress(FileNotFoundError):
                    os.rename(str(number), name, src_dir_fd=here, dst_dir_fd=directory)
                    if _overwrite(name, content, directory):
                        return True
        return False


def _create(name: str, directory: int) -> None:
    """Create a file that holds space, unless it exists. A process may have died while it created the file."""
    with suppress(FileNotFoundError):
        if _holds(os.stat(name, dir_fd=directory, follow_symlinks=False), FILE_BYTES):
            return
        remove_file(name, directory)
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=directory)
    try:
        os.fchmod(descriptor, 0o600)
        os.posix_fallocate(descriptor, 0, FILE_BYTES)
    except OSError:
        remove_file(name, directory)
        raise
    finally:
        os.close(descriptor)


def _holds(status: os.stat_result, size_bytes: int) -> bool:
    return status.st_blocks * _BLOCK_BYTES >= size_bytes


def _overwrite(name: str, content: bytes, directory: int) -> bool:
    """Replace the content of a file that holds space. If it holds too little, remove the file and return False."""
    with os.fdopen(os.open(name, os.O_WRONLY | os.O_NOFOLLOW, dir_fd=directory), "wb", buffering=0) as file:
        if not _holds(os.fstat(file.fileno()), len(content)):
            remove_file(name, directory)
            return False
        rest = memoryview(content)
        while rest:
            rest = rest[file.write(rest) :]
        file.truncate()
        os.fsync(file.fileno())
    return True
