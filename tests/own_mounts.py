"""File systems that only a test sees. They need root."""

import ctypes
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

_CLONE_NEWNS = 0x00020000


def with_own_mounts(task: Callable[[], Any]) -> Any:
    """Call a function in a mount namespace of its own. The process cannot leave it, so it should be a fork."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    run("mount", "--make-rprivate", "/")
    return task()


def mount_small_disk(path: Path, size: str) -> None:
    """Mount a file system of a size such as ``1m`` at a directory."""
    run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path)


def make_read_only(path: Path) -> None:
    """Make a mounted file system read-only."""
    run("mount", "-o", "remount,ro", path)


def make_writable(path: Path) -> None:
    """Make a mounted file system writable again."""
    run("mount", "-o", "remount,rw", path)


def fill_disk(path: Path) -> Path:
    """Use all space of a file system. Return the file that does so."""
    filler = path / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                os.write(file.fileno(), b"x" * 4096)
        except OSError:
            return filler


def run(*command: str | Path) -> None:
    """Run a command, which must succeed."""
    subprocess.run(command, check=True, capture_output=True)
