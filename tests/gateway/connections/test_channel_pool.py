"""Calls of a backend do not wait behind full connections (guarantee of gateway.connections.channel_pool)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from grpc import aio

from gateway.backends.backends import SERVICE, Backend
from gateway.connections import channel_pool
from gateway.connections.channel_pool import CALLS_PER_CONNECTION
from tests.gateway.connections.echo import until

SECONDS = 60.0
STREAMS = 100
"""The maximum number of open streams of a connection behind many proxies."""

CONTROL = ("Interrupt", "GetStatus", "ReleaseExecute", "ReleaseSession", "FetchErrorDetails")


class LimitedBackend(grpc.GenericRpcHandler):
    """A backend that accepts 100 streams of a connection, and holds each call of ``ExecutePlan``.

    Attributes:
        peers: The connections of the running calls of ``ExecutePlan``.
    """

    def __init__(self) -> None:
        self.peers: list[str] = []

    def service(self, handler_call_details: Any) -> Any:
        name = handler_call_details.method.rpartition("/")[2]

        async def handle(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            if name == "ExecutePlan":
                peer = context.peer()
                self.peers.append(peer)
                try:
                    yield b"started"
                    await asyncio.Event().wait()
                finally:
                    self.peers.remove(peer)
            if name == "Refused":
                await context.abort(grpc.StatusCode.INTERNAL, "refused")
            async for request in requests:
                yield request

        return grpc.stream_stream_rpc_method_handler(handle)


@asynccontextmanager
async def limited_backend() -> AsyncIterator[tuple[LimitedBackend, Backend]]:
    limited = LimitedBackend()
    server = aio.server(options=[("grpc.max_concurrent_streams", STREAMS)])
    server.add_generic_rpc_handlers((limited,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    backend = Backend(f"sc://127.0.0.1:{port}")
    try:
        yield limited, backend
    finally:
        await backend.close()
        await server.stop(None)


async def execute(backend: Backend) -> Any:
    call = backend.unary_stream(SERVICE + "ExecutePlan")(b"x")
    async with asyncio.timeout(SECONDS):
        assert await call.read() == b"started"
    return call


async def test_no_call_waits_behind_a_full_connection() -> None:
    async with limited_backend() as (limited, backend):
        running = [await execute(backend) for _ in range(STREAMS + 1)]
        assert len(set(limited.peers)) == 2, "a further connection is opened, and no more"
        for name in (*CONTROL, "Config", "AnalyzePlan"):
            assert await backend.unary(SERVICE + name)(b"x", timeout=SECONDS) == b"x"
        assert len(running) == STREAMS + 1


async def test_ended_calls_make_room_on_the_first_connection() -> None:
    async with limited_backend() as (limited, backend):
        running = [await execute(backend) for _ in range(CALLS_PER_CONNECTION)]
        (first,) = set(limited.peers)
        running += [await execute(backend) for _ in range(3)]
        assert len(set(limited.peers)) == 2
        for call in running[:5]:
            call.cancel()
        await until(lambda: len(limited.peers) == CALLS_PER_CONNECTION - 2, "the calls have ended")
        before = limited.peers.count(first)
        running += [await execute(backend) for _ in range(5)]
        assert limited.peers.count(first) == before + 5


async def test_calls_of_every_kind_end_in_the_count() -> None:
    async with limited_backend() as (_, backend):
        for _ in range(3):
            assert await backend.unary(SERVICE + "Config")(b"x") == b"x"
            assert [each async for each in backend.unary_stream(SERVICE + "Other")(b"x")] == [b"x"]
            assert await backend.stream_unary(SERVICE + "AddArtifacts")(iter([b"x"])) == b"x"
            stream = backend.stream(SERVICE + "New")(iter([b"x", b"y"]))
            assert [each async for each in stream] == [b"x", b"y"]
            with pytest.raises(aio.AioRpcError):
                await backend.unary(SERVICE + "Refused")(b"x")
            backend.unary_stream(SERVICE + "ExecutePlan")(b"x").cancel()
        await until(lambda: backend.open_calls == 0, "all calls have ended")


async def test_number_of_connections_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_pool, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(channel_pool, "CALLS_PER_CONNECTION", 3)
    async with limited_backend() as (limited, backend):
        running = [await execute(backend) for _ in range(10)]
        counts = sorted(limited.peers.count(peer) for peer in set(limited.peers))
        assert counts == [5, 5], "the calls are spread over the connections"
        assert len(running) == 10
