"""Release requests are batched for each backend (gateway.backends.response_releases)."""

import asyncio
import time

import grpc
import pytest
from grpc import aio

from gateway.backends import response_releases
from gateway.backends.backends import SERVICE, Backend
from gateway.backends.response_releases import ResponseReleases
from gateway.messages.requests import SessionKey

KEY = SessionKey("ada", "s")
METADATA = ()


class BackendServer:
    """A real gRPC server that receives release requests, and answers them only if it does not hang.

    It answers none until it has received some requests at the same time.
    """

    def __init__(self, *, hangs=False, at_once=1):
        self.received, self.hangs, self.running, self.most = [], hangs, 0, 0
        self._at_once, self._are_enough = at_once, asyncio.Event()

    async def __aenter__(self):
        self.server = aio.server()
        handler = grpc.unary_unary_rpc_method_handler(self.release)
        generic = grpc.method_handlers_generic_handler(SERVICE.strip("/"), {"ReleaseExecute": handler})
        self.server.add_generic_rpc_handlers((generic,))
        port = self.server.add_insecure_port("127.0.0.1:0")
        await self.server.start()
        self.backend = Backend(f"sc://127.0.0.1:{port}")
        return self

    async def __aexit__(self, *_):
        await self.backend.close()
        await self.server.stop(0)

    async def release(self, request, context):
        self.received.append(request)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if self.hangs:
                await asyncio.Event().wait()
            if self.running >= self._at_once:
                self._are_enough.set()
            await self._are_enough.wait()
        finally:
            self.running -= 1
        return b""


async def until(condition):
    deadline_seconds = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline_seconds
        await asyncio.sleep(0.01)


async def test_hung_backend_does_not_delay_releases_for_others(monkeypatch):
    monkeypatch.setattr(response_releases, "_TIMEOUT_SECONDS", 3600.0)  # a release that waits for it is never sent
    releases = ResponseReleases()
    async with BackendServer(hangs=True) as hung, BackendServer() as healthy:
        for number in range(40):
            releases.defer((KEY, f"hung-{number}"), hung.backend, b"hung", METADATA)
        await until(lambda: hung.received)
        releases.defer((KEY, "healthy"), healthy.backend, b"healthy", METADATA)
        await until(lambda: healthy.received)
        assert 1 < hung.most <= 16
        await releases.stop()


async def test_releases_of_one_backend_run_concurrently():
    releases = ResponseReleases()
    async with BackendServer(at_once=2) as server:
        for number in range(100):
            releases.defer((KEY, str(number)), server.backend, str(number).encode(), METADATA)
        await until(lambda: len(server.received) == 100)
        assert 1 < server.most <= 16
        await releases.stop()


@pytest.mark.parametrize("limit", ["MAX_WAITING", "MAX_WAITING_BYTES"])
async def test_queue_of_a_hung_backend_is_bounded(monkeypatch, limit):
    monkeypatch.setattr(response_releases, limit, 8)
    releases = ResponseReleases()
    async with BackendServer() as server:
        for number in range(20):
            releases.defer((KEY, str(number)), server.backend, b"%d" % (number % 10), METADATA)
        await until(lambda: len(server.received) == 8)
        assert sorted(server.received) == [b"%d" % number for number in range(2, 10)]
        await releases.stop()


async def test_later_release_replaces_earlier_ones():
    releases = ResponseReleases()
    async with BackendServer() as server:
        for request in (b"1", b"2", b"3"):
            releases.defer((KEY, "op"), server.backend, request, METADATA)
        releases.defer((KEY, "other"), server.backend, b"other", METADATA)
        await until(lambda: len(server.received) == 2)
        assert sorted(server.received) == [b"3", b"other"]
        await releases.stop()


async def test_release_of_the_whole_operation_replaces_all_others():
    releases = ResponseReleases()
    async with BackendServer() as server:
        releases.defer((KEY, "op"), server.backend, b"before", METADATA)
        releases.discard((KEY, "op"), server.backend)
        releases.defer((KEY, "op"), server.backend, b"after", METADATA)
        releases.defer((KEY, "other"), server.backend, b"other", METADATA)
        await until(lambda: server.received)
        assert server.received == [b"other"]
        await releases.stop()
