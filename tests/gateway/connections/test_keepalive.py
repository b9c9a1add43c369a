"""Lodge notices that a backend or a client has vanished silently (gateway.connections)."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from grpc import aio
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_fixed

from gateway.backends.backends import SERVICE, Backend
from gateway.connections import backend_channel, listener
from gateway.connections.backend_channel import ANSWER_SECONDS, KEEPALIVE_SECONDS, keepalive_options
from gateway.connections.listener import ConnectionLimits
from tests.gateway.connections.echo import until
from tests.workspace.kubernetes.tcp_proxy import TcpProxy

SECONDS = 60.0
NOTICED_SECONDS = 30.0
SPARK_43 = [("grpc.http2.min_ping_interval_without_data_ms", 100), ("grpc.keepalive_permit_without_calls", 1)]
SPARK_42: Sequence[tuple[str, int]] = ()
"""The defaults of gRPC: a ping in five minutes, or in two hours while no call is open."""


class HoldingBackend(grpc.GenericRpcHandler):
    """A backend that holds each call of ``ExecutePlan``, and returns the requests of other calls."""

    def service(self, handler_call_details: Any) -> Any:
        async def handle(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            async for request in requests:
                yield request
                if handler_call_details.method.endswith("ExecutePlan"):
                    await asyncio.Event().wait()

        return grpc.stream_stream_rpc_method_handler(handle)


@asynccontextmanager
async def proxied(options: Sequence[tuple[str, int]], keepalive_seconds: float) -> AsyncIterator[tuple[TcpProxy, Any]]:
    server = aio.server(options=options)
    server.add_generic_rpc_handlers((HoldingBackend(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    with TcpProxy(port) as proxy:
        backend = Backend(f"sc://127.0.0.1:{proxy.port}", keepalive_seconds=keepalive_seconds)
        try:
            yield proxy, backend
        finally:
            await backend.close()
            await server.stop(None)


async def execute(backend: Backend) -> Any:
    call = backend.unary_stream(SERVICE + "ExecutePlan")(b"x")
    assert await call.read() == b"x"
    return call


async def send_like_client(send: Callable[[], Awaitable[Any]]) -> Any:
    """Send a request again after ``UNAVAILABLE``, because gRPC learns of a closed connection with a delay."""
    is_unavailable = retry_if_exception(
        lambda error: isinstance(error, aio.AioRpcError) and error.code() is grpc.StatusCode.UNAVAILABLE
    )
    async for attempt in AsyncRetrying(retry=is_unavailable, wait=wait_fixed(0.05), stop=stop_after_delay(SECONDS)):
        with attempt:
            answer = await send()
    return answer


async def call_like_client(backend: Backend) -> bytes:
    answer: bytes = await send_like_client(lambda: backend.unary(SERVICE + "Config")(b"x", timeout=SECONDS))
    return answer


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Notice a vanished backend soon, and give a slow backend time to answer."""
    monkeypatch.setattr(backend_channel, "ANSWER_SECONDS", 4.0)
    yield


def test_silence_is_noticed_within_30_seconds() -> None:
    limits = dict(ConnectionLimits().options())
    assert limits["grpc.keepalive_time_ms"] + limits["grpc.keepalive_timeout_ms"] < NOTICED_SECONDS * 1000
    assert limits["grpc.http2.ping_timeout_ms"] == listener.PING_TIMEOUT_SECONDS * 1000
    assert limits["grpc.keepalive_permit_without_calls"] == 1
    options = dict(keepalive_options(KEEPALIVE_SECONDS))
    assert options["grpc.keepalive_time_ms"] + options["grpc.keepalive_timeout_ms"] < NOTICED_SECONDS * 1000
    assert options["grpc.http2.ping_timeout_ms"] == ANSWER_SECONDS * 1000
    assert options["grpc.keepalive_permit_without_calls"] == 1
    assert KEEPALIVE_SECONDS > 10, "Spark 4.3 permits a ping every ten seconds"


@pytest.mark.usefixtures("soon")
async def test_calls_of_a_vanished_backend_fail_and_new_calls_use_a_new_connection() -> None:
    async with proxied(SPARK_43, keepalive_seconds=1.0) as (proxy, backend):
        running = await execute(backend)
        waiting = asyncio.ensure_future(running.read())
        proxy.drop()
        begun = time.monotonic()
        with pytest.raises(aio.AioRpcError) as raised:
            await asyncio.wait_for(waiting, SECONDS)
        assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
        assert time.monotonic() - begun >= 1.0, "only silence tells that the backend has vanished"
        assert await call_like_client(backend) == b"x"
        (await send_like_client(lambda: execute(backend))).cancel()


@pytest.mark.usefixtures("soon")
async def test_vanished_backend_is_noticed_while_no_call_is_open() -> None:
    async with proxied(SPARK_43, keepalive_seconds=1.0) as (proxy, backend):
        assert await backend.unary(SERVICE + "Config")(b"x") == b"x"
        proxy.drop()
        await until(lambda: proxy.open_connections == 0, "Lodge closes the connection")
        assert await call_like_client(backend) == b"x"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "keepalive_seconds", "stays"), [(SPARK_43, 1.0, True), (SPARK_42, 0.2, False), (SPARK_42, 330.0, True)]
)
async def test_backend_permits_the_pings_of_the_setting_for_its_version(
    options: Sequence[tuple[str, int]], keepalive_seconds: float, stays: bool
) -> None:
    async with proxied(options, keepalive_seconds) as (proxy, backend):
        running = await execute(backend)
        waiting = asyncio.ensure_future(running.read())
        await asyncio.wait([waiting], timeout=5.0 if stays else SECONDS)
        assert waiting.done() is not stays
        assert proxy.connections == 1
        if not stays:
            with pytest.raises(aio.AioRpcError) as raised:
                await waiting
            assert raised.value.code() is grpc.StatusCode.UNAVAILABLE, "a statement reattaches after this error"
            (await send_like_client(lambda: execute(backend))).cancel()
        running.cancel()
        await asyncio.wait([waiting])
