"""Runs servers of a test in an event loop in a thread of their own."""

import asyncio
import threading
from abc import ABC, abstractmethod
from typing import Self

_SECONDS = 60


class BackgroundServer(ABC):
    """A context manager that runs servers in an event loop in a thread of its own.

    Subclasses implement :meth:`start` and :meth:`stop`. Both run in the event loop. If one of them fails, the block
    fails with the same error, and the event loop ends nevertheless. All tasks that still run after :meth:`stop` are
    cancelled and awaited before the event loop is closed.
    """

    @abstractmethod
    async def start(self) -> None:
        """Start the servers."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop the servers, so that they start no further tasks."""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self.start(), self._loop).result(_SECONDS)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            asyncio.run_coroutine_threadsafe(self.stop(), self._loop).result(_SECONDS)
        finally:
            self._end()

    def _end(self) -> None:
        try:
            asyncio.run_coroutine_threadsafe(_cancel_other_tasks(), self._loop).result(_SECONDS)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


async def _cancel_other_tasks() -> None:
    # Tasks can start others while they end: a connection that was accepted begins with the next turn of the loop.
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
