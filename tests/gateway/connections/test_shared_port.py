"""Several servers on one port (gateway.connections.shared_port)."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from statistics import median
from threading import Barrier

import pytest
from grpc import aio

from gateway.connections.listener import ConnectionLimits, ListenError
from gateway.connections.shared_port import SHARES_PORTS, reserved_port
from tests.gateway.connections.echo import SECONDS, call, client, listening

FLOOD = 3000
OTHERS = 16


async def calls_before_others(limits: ConnectionLimits) -> float:
    """Return how many calls of a flood are answered before a call on another connection, as a median."""
    async with listening(limits=limits) as (_, addresses):
        flooding = client(addresses.main)
        others = [client(addresses.main) for _ in range(OTHERS)]
        for each in (flooding, *others):
            await call(each)
        answered, begun = 0, asyncio.Event()

        async def flood() -> None:
            nonlocal answered
            await call(flooding)
            answered += 1
            begun.set()

        async def count(channel: aio.Channel) -> int:
            await call(channel)
            return answered

        running = [asyncio.create_task(flood()) for _ in range(FLOOD)]
        await begun.wait()
        counts = await asyncio.gather(*map(count, others))
        await asyncio.gather(*running)
        for each in (flooding, *others):
            await each.close()
        return median(counts)


@pytest.mark.skipif(not SHARES_PORTS, reason="The system does not divide connections between listeners.")
async def test_flood_of_calls_on_one_connection_does_not_delay_most_others() -> None:
    limits = ConnectionLimits(streams=2 * FLOOD)
    of_one_server = await calls_before_others(replace(limits, connections=100))
    assert await calls_before_others(limits) < of_one_server / 2


async def test_port_belongs_to_one_gateway() -> None:
    async with listening() as (_, addresses):
        with pytest.raises(ListenError):
            async with listening(listen=addresses.main):
                pass
    async with listening(listen=addresses.main) as (_, same):
        assert same == addresses


def test_one_of_several_reservations_at_the_same_moment_succeeds() -> None:
    with reserved_port("127.0.0.1:0") as port:
        pass
    ready, done = Barrier(8), Barrier(8)

    def reserve(_: int) -> bool:
        ready.wait(SECONDS)
        try:
            with reserved_port(f"127.0.0.1:{port}"):
                done.wait(SECONDS)
                return True
        except OSError:
            done.wait(SECONDS)
            return False

    with ThreadPoolExecutor(8) as threads:
        for _ in range(20):
            assert sum(threads.map(reserve, range(8))) == 1


def test_name_that_stands_for_an_address_twice_is_reserved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    known = socket.getaddrinfo

    def twice(*arguments: object, **options: object) -> object:
        return 2 * known(*arguments, **options)  # as with two lines in /etc/hosts

    monkeypatch.setattr(socket, "getaddrinfo", twice)
    with reserved_port("localhost:0") as port:
        assert port
