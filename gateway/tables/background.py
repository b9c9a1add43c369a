"""Tasks that can run longer than the statement that started them."""

import asyncio
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from gateway.blocking_work.current_work import noted

_ARRIVAL_SECONDS = 10.0
"""How long a request to the backend may take to arrive."""

_Result = TypeVar("_Result")


class BackgroundTasks:
    """Background tasks of this replica.

    Only :meth:`wait` waits for the tasks, when the replica stops.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a background task."""
        task = asyncio.create_task(noted(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def cancel(self) -> None:
        """Cancel all tasks."""
        for task in self._tasks:
            task.cancel()

    async def wait(self) -> None:
        """Wait until all tasks have finished."""
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def run_to_completion(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine until it finishes, even if the caller is cancelled."""
    task = asyncio.create_task(noted(work))
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])
    try:
        return task.result()
    finally:
        del task  # an error refers to this frame; the two would keep each other in memory


async def let_arrive(request: Coroutine[Any, Any, _Result]) -> _Result:
    """Make a request to the backend that is not cancelled before it has arrived.

    A request that is cancelled can arrive nevertheless, even after the caller's next request. If the caller is
    cancelled, this function therefore waits for the response, at most ten seconds.
    """
    task = asyncio.create_task(noted(request))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        deadline = time.monotonic() + _ARRIVAL_SECONDS
        while not task.done() and (left := deadline - time.monotonic()) > 0:
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task], timeout=left)
        if task.done() and not task.cancelled():
            task.exception()  # asyncio reports errors that nobody has looked at
        raise
    finally:
        task.cancel()
        del task  # an error refers to this frame; the two would keep each other in memory
