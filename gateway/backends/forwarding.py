"""Forwards RPCs between clients and backends.

Guarantees:

1. Each response is forwarded with exactly the bytes that were received. Each request is forwarded as
   :attr:`gateway.messages.requests.Request.data`.
2. The client receives the initial metadata, the trailing metadata, the status and the error details from the backend.
   Only metadata that every gRPC server sets itself is removed, and initial metadata that arrives after the progress of
   discovery was sent.
3. The backend never receives the client's credentials, with or without an authentication method. It does not receive
   metadata either with which proxies tell the identity or the address of a client, such as ``x-forwarded-user``.
4. A reset of the connection to the backend is repaired. A unary call is repeated, if that does no harm. After any other
   reset, the client receives ``UNAVAILABLE``, and reattaches to its operation.
5. The deadline of the client's call also applies to the call to the backend. If the client disconnects, the call to the
   backend is cancelled.
"""

import asyncio
import functools
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import tenacity
from grpc import aio

from gateway.admission.admission import AdmittedCall
from gateway.backends.backends import SERVICE, Backend, require_answer
from gateway.blocking_work.futures import retrieve_error
from gateway.errors import GatewayError
from gateway.messages.error_status import Metadata, forwardable
from gateway.messages.requests import Request
from gateway.operations.drain import Drain

_NOT_FORWARDED = re.compile(
    r"(authorization|authentication|proxy-.*|(set-)?cookie2?|forwarded|via|x-forwarded-.*|x-auth-.*|x-authenticated-.*"
    r"|x-real-ip|x-remote-.*|x-client-cert.*|x-ssl-.*|x-amzn-oidc-.*|x-goog-(authenticated-user|iap)-.*"
    r"|(.*[-_])?(token|api-?key|password|secret|jwt|jwt-assertion))(-bin)?"
)
"""The metadata keys that may contain credentials, or with which proxies tell who the client is."""

_REPEATED = frozenset(
    SERVICE + name
    for name in (
        *("AnalyzePlan", "ArtifactStatus", "Config", "FetchErrorDetails", "GetStatus", "Interrupt"),
        *("ReleaseExecute", "ReleaseSession"),
    )
)
"""The methods whose second call has the same effect as the first."""

_NOT_SENT = "Internal error from Core"
"""The beginning of the details with which gRPC itself reports a request that it could not send."""

_REPETITIONS = 3
_FIRST_PAUSE_SECONDS = 0.1
_CACHED_KEYS = 1024

Context = Any
"""``grpc.aio.ServicerContext``, for which grpc does not provide type annotations."""

ResponseObserver = Callable[[bytes], None]
"""A function that reads an encoded response."""


def request_metadata(context: Context) -> Metadata:
    """Return the metadata of the client's call for the backend, without credentials and claims of an identity."""
    metadata = context.invocation_metadata() or ()
    return forwardable([item for item in metadata if _may_be_forwarded(item[0])])


@functools.lru_cache(_CACHED_KEYS)
def _may_be_forwarded(key: str) -> bool:
    return _NOT_FORWARDED.fullmatch(key) is None


def call_arguments(context: Context) -> dict[str, Any]:
    """Return the metadata and the timeout for a call to the backend.

    They are the forwardable metadata and the remaining time of the client's call.
    """
    return {"metadata": request_metadata(context), "timeout": context.time_remaining()}


class RequestStream:
    """The messages of a client stream, for the backend.

    gRPC does not report errors that an iterator of requests raises. Therefore the stream stores the error.

    Args:
        first: The first request of the stream. Its session applies to the whole stream.
        context: The call of the client.
        check: A function that checks a later message. It raises GatewayError if the message must not be forwarded.

    Attributes:
        error: The error that ended the stream. None if there is none.
    """

    def __init__(
        self, first: Request, context: AdmittedCall, check: Callable[[bytes], Awaitable[None]] | None = None
    ) -> None:
        self._first = first
        self._context = context
        self._check = check
        self.error: GatewayError | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._first.data
        try:
            while (data := await self._context.read()) is not aio.EOF:
                following = self._first.following(data)
                if self._check is not None:
                    await self._check(following)
                yield following
        except GatewayError as error:
            self.error = error
            raise


async def forward_unary(backend: Backend, method: str, request: bytes, context: AdmittedCall) -> bytes:
    """Forward a call with a single request and a single response.

    If the connection to the backend is reset, and a second call does no harm, the call is repeated. A repetition can
    still meet the connection that is being closed. Therefore there are several, after increasing pauses.

    Raises:
        aio.AioRpcError: If the call to the backend fails.
        GatewayError: If the backend sends no answer.
    """
    call = backend.unary(method)(request, **call_arguments(context))
    try:
        response: bytes = await call
    except aio.AioRpcError as error:
        if not _is_reset(error) or method not in _REPEATED:
            raise
        async for attempt in _repetitions():
            with attempt:
                call = backend.unary(method)(request, **call_arguments(context))
                response = await call
    await _pass_metadata(call, context)
    return require_answer(response, backend)


def _repetitions() -> tenacity.AsyncRetrying:
    return tenacity.AsyncRetrying(
        sleep=asyncio.sleep,
        stop=tenacity.stop_after_attempt(_REPETITIONS),
        wait=tenacity.wait_exponential(multiplier=_FIRST_PAUSE_SECONDS),
        retry=tenacity.retry_if_exception(_is_reset),
        reraise=True,
    )


def _is_reset(error: BaseException) -> bool:
    return isinstance(error, aio.AioRpcError) and error.code() is grpc.StatusCode.UNAVAILABLE


async def forward_upload(backend: Backend, method: str, requests: RequestStream, context: AdmittedCall) -> bytes:
    """Forward a call with a stream of requests and a single response.

    Raises:
        aio.AioRpcError: If the call to the backend fails.
        GatewayError: If a message of the client is invalid, or the backend sends no answer.
    """
    call = backend.stream_unary(method)(requests, **call_arguments(context))
    with _raise_error_of(requests):
        response: bytes = await call
    await _pass_metadata(call, context)
    return require_answer(response, backend)


async def forward_responses(
    backend: Backend,
    request: Request,
    data: bytes,
    context: AdmittedCall,
    *,
    observe: ResponseObserver,
    drain: Drain,
) -> None:
    """Forward a call with a single request and a stream of responses.

    Args:
        backend: The backend of the session.
        request: The request of the client.
        data: The encoded request for the backend.
        context: The call of the client.
        observe: A function that is called with each response, before the response is sent.
        drain: Ends the stream when the gateway stops, if the client can reattach to the operation.

    Raises:
        aio.AioRpcError: If the call to the backend fails.
        GatewayStoppingError: If the gateway stops.
    """
    call = backend.unary_stream(SERVICE + request.method)(data, **call_arguments(context))

    def end() -> None:
        if _is_reattachable(request):
            call.cancel()

    with drain.handing_over(end):
        await _pass_stream(call, context, observe)


def _is_reattachable(request: Request) -> bool:
    """Return whether the client can reattach to the operation of a request."""
    if request.method != "ExecutePlan":
        return request.method == "ReattachExecute"
    return request.read_statement().is_reattachable


async def forward_stream(backend: Backend, method: str, requests: RequestStream, context: AdmittedCall) -> None:
    """Forward a call of a method that this version of Lodge does not support itself.

    On the wire, every kind of method is a special case of a method with two streams.

    Raises:
        aio.AioRpcError: If the call to the backend fails.
        GatewayError: If a message of the client is invalid.
    """
    with _raise_error_of(requests):
        await _pass_stream(backend.stream(method)(requests, **call_arguments(context)), context)


@contextmanager
def _raise_error_of(requests: RequestStream) -> Iterator[None]:
    """Raise the error of a request stream in place of the cancellation that gRPC makes of it.

    If the connection is reset while gRPC sends a request, gRPC reports an internal error of its own. It becomes
    ``UNAVAILABLE``, after which clients repeat the call.
    """
    try:
        yield
    except asyncio.CancelledError:
        if requests.error is None:
            raise
        raise requests.error from None
    except aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.INTERNAL or not (error.details() or "").startswith(_NOT_SENT):
            raise
        metadata = error.initial_metadata(), error.trailing_metadata()
        raise aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, *metadata, "The connection was reset.") from error


async def _pass_stream(call: Any, context: AdmittedCall, observe: ResponseObserver = lambda _: None) -> None:
    responses = context.responses
    try:
        response = await responses.read(call.read)
        await _pass_initial_metadata(call, context)
        while response is not aio.EOF:
            ahead = asyncio.ensure_future(responses.read(call.read)) if responses.may_read_ahead else None
            try:
                observe(response)
                await context.write(response)
            except BaseException:
                if ahead is not None:
                    ahead.add_done_callback(retrieve_error)
                raise
            response = await (responses.read(call.read) if ahead is None else ahead)
        _set_trailing(context, await call.trailing_metadata() or ())
        if await call.code() is not grpc.StatusCode.OK:
            raise aio.AioRpcError(
                await call.code(),
                await call.initial_metadata(),
                await call.trailing_metadata(),
                await call.details(),
            )
    finally:
        call.cancel()


async def _pass_metadata(call: Any, context: AdmittedCall) -> None:
    await _pass_initial_metadata(call, context)
    _set_trailing(context, await call.trailing_metadata() or ())


async def _pass_initial_metadata(call: Any, context: AdmittedCall) -> None:
    initial = forwardable(await call.initial_metadata() or ())
    if initial and not context.has_responded:
        await context.send_initial_metadata(initial)


def _set_trailing(context: Context, metadata: Metadata) -> None:
    trailing = forwardable(metadata)
    if trailing:
        context.set_trailing_metadata(trailing)
