"""Forwards RPCs between clients and backends.

Guarantees:

1. Each message is forwarded with exactly the bytes that were received.
2. The client receives the initial metadata, the trailing metadata, the status and the error details from the backend.
   Only metadata that every gRPC server sets itself is removed.
3. The deadline of the client's call also applies to the call to the backend. If the client disconnects, the call to the
   backend is cancelled.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from grpc import aio

from gateway.backends import Backend
from gateway.error_status import Metadata, forwardable

Context = Any
"""``grpc.aio.ServicerContext``, for which grpc does not provide type annotations."""


def call_arguments(context: Context) -> dict[str, Any]:
    """Return the metadata and the timeout for a call to the backend.

    They are the forwardable metadata and the remaining time of the client's call.
    """
    return {"metadata": forwardable(context.invocation_metadata() or ()), "timeout": context.time_remaining()}


async def forward_unary(backend: Backend, method: str, request: bytes, context: Context) -> bytes:
    """Forward a call with a single request and a single response.

    Raises:
        aio.AioRpcError: If the call to the backend fails.
    """
    call = backend.unary(method)(request, **call_arguments(context))
    response: bytes = await call
    await _pass_metadata(call, context)
    return response


async def forward_upload(backend: Backend, method: str, requests: AsyncIterator[bytes], context: Context) -> bytes:
    """Forward a call with a stream of requests and a single response.

    Raises:
        aio.AioRpcError: If the call to the backend fails.
    """
    call = backend.stream_unary(method)(requests, **call_arguments(context))
    response: bytes = await call
    await _pass_metadata(call, context)
    return response


async def forward_responses(backend: Backend, method: str, request: bytes, context: Context) -> None:
    """Forward a call with a single request and a stream of responses.

    Raises:
        aio.AioRpcError: If the call to the backend fails.
    """
    await _pass_stream(backend.unary_stream(method)(request, **call_arguments(context)), context)


async def forward_stream(backend: Backend, method: str, requests: AsyncIterator[bytes], context: Context) -> None:
    """Forward a call of a method that this version of Lodge does not support itself.

    On the wire, every kind of method is a special case of a method with two streams.

    Raises:
        aio.AioRpcError: If the call to the backend fails.
    """
    await _pass_stream(backend.stream(method)(requests, **call_arguments(context)), context)


async def _pass_stream(call: Any, context: Context) -> None:
    try:
        response = await call.read()
        await _pass_initial_metadata(call, context)
        while response is not aio.EOF:
            ahead = asyncio.ensure_future(call.read())
            try:
                await context.write(response)
            except BaseException:
                ahead.add_done_callback(_discard)
                raise
            response = await ahead
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


def _discard(read: "asyncio.Future[Any]") -> None:
    """Ignore the result of a read after the client has disconnected."""
    if not read.cancelled():
        read.exception()


async def _pass_metadata(call: Any, context: Context) -> None:
    await _pass_initial_metadata(call, context)
    _set_trailing(context, await call.trailing_metadata() or ())


async def _pass_initial_metadata(call: Any, context: Context) -> None:
    initial = forwardable(await call.initial_metadata() or ())
    if initial:
        await context.send_initial_metadata(initial)


def _set_trailing(context: Context, metadata: Metadata) -> None:
    trailing = forwardable(metadata)
    if trailing:
        context.set_trailing_metadata(trailing)
