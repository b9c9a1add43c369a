"""Child processes that never outlive ``lodge``, however it ends.

Guarantees:

1. The kernel kills a child when its parent dies, also when the parent is killed (Linux).
2. Each child has a session of its own. Ctrl-C at a terminal reaches only the parent, which stops its children in order.

The kernel binds a child to the *thread* that started it. Start children from the event loop of the main thread, never
from a worker thread.
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
        environment: The whole environment of the program.
        directory: The current directory of the program; None for ours.
        output: The file for stdout and stderr; None discards stdout and shares our stderr.
    """
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=DEVNULL,
        stdout=DEVNULL if output is None else output,
        stderr=output,
        cwd=directory,
        env=environment,
        start_new_session=True,
        preexec_fn=_die_with(os.getpid()),
    )


async def stop_child(process: Process, grace_seconds: float) -> None:
    """Terminate a child and wait for its end; kill its process group after the grace period."""
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
    """Return what the child runs between fork and exec: two system calls, and no lock."""

    def bind() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before the line above
            os._exit(1)

    return bind
