"""Directories that disappear when their owner ends, even by SIGKILL."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SWEEP = 'cat >/dev/null; for _ in $(seq 100); do rm -rf -- "$1" && exit; sleep 0.1; done'
"""Removes the directory when its input ends, which happens when the owner closes it or dies. It repeats the removal,
because processes of a dead owner may still write for a moment."""


@contextmanager
def owned_directory(path: Path | None = None) -> Iterator[Path]:
    """Create a directory that disappears with the context or this process.

    It disappears even if SIGKILL ends the process.
    """
    if path is None:
        path = Path(tempfile.mkdtemp(prefix="lodge-cluster-"))
    path.mkdir(exist_ok=True)
    command = ["sh", "-c", _SWEEP, "sh", str(path)]
    nothing = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, start_new_session=True):
        yield path
