"""Child processes that never outlive this one.

Why it exists: what ``lodge serve`` starts must stop with it, also when it is killed and can stop nothing any more; so
the kernel is asked to end each child when its parent is gone (Linux: ``PR_SET_PDEATHSIG``).
"""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def start_child(
    command: Sequence[str], *, environment: Mapping[str, str], directory: Path | None = None, output: int | None = None
) -> subprocess.Popen[bytes]:
    """Starts a process in a session of its own, so that a terminal's Ctrl-C reaches only its parent.

    Args:
        command: The program and its arguments.
        environment: Its whole environment.
        directory: Where it runs; here if None.
        output: A file descriptor for what it prints; this process's own if None.
    """
    parent = os.getpid()

    def die_with_parent() -> None:
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:
                os._exit(1)

    return subprocess.Popen(
        command,
        env=dict(environment),
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - only calls prctl; no thread runs yet when children start
    )


def stop_child(child: subprocess.Popen[bytes], grace_seconds: float) -> None:
    """Asks a child to end, and ends it by force after the grace period."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            child.kill()
    child.wait()
