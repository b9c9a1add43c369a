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
3. A backend that does not respond delays only its own release requests. At most ``MAX_WAITING`` of its requests wait,
   with at most ``MAX_WAITING_BYTES`` in total. If there are more, the oldest are dropped. The backend then keeps the
   responses until the client releases the whole operation, or until its retry buffer is full.

Not guaranteed: clients do not receive the errors of these requests. The clients for PySpark and Scala ignore such
errors anyway.

Source: [spark-connect-server SparkConnectReleaseExecuteHandler], [spark-connect-client
ExecutePlanResponseReattachableIterator].
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

import structlog
from grpc import aio

from gateway.backends.backends import SERVICE, Backend
from gateway.messages.error_status import Metadata
from gateway.messages.requests import SessionKey

DELAY_SECONDS = 0.2
MAX_WAITING = 10_000
MAX_WAITING_BYTES = 16 * 1024 * 1024
_CONCURRENT_CALLS = 16
_TIMEOUT_SECONDS = 10.0
_METHOD = SERVICE + "ReleaseExecute"

OperationKey = tuple[SessionKey, str]
log = structlog.get_logger(__name__)


class ResponseReleases:
    """Release requests that have not been sent to their backend yet."""

    def __init__(self) -> None:
        self._by_backend: dict[Backend, _BackendReleases] = {}

    def defer(self, key: OperationKey, backend: Backend, request: bytes, metadata: Metadata) -> None:
        """Send a release request to the backend later.

        The request replaces an earlier release request of the same operation. Requests of a client can arrive out of
        order. Therefore a release request that arrives after the release of the whole operation is ignored.
        """
        self._of(backend).defer(key, _Release(request, metadata))

    def discard(self, key: OperationKey, backend: Backend) -> None:
        """Discard the pending release request of an operation.

        The caller has received the request to release the whole operation.
        """
        self._of(backend).discard(key)

    async def stop(self) -> None:
        """Stop sending. Pending release requests are lost."""
        await asyncio.gather(*(releases.stop() for releases in self._by_backend.values()))

    def _of(self, backend: Backend) -> "_BackendReleases":
        releases = self._by_backend.get(backend)
        if releases is None:
            releases = self._by_backend[backend] = _BackendReleases(backend)
        return releases


@dataclass(frozen=True, slots=True)
class _Release:
    request: bytes
    metadata: Metadata


class _BackendReleases:
    """The release requests for one backend, and the task that sends them."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._waiting: OrderedDict[OperationKey, _Release] = OrderedDict()
        self._waiting_bytes = 0
        self._released: OrderedDict[OperationKey, None] = OrderedDict()
        self._released_before: OrderedDict[OperationKey, None] = OrderedDict()
        self._dropped = 0
        self._flush: asyncio.Task[None] | None = None

    def defer(self, key: OperationKey, release: _Release) -> None:
        if key in self._released or key in self._released_before:
            return
        self._take(key)
        self._waiting[key] = release
        self._waiting_bytes += len(release.request)
        while len(self._waiting) > MAX_WAITING or self._waiting_bytes > MAX_WAITING_BYTES:
            self._take(next(iter(self._waiting)))
            self._dropped += 1
        self._flush_soon()

    def discard(self, key: OperationKey) -> None:
        self._take(key)
        self._released[key] = None
        if len(self._released) > MAX_WAITING:
            self._released.popitem(last=False)
        self._flush_soon()

    async def stop(self) -> None:
        if self._flush is not None:
            self._flush.cancel()
            await asyncio.gather(self._flush, return_exceptions=True)

    def _take(self, key: OperationKey) -> _Release | None:
        """Remove and return the waiting request of an operation."""
        release = self._waiting.pop(key, None)
        if release is not None:
            self._waiting_bytes -= len(release.request)
        return release

    def _flush_soon(self) -> None:
        if self._flush is None or self._flush.done():
            self._flush = asyncio.create_task(self._flush_until_empty())

    async def _flush_until_empty(self) -> None:
        while self._waiting or self._released or self._released_before:
            await asyncio.sleep(DELAY_SECONDS)
            self._released_before, self._released = self._released, OrderedDict()
            due = list(self._waiting)
            workers = min(_CONCURRENT_CALLS, len(due))
            due.reverse()
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(self._send(due))
            if self._dropped:
                log.warning("releases_dropped", backend=self._backend.address, count=self._dropped)
                self._dropped = 0

    async def _send(self, due: list[OperationKey]) -> None:
        """Send the waiting requests of the given operations, and remove the operations from the list."""
        while due:
            release = self._take(due.pop())
            if release is None:
                continue
            try:
                call = self._backend.unary(_METHOD)
                await call(release.request, metadata=release.metadata, timeout=_TIMEOUT_SECONDS)
            except aio.AioRpcError as error:
                log.debug("release_failed", reason=error.details())
