"""Releases of responses by a client, batched on their way to the backend.

A PySpark client releases each single response, about ten calls for a statement of one row. A release covers all
responses up to the one that it names, so a later release of an operation replaces the earlier ones. The release of the
operation as a whole replaces them all. Lodge therefore answers a release at once, and sends the last one of each
operation to the backend a moment later.

Guarantees:

1. A backend gets a release at most ``DELAY_SECONDS`` later than it would directly, or not at all if the operation as a
   whole was released by then. Until then it keeps at most what its own retry buffer may keep.
2. A release never reaches another session or operation than the client named.

Not guaranteed: that a client hears of an error of such a release. PySpark's and Scala's clients ignore these errors.

Source: [spark-connect-server SparkConnectReleaseExecuteHandler], [spark-connect-client
ExecutePlanResponseReattachableIterator].
"""

import asyncio
from typing import Any

import structlog
from grpc import aio

from gateway.backends import SERVICE, Backend
from gateway.requests import SessionKey

DELAY_SECONDS = 0.2
_TIMEOUT_SECONDS = 10.0
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
        """Send a release of responses to the backend later.

        It replaces an earlier one of the same operation. The calls of a client overtake each other, so a release that
        comes after the release of the operation as a whole is ignored.
        """
        if key in self._released or key in self._released_before:
            return
        self._pending[key] = (backend, request, arguments)
        self._flush_soon()

    def discard(self, key: OperationKey) -> None:
        """Drop the pending release of an operation that the client released as a whole."""
        self._pending.pop(key, None)
        self._released.add(key)
        self._flush_soon()

    async def stop(self) -> None:
        """Stop sending. Releases that are still pending are lost."""
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
                    await backend.unary(_METHOD)(request, metadata=arguments["metadata"], timeout=_TIMEOUT_SECONDS)
                except aio.AioRpcError as error:
                    log.debug("release_failed", reason=error.details())
