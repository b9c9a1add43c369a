"""Statements whose stream ended during a discovery with progress, at this gateway.

The client does not send such a statement again. It reattaches, for example because the deadline of its stream is over:
PySpark ends each stream after ten minutes. The gateway therefore keeps the request, and begins the statement again when
the client reattaches. Discovery then continues, because the schemas that were found are remembered.

Guarantees:

1. Nothing runs for a statement without a stream. Only its request is kept, for ``KEPT_SECONDS``.
2. A statement is found only after the handling of its former stream has ended, and until it begins again.
3. The requests take at most ``MAX_STATEMENTS`` times ``MAX_BYTES`` of memory. A larger request is not kept.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from cachetools import TTLCache

from gateway.requests import Request, SessionKey
from gateway.scans.discovery_progress import DiscoveryProgress

KEPT_SECONDS = 300.0
MAX_STATEMENTS = 1_000
MAX_BYTES = 64 * 1024
_END_SECONDS = 2.0
"""The client can notice the end of a stream before the gateway does."""

_Key = tuple[SessionKey, str]


class KeptStatements:
    """The statements of a replica whose stream ended during discovery."""

    def __init__(self) -> None:
        self._running: dict[_Key, asyncio.Event] = {}
        self._kept: TTLCache[_Key, Request] = TTLCache(MAX_STATEMENTS, KEPT_SECONDS)

    @contextmanager
    def keeping(self, request: Request, progress: DiscoveryProgress) -> Iterator[None]:
        """Keep a request if its stream ends in the block, after the client has received progress.

        Args:
            request: The ``ExecutePlan`` request of the client.
            progress: Sends the progress of its discovery.
        """
        key = (request.key, request.operation_id)
        self._kept.pop(key, None)
        ended = self._running[key] = asyncio.Event()
        try:
            yield
        except asyncio.CancelledError:
            if progress.has_started and len(request.data) <= MAX_BYTES:
                self._kept[key] = request
            raise
        finally:
            ended.set()
            if self._running.get(key) is ended:
                del self._running[key]

    async def find(self, session: SessionKey, operation_id: str) -> Request | None:
        """Return the request of a statement to which the client reattaches. None if this gateway does not have it."""
        key = (session, operation_id)
        ended = self._running.get(key)
        if ended is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    await ended.wait()
        return self._kept.get(key)
