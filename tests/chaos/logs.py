"""Keeps the logs of failed tests."""

import shutil
import tempfile
from pathlib import Path


def save_logs(directory: Path) -> Path:
    """Copy all logs below a directory to a new directory, and return that."""
    place = Path(tempfile.mkdtemp(prefix="lodge-chaos-failed-"))
    for log in directory.rglob("*.log"):
        copy = place / log.relative_to(directory)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(log, copy)
    return place
