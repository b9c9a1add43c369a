"""Modes for what everyone may read: a directory that is given to others with all that is below it.

Guarantee: no link is followed, whoever owns the directories and exchanges them meanwhile.
"""

import errno
import os
from pathlib import Path

from workspace.files.private_files import open_directory, scan_directory
from workspace.files.sizes import DEEPEST

_DIRECTORY_MODE = 0o775
_FILE_MODE = 0o644


def make_public(path: Path) -> None:
    """Gives directories mode 0775 and files mode 0644 (seed 001, 5.2).

    Raises: OSError, also for a link, and for what another owns.
    """
    with open_directory(path) as directory:
        _make_public(directory, 0)


def has_links(path: Path) -> bool:
    """Whether a link, or anything else that is neither file nor directory, lies somewhere below. Raises: OSError."""
    with open_directory(path) as directory:
        return _has_links(directory, 0)


def write_public_file(name: str, content: bytes, directory: Path) -> None:
    """Writes a new file of mode 0644. Raises: FileExistsError, also for a link of that name."""
    with open_directory(directory) as parent:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _FILE_MODE, dir_fd=parent)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, _FILE_MODE)
            file.write(content)


def _make_public(directory: int, depth: int) -> None:
    if depth > DEEPEST:
        raise OSError(errno.ELOOP, f"A table's directory is deeper than {DEEPEST} levels")
    os.fchmod(directory, _DIRECTORY_MODE)
    for entry in scan_directory(directory):
        if entry.is_dir(follow_symlinks=False):
            with open_directory(Path(entry.name), directory) as below:
                _make_public(below, depth + 1)
        else:
            descriptor = os.open(entry.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
            try:
                os.fchmod(descriptor, _FILE_MODE)
            finally:
                os.close(descriptor)


def _has_links(directory: int, depth: int) -> bool:
    for entry in scan_directory(directory):
        if entry.is_dir(follow_symlinks=False) and depth < DEEPEST:
            with open_directory(Path(entry.name), directory) as below:
                if _has_links(below, depth + 1):
                    return True
        elif not entry.is_file(follow_symlinks=False):
            return True
    return False
