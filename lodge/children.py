"""Child processes that end when ``lodge`` ends, for any reason.

Guarantees:

1. The kernel kills a child process when its parent dies, even if the parent was killed (Linux only).
2. Each child process runs in its own process session. Ctrl-C at a terminal reaches only the parent, which then stops
   its children in order.

The kernel ties a child process to the *thread* that started it. Therefore, start children from the event loop of the
main thread, and never from a worker thread.
"""

import asyncio
import ctypes
import os
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


async def start_child(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    directory: Path | None = None,
    output: IO[bytes] | None = None,
) -> Process:
    """Start a program that dies with this process.

    Args:
        command: The program and its arguments.
        environment: All environment variables of the program. The program does not inherit any others.
        directory: The current directory of the program. None means the current directory of this process.
        output: The file that receives stdout and stderr. If None, they go to those of this process.
    """
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=DEVNULL,
        stdout=output,
        stderr=output,
        cwd=directory,
        env=environment,
        start_new_session=True,
        preexec_fn=_die_with(os.getpid()),
    )


async def stop_child(process: Process, grace_seconds: float) -> None:
    """Terminate a child process and wait until it has ended.

    If the process is still running after ``grace_seconds``, its process group is killed.
    """
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(grace_seconds):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _die_with(parent: int) -> Callable[[], None]:
    """Return the function that the child process runs between fork and exec.

    The function makes two system calls and does not acquire locks.
    """

    def bind() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before the previous line
            os._exit(1)

    return bind
