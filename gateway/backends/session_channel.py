"""The requests of Lodge in the session of a client at its backend.

Guarantee: calls that can be repeated without harm are repeated for ``REPEAT_SECONDS`` if the connection is reset.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

import grpc
from google.protobuf.message import Message
from grpc import aio
from pyspark.sql.connect.proto import base_pb2

from gateway.backends.backend_answers import decode_answer
from gateway.backends.backends import SERVICE, Backend, require_answer
from gateway.errors import BackendError, GatewayError, backend_failed
from gateway.messages.error_status import Metadata, condition_of
from gateway.messages.statement_request import StatementRequest

REPEAT_SECONDS = 10.0
"""How long calls are repeated after a reset of the connection."""

_REPEAT_PAUSE_SECONDS = 0.2
_DISCONNECTED = "INVALID_CURSOR.DISCONNECTED"

_Request = TypeVar("_Request", bound=Message)
_Answer = TypeVar("_Answer", bound=Message)


class SessionChannel:
    """Builds and sends the requests that Lodge makes for a statement of a client.

    Args:
        backend: The backend of the session.
        request: The statement of the client for which the calls are made.
        metadata: The metadata of the client's request.

    Attributes:
        backend: The backend of the session.
        request: The statement of the client.
        server_side_session_id: The session id that the backend generated. Empty before the first response.
    """

    def __init__(self, backend: Backend, request: StatementRequest, metadata: Metadata) -> None:
        self.backend = backend
        self.request = request
        self._metadata = metadata
        self.server_side_session_id = request.observed_session_id or ""

    def note_session(self, server_side_session_id: str) -> None:
        """Remember the session id in a response. It may be empty."""
        self.server_side_session_id = server_side_session_id or self.server_side_session_id

    def build(self, kind: Callable[..., _Request], **fields: object) -> _Request:
        """Return a request with the session and the user context of the client."""
        return kind(session_id=self.request.session_id, user_context=self.request.user_context, **fields)

    def build_for_observed_session(self, kind: Callable[..., _Request], **fields: object) -> _Request:
        """Return a request that the backend refuses if its session is not the session that the client observed."""
        if self.request.observed_session_id is not None:
            fields["client_observed_server_side_session_id"] = self.request.observed_session_id
        return self.build(kind, **fields)

    async def call(self, method: str, request: Message, *, timeout_seconds: float | None = None) -> bytes:
        """Call a method that can be repeated without harm. Repeat it if the connection is reset.

        Raises:
            BackendError: If the call fails.
        """
        data = request.SerializeToString()
        return await self._repeat(
            lambda: self.backend.unary(SERVICE + method)(data, metadata=self._metadata, timeout=timeout_seconds)
        )

    async def call_with_stream(self, method: str, requests: Sequence[bytes]) -> bytes:
        """Call a method that takes a stream of requests, and can be repeated without harm.

        Raises:
            BackendError: If the call fails.
        """
        return await self._repeat(
            lambda: self.backend.stream_unary(SERVICE + method)(iter(requests), metadata=self._metadata)
        )

    async def _repeat(self, start: Callable[[], Awaitable[bytes]]) -> bytes:
        """Start a call that can be repeated without harm. Start it again if the connection is reset.

        Raises:
            BackendError: If the call fails.
        """
        give_up_at: float | None = None
        while True:
            try:
                response = await start()
            except aio.AioRpcError as error:
                give_up_at = give_up_at or time.monotonic() + REPEAT_SECONDS
                if not is_reset(error) or time.monotonic() > give_up_at:
                    raise BackendError(error, self.backend.address) from error
            else:
                return require_answer(response, self.backend)
            await asyncio.sleep(_REPEAT_PAUSE_SECONDS)

    async def stream(self, method: str, request: Message) -> AsyncIterator[base_pb2.ExecutePlanResponse]:
        """Call a method that returns the responses of an operation.

        Raises:
            BackendError: If the stream ends with an error.
        """
        call = self.backend.unary_stream(SERVICE + method)(request.SerializeToString(), metadata=self._metadata)
        try:
            while (response := await call.read()) is not aio.EOF:
                decoded = await self.decode(base_pb2.ExecutePlanResponse, response)
                del response
                yield decoded
        except aio.AioRpcError as error:
            raise BackendError(error, self.backend.address) from error
        finally:
            call.cancel()

    async def decode(self, kind: type[_Answer], data: bytes) -> _Answer:
        """Decode an answer of the backend.

        Raises:
            GatewayError: If it cannot be decoded.
        """
        return await decode_answer(kind, data, self.backend.address)

    def failed(self, problem: str) -> GatewayError:
        """Return the error for an answer of the backend that is not what it should be."""
        return backend_failed(self.backend.address, problem)


def is_reset(error: aio.AioRpcError) -> bool:
    """Return whether an operation may still run after an error of its stream."""
    return error.code() is grpc.StatusCode.UNAVAILABLE or condition_of(error) == _DISCONNECTED
