"""The directory in which tests keep what is expensive to create, such as programs and copies of Spark."""

import os
from pathlib import Path


def user_cache() -> Path:
    """Return the directory of Lodge in the user's cache. It survives the checkout."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lodge"
