"""Private temporary directories that a killed process cannot leave behind for good.

Guarantees:

1. A directory is removed when its block ends.
2. The next process of the same user removes a directory that a killed process left behind.

A lock on the directory shows that it is in use. The kernel releases the lock when the process dies.
"""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "lodge-spark-"
_YOUNG_SECONDS = 60  # its process may not have locked it yet


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """Provide an empty private directory for the time of the block.

    Raises:
        OSError: If the system's temporary directory cannot be used.
    """
    _sweep(Path(tempfile.gettempdir()))
    path = Path(tempfile.mkdtemp(prefix=_PREFIX))
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def _sweep(parent: Path) -> None:
    for path in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            _remove_if_abandoned(path)


def _remove_if_abandoned(path: Path) -> None:
    """Remove a directory that no process uses.

    Raises:
        OSError: If it cannot be removed; BlockingIOError if a process uses it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.getuid() or time.time() - status.st_mtime < _YOUNG_SECONDS:
            return
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path)
    finally:
        os.close(descriptor)
