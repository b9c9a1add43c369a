"""The directory in which tests keep what is expensive to create, such as programs or copies of Spark, and locks."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def user_cache() -> Path:
    """Return the directory of Lodge in the user's cache. It survives the checkout."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lodge"


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock of a file, so that concurrent runs create something once. The lock ends with this process.

    Args:
        path: The file, in an existing directory.
    """
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
