"""Child processes that end when ``lodge`` ends, for any reason.

Guarantees:

1. The kernel kills a child process when its parent dies, even if the parent was killed (Linux only).
2. Each child process runs in its own process session. Ctrl-C at a terminal reaches only the parent, which then stops
   its children in order.
3. A child process does not block the signals that its parent blocks. A fork can block some at first, so that they wait
   until it is ready for them.

The kernel ties a child process to the *thread* that started it. Therefore, start children from the main thread, and
never from a worker thread.
"""

import atexit
import ctypes
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

REQUESTS = frozenset({signal.SIGTERM, signal.SIGHUP})
"""The signals with which a parent asks a fork for something."""

KILL_SECONDS = 10.0

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_POLL_SECONDS = 0.05
_libc = ctypes.CDLL(None, use_errno=True)


class Child(Protocol):
    """A child process, like :class:`subprocess.Popen`."""

    @property
    def pid(self) -> int:
        """The id of the process."""
        ...

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal. None if the process runs."""
        ...

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        ...


class ForkedChild:
    """A fork of this process. It runs a function, and ends with the status that the function returns.

    This process must not use libraries that do not support forks, such as gRPC.

    Args:
        run: The function. It sees the memory of this process as of the fork.
        name: The name of the process in the lists of the system, at most 15 characters.
        blocked: The signals that the function unblocks when it is ready for them.
    """

    def __init__(self, run: Callable[[], int], name: str, blocked: Collection[signal.Signals] = ()) -> None:
        self._status: int | None = None
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _run_in_fork(run, name, parent, blocked)

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal. None if the process runs."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


def start_child(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    directory: Path | None = None,
    output: IO[bytes] | None = None,
) -> "subprocess.Popen[bytes]":
    """Start a program that dies with this process.

    Args:
        command: The program and its arguments.
        environment: All environment variables of the program. The program does not inherit any others.
        directory: The current directory of the program. None means the current directory of this process.
        output: The file that receives stdout and stderr. If None, they go to those of this process.
    """
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd=directory,
        env=environment,
        start_new_session=True,
        preexec_fn=_die_with(os.getpid()),  # noqa: PLW1509 - the function is safe: it only makes system calls
    )


def stop_child(child: Child, grace_seconds: float) -> None:
    """Terminate a child process and wait until it has ended.

    If the process is still running after ``grace_seconds``, its process group is killed. The kernel may delay the end
    of a process that waits for storage. This function waits for at most ``KILL_SECONDS`` after the signal.
    """
    child.send_signal(signal.SIGTERM)
    end_seconds = time.monotonic() + grace_seconds
    while child.poll() is None and time.monotonic() < end_seconds:
        time.sleep(_POLL_SECONDS)
    if child.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    end_seconds = time.monotonic() + KILL_SECONDS
    while child.poll() is None and time.monotonic() < end_seconds:
        time.sleep(_POLL_SECONDS)


def _die_with(parent: int, blocked: Collection[signal.Signals] = ()) -> Callable[[], None]:
    """Return the function that the child process runs after the fork.

    The function makes system calls and does not acquire locks.
    """

    def bind() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before the previous line
            os._exit(1)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    return bind


def _run_in_fork(run: Callable[[], int], name: str, parent: int, blocked: Collection[signal.Signals]) -> None:
    """Run a function in a new fork, and end the process."""
    status = 1
    try:
        os.setsid()
        _die_with(parent, blocked)()
        _libc.prctl(_PR_SET_NAME, name.encode())
        atexit._clear()  # what the parent has registered is not for this process
        status = run()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - nothing above this function may run in the fork
        status = status or 1
        with suppress(Exception):
            traceback.print_exc()
    finally:
        os._exit(status)
