"""What the processes of these tests wrote, kept for a person when something went wrong."""

import shutil
import tempfile
from pathlib import Path


def kept(directory: Path) -> Path:
    """Copies all logs below a directory to where they stay. Returns: Where."""
    place = Path(tempfile.mkdtemp(prefix="lodge-chaos-failed-"))
    for log in directory.rglob("*.log"):
        copy = place / log.relative_to(directory)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(log, copy)
    return place
