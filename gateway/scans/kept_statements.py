"""Statements whose stream ended during a discovery with progress, at this gateway.

The client does not send such a statement again. It reattaches, for example because the deadline of its stream is over:
PySpark ends each stream after ten minutes. The gateway therefore keeps the request, and begins the statement again when
the client reattaches. Discovery then continues, because the schemas that were found are remembered.

Guarantees:

1. Nothing runs for a statement without a stream. Only its request is kept, for ``KEPT_SECONDS``.
2. A statement is found only after the handling of its last stream has ended, and until it begins again.
3. A statement that the client interrupted or released does not begin again.
4. The requests take at most ``MAX_STATEMENTS`` times ``MAX_BYTES`` of memory. A larger request is not kept.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import grpc
from cachetools import TTLCache
from pyspark.sql.connect.proto import base_pb2

from gateway.errors import GatewayError
from gateway.messages.requests import Request, SessionKey
from gateway.operations.operations import is_meant
from gateway.scans.discovery_progress import DiscoveryProgress

KEPT_SECONDS = 300.0
MAX_STATEMENTS = 1_000
MAX_BYTES = 64 * 1024
END_SECONDS = 40.0
"""The gateway notices a lost stream within 30 seconds, and needs a few more to stop its discovery."""

_AFTER_WHICH_CLIENTS_REATTACH = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED})
_Key = tuple[SessionKey, str]


@dataclass(slots=True, eq=False)
class _Stream:
    """A stream of a statement that has not begun.

    Attributes:
        request: The request of the statement.
        ended: Set when the handling of the stream has ended.
        is_given_up: Whether the client has interrupted or released the statement.
    """

    request: Request
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    is_given_up: bool = False


class KeptStatements:
    """The statements of a replica whose stream ended during discovery."""

    def __init__(self) -> None:
        self._running: dict[_Key, _Stream] = {}
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
        stream = self._running[key] = _Stream(request)
        try:
            yield
        except (asyncio.CancelledError, GatewayError) as error:
            reattaches = not isinstance(error, GatewayError) or error.code in _AFTER_WHICH_CLIENTS_REATTACH
            is_last = self._running.get(key) is stream and not stream.is_given_up
            if progress.has_started and reattaches and is_last and len(request.data) <= MAX_BYTES:
                self._kept[key] = request
            raise
        finally:
            stream.ended.set()
            if self._running.get(key) is stream:
                del self._running[key]

    async def find(self, session: SessionKey, operation_id: str) -> Request | None:
        """Return the request of a statement to which the client reattaches. None if this gateway does not have it."""
        key = (session, operation_id)
        stream = self._running.get(key)
        if stream is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    await stream.ended.wait()
        return self._kept.get(key)

    def interrupt(self, session: SessionKey, interrupt: base_pb2.InterruptRequest) -> Sequence[str]:
        """Give up the statements that match a request of their client. Return the ids of those without a stream."""
        found = [request for (owner, _), request in list(self._kept.items()) if owner == session]
        dropped = [each.operation_id for each in found if is_meant(interrupt, each.operation_id, each.tags)]
        for (owner, operation_id), stream in self._running.items():
            if owner == session and is_meant(interrupt, operation_id, stream.request.tags):
                stream.is_given_up = True
        for operation_id in dropped:
            self._kept.pop((session, operation_id), None)
        return dropped

    def release(self, session: SessionKey, operation_id: str) -> None:
        """Give up a statement."""
        key = (session, operation_id)
        self._kept.pop(key, None)
        if key in self._running:
            self._running[key].is_given_up = True
