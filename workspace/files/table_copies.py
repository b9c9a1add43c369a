"""Copies of a table's directory for another session, made without copying bytes where the file system can.

Guarantees:

1. No link is followed, and none is copied: whoever owns the directories may exchange them at any moment.
2. A copy is its own: removing one leaves the other. Its directories have the modes and owners of the original's.
"""

import errno
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from workspace.files.private_files import open_directory, scan_directory
from workspace.files.sizes import DEEPEST


def copy_table(source: Path, target: Path) -> None:
    """Copies a directory with all that is below it; the target must not exist.

    Raises: FileNotFoundError if the source is gone; FileExistsError; OSError.
    """
    with open_directory(source) as original, open_directory(target.parent) as parent:
        _copy(original, target.name, parent, 0)


def _copy(source: int, name: str, parent: int, depth: int) -> None:
    if depth > DEEPEST:
        raise OSError(errno.ELOOP, f"A table's directory is deeper than {DEEPEST} levels")
    about = os.fstat(source)
    os.mkdir(name, mode=0o700, dir_fd=parent)
    with open_directory(Path(name), parent) as target:
        for entry in scan_directory(source):
            if entry.is_dir(follow_symlinks=False):
                with open_directory(Path(entry.name), source) as below:
                    _copy(below, entry.name, target, depth + 1)
            elif entry.is_file(follow_symlinks=False):
                _copy_file(entry.name, source, target)
        with suppress(PermissionError):
            os.fchown(target, about.st_uid, about.st_gid)
        os.fchmod(target, stat.S_IMODE(about.st_mode))


def _copy_file(name: str, source: int, target: int) -> None:
    try:
        os.link(name, name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError:  # the file system has no links, or not between these directories
        original = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=source)
        with os.fdopen(original, "rb") as reader:
            copy = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=target)
            with os.fdopen(copy, "wb") as writer:
                shutil.copyfileobj(reader, writer)
                about = os.fstat(original)
                with suppress(PermissionError):
                    os.fchown(copy, about.st_uid, about.st_gid)
