"""Releases of responses that a client has read, gathered before they go to the backend.

Why it exists: a PySpark client tells the server after each single response that it may forget it, so that a statement
of one row makes ten such calls. Each only says "until here"; a later one says all that an earlier one did, and the
release of the whole operation says it for all. So a call is answered at once, and what it said goes to the backend a
moment later, if by then nothing has said it better.

Guarantees:

1. A backend hears of a release at most ``DELAY_SECONDS`` later than it would directly, or not at all if the operation
   itself was released by then. Until then it holds at most what its own retry buffer may hold.
2. A release never reaches another session or operation than it was for.

Not guaranteed: that a client hears of an error of such a release; PySpark's and Scala's clients ignore them.

Source: Spark: SparkConnectReleaseExecuteHandler, ExecutePlanResponseReattachableIterator.
"""

import asyncio
from typing import Any

import structlog
from grpc import aio

from gateway.backends import SERVICE, Backend
from gateway.requests import SessionKey

DELAY_SECONDS = 0.2
_CALL_SECONDS = 10.0
_METHOD = SERVICE + "ReleaseExecute"

OperationKey = tuple[SessionKey, str]
log = structlog.get_logger(__name__)


class ResponseReleases:
    """The releases that have not gone to their backend yet."""

    def __init__(self) -> None:
        self._pending: dict[OperationKey, tuple[Backend, bytes, dict[str, Any]]] = {}
        self._released: set[OperationKey] = set()
        self._released_before: set[OperationKey] = set()
        self._flush: asyncio.Task[None] | None = None

    def defer(self, key: OperationKey, backend: Backend, request: bytes, arguments: dict[str, Any]) -> None:
        """Keeps the release of an operation's responses up to one of them, in place of an earlier one.

        A client's calls overtake each other: after the release of the operation as a whole, it says nothing.
        """
        if key in self._released or key in self._released_before:
            return
        self._pending[key] = (backend, request, arguments)
        self._flush_soon()

    def forget(self, key: OperationKey) -> None:
        """The operation as a whole is released."""
        self._pending.pop(key, None)
        self._released.add(key)
        self._flush_soon()

    async def stop(self) -> None:
        if self._flush is not None:
            self._flush.cancel()
            await asyncio.gather(self._flush, return_exceptions=True)

    def _flush_soon(self) -> None:
        if self._flush is None or self._flush.done():
            self._flush = asyncio.create_task(self._flush_until_empty())

    async def _flush_until_empty(self) -> None:
        while self._pending or self._released or self._released_before:
            await asyncio.sleep(DELAY_SECONDS)
            self._released_before, self._released = self._released, set()
            due, self._pending = self._pending, {}
            for backend, request, arguments in due.values():
                try:
                    await backend.unary(_METHOD)(request, metadata=arguments["metadata"], timeout=_CALL_SECONDS)
                except aio.AioRpcError as error:
                    log.debug("release_failed", reason=error.details())
