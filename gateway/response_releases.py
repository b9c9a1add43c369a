"""Batches the release requests of clients before sending them to the backend.

A PySpark client releases each response separately, which results in about ten calls for a statement with one row. A
release request covers all responses up to a given response. Therefore a later release request of an operation replaces
earlier ones, and a release of the whole operation replaces all of them. Lodge responds to a release request
immediately, and sends only the last release request of each operation to the backend a moment later.

Guarantees:

1. The backend receives a release request at most ``DELAY_SECONDS`` later than without batching. If the client releases
   the whole operation before that, the backend does not receive the request at all. Until then, the backend keeps at
   most as many responses as its retry buffer allows.
2. A release request is sent only for the session and the operation in the client's request.

Not guaranteed: clients do not receive the errors of these requests. The clients for PySpark and Scala ignore such
errors anyway.

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
    """Release requests that have not been sent to their backend yet."""

    def __init__(self) -> None:
        self._pending: dict[OperationKey, tuple[Backend, bytes, dict[str, Any]]] = {}
        self._released: set[OperationKey] = set()
        self._released_before: set[OperationKey] = set()
        self._flush: asyncio.Task[None] | None = None

    def defer(self, key: OperationKey, backend: Backend, request: bytes, arguments: dict[str, Any]) -> None:
        """Send a release request to the backend later.

        The request replaces an earlier release request of the same operation. Requests of a client can arrive out of
        order. Therefore a release request that arrives after the release of the whole operation is ignored.
        """
        if key in self._released or key in self._released_before:
            return
        self._pending[key] = (backend, request, arguments)
        self._flush_soon()

    def discard(self, key: OperationKey) -> None:
        """Discard the pending release request of an operation.

        The caller has received the request to release the whole operation.
        """
        self._pending.pop(key, None)
        self._released.add(key)
        self._flush_soon()

    async def stop(self) -> None:
        """Stop sending. Pending release requests are lost."""
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
