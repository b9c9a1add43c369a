"""Private temporary directories that are removed even if their process is killed.

Guarantees:

1. A directory is removed when its ``with`` block ends.
2. If a process was killed and left its directory behind, the next process of the same user removes the directory.

A process locks its directory to show that the directory is in use. The kernel releases the lock when the process dies.
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
_YOUNG_SECONDS = 60  # a process may not have locked its new directory yet


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """Create an empty private directory for the duration of the block.

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
    """Remove a directory that is not used by any process.

    Raises:
        BlockingIOError: If a process still uses the directory.
        OSError: If the directory cannot be removed.
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
