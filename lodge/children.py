"""Child processes that never outlive ``lodge``, however it ends.

Guarantees:

1. A child is killed by the kernel when its parent dies, also by SIGKILL (Linux).
2. A child has a session of its own: Ctrl-C at a terminal reaches only the parent, which decides the order in
   which things stop.

A child is bound to the *thread* that started it, so children are started from the event loop of the main
thread, never from a worker thread.
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
    """Starts a program.

    Args:
        command: The program and its arguments.
        environment: All of its environment.
        directory: Its current directory; None for ours.
        output: Takes all that it writes; None lets it write to our stderr only.
    """
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=DEVNULL,
        stdout=DEVNULL if output is None else output,
        stderr=output,
        cwd=directory,
        env=environment,
        start_new_session=True,
        preexec_fn=_dies_with(os.getpid()),
    )


async def stop_child(process: Process, grace_seconds: float) -> None:
    """Asks a child to stop, kills it with all of its process group if it does not, and waits for its end."""
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


def _dies_with(parent: int) -> Callable[[], None]:
    """For the child between fork and exec, so it must not take a lock: two system calls and no more."""

    def bind() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)

    return bind
