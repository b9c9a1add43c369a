"""Limits for connections (guarantees: gateway.connections.listener)."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import grpc
import pytest
from grpc import aio

from gateway.connections.listener import MAX_METADATA_BYTES, ConnectionLimits
from tests.gateway.connections.echo import METHOD, SECONDS, STREAM, call, client, listening, until

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
SETTINGS_ACKNOWLEDGED = bytes([0, 0, 0, 4, 1, 0, 0, 0, 0])
PING = bytes([0, 0, 8, 6, 0, 0, 0, 0, 0]) + bytes(8)
PING_ACKNOWLEDGED = bytes([0, 0, 8, 6, 1, 0, 0, 0, 0]) + bytes(8)
LIMITS = ConnectionLimits(handshake_seconds=1.5)


@contextmanager
def silent_connections(address: str, count: int) -> Iterator[list[socket.socket]]:
    """Open connections that send nothing."""
    host, _, port = address.rpartition(":")
    opened: list[socket.socket] = []
    try:
        for _ in range(count):
            opened.append(socket.create_connection((host, int(port)), SECONDS))
            opened[-1].setblocking(False)
        yield opened
    finally:
        for each in opened:
            each.close()


def is_closed(connection: socket.socket) -> bool:
    try:
        while connection.recv(65536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


async def test_guarantee_1_connections_over_the_limit_are_closed() -> None:
    async with listening(limits=replace(LIMITS, connections=10, handshake_seconds=600.0)) as (_, addresses):
        with silent_connections(addresses.main, 20) as opened:
            await until(lambda: sum(map(is_closed, opened)) >= 10, "the connections over the limit are closed")
            async with client(addresses.main) as refused:
                with pytest.raises(aio.AioRpcError) as error:
                    await call(refused)
                assert error.value.code() is grpc.StatusCode.UNAVAILABLE
            assert sum(map(is_closed, opened)) == 10


async def test_guarantee_1_silent_connections_give_way_to_clients() -> None:
    async with listening(limits=replace(LIMITS, connections=10)) as (_, addresses):
        with silent_connections(addresses.main, 20):
            async with client(addresses.main) as patient:
                assert await call(patient, wait=True) == b"x"


async def test_guarantee_2_silent_connections_do_not_exhaust_the_process() -> None:
    async with listening(limits=LIMITS) as (_, addresses), client(addresses.main) as early:
        assert await call(early) == b"x"
        with silent_connections(addresses.main, 2000) as opened:
            async with client(addresses.main) as late:
                assert await call(late) == b"x"
            await until(lambda: all(map(is_closed, opened)), "silent connections are closed")
            assert await call(early) == b"x"


async def test_guarantee_2_client_that_does_not_answer_pings_is_disconnected() -> None:
    limits = replace(LIMITS, ping_seconds=0.3, ping_timeout_seconds=5.0)
    async with listening(limits=limits) as (_, addresses), client(addresses.main) as alive:
        stream = alive.stream_stream(STREAM)()
        await stream.write(b"a")
        assert await stream.read() == b"a"
        host, _, port = addresses.main.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(PREFACE + SETTINGS + SETTINGS_ACKNOWLEDGED)  # nothing after it
        async with asyncio.timeout(SECONDS):
            while await reader.read(65536):
                pass
        writer.close()
        await stream.write(b"b")
        assert await stream.read() == b"b", "the older client, which answers pings, stays connected"
        stream.cancel()


@pytest.mark.parametrize(("interval_seconds", "is_permitted"), [(0.05, True), (600.0, False)])
async def test_pings_without_calls_are_permitted_at_the_shortest_interval(
    interval_seconds: float, is_permitted: bool
) -> None:
    """PySpark sends a ping every minute. By default, gRPC permits one ping in two hours while no call is open."""
    limits = replace(LIMITS, shortest_ping_interval_seconds=interval_seconds)
    async with listening(limits=limits) as (_, addresses):
        host, _, port = addresses.main.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(PREFACE + SETTINGS + SETTINGS_ACKNOWLEDGED)
        received = b""
        async with asyncio.timeout(SECONDS):
            for number in range(1, 9):
                writer.write(PING)
                while received.count(PING_ACKNOWLEDGED) < number and (chunk := await reader.read(65536)):
                    received += chunk
                if reader.at_eof():
                    break
                await asyncio.sleep(0.1)  # the gateway has received this ping, so the next one is no sooner
        assert reader.at_eof() is not is_permitted
        assert (b"too_many_pings" in received) is not is_permitted
        writer.close()


async def test_guarantee_3_idle_connection_is_closed_and_opened_again() -> None:
    limits = replace(LIMITS, idle_timeout_seconds=0.5)
    async with listening(limits=limits) as (_, addresses), client(addresses.main) as idle:
        assert await call(idle) == b"x"
        async with asyncio.timeout(SECONDS):
            await idle.wait_for_state_change(grpc.ChannelConnectivity.READY)
        assert await call(idle) == b"x"


async def test_guarantee_3_streams_of_an_old_connection_continue_and_no_call_fails() -> None:
    """As in every client by default, gRPC sends a call again that the old connection did not accept any more."""
    limits = replace(LIMITS, age_seconds=0.5, age_grace_seconds=30.0)
    sends_again = [("grpc.enable_retries", 1)]
    async with listening(limits=limits) as (_, addresses), client(addresses.main, options=sends_again) as channel:
        stream = channel.stream_stream(STREAM)()
        for number in range(60):
            message = str(number).encode()
            await stream.write(message)
            assert await stream.read() == message
            assert await call(channel, message) == message
            await asyncio.sleep(0.03)
        await stream.done_writing()
        assert await stream.code() is grpc.StatusCode.OK


async def test_streams_over_the_limit_of_a_connection_wait() -> None:
    async with listening(limits=replace(LIMITS, streams=2)) as (_, addresses), client(addresses.main) as channel:
        streams = [channel.stream_stream(STREAM)() for _ in range(2)]
        for stream in streams:
            await stream.write(b"x")
            assert await stream.read() == b"x"
        third = asyncio.ensure_future(channel.unary_unary(METHOD)(b"third", timeout=SECONDS))
        await asyncio.wait([third], timeout=0.3)
        assert not third.done()
        streams[0].cancel()
        assert await third == b"third"
        streams[1].cancel()


async def test_metadata_over_the_limit_is_refused() -> None:
    async with listening(limits=LIMITS) as (_, addresses), client(addresses.main) as channel:
        token = "x" * 16_384  # the longest token that Lodge accepts, sent in both keys
        echo = channel.unary_unary(METHOD)
        assert await echo(b"x", metadata=[("authorization", token), ("authentication", token)], timeout=SECONDS) == b"x"
        with pytest.raises(aio.AioRpcError) as refused:
            await echo(b"x", metadata=[("authorization", "x" * MAX_METADATA_BYTES)], timeout=SECONDS)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
