"""The memory of responses."""

import asyncio
from collections.abc import Callable

import pytest

from gateway.admission import responses
from gateway.admission.accounts import Account
from gateway.admission.limits import AdmissionLimits, LimitKind, LimitReports
from gateway.admission.responses import ResponseFlow, ResponseFlows
from gateway.errors import GatewayError
from tests.gateway.admission.conftest import FakeContext
from tests.gateway.frozen_time import FrozenTime
from workspace.identifiers import Principal

Report = Callable[[AdmissionLimits], LimitReports]
LIMITS = AdmissionLimits(max_response_bytes_in_flight=400, max_principal_response_bytes_in_flight=200)


class Site:
    def __init__(self, report: Report) -> None:
        self.total = Account(None)
        self.ada, self.bob = Account(Principal("ada")), Account(Principal("bob"))
        self.closed: list[str] = []
        self.has_closed = asyncio.Event()
        self.flows = ResponseFlows(LIMITS, self.total, report(LIMITS), self.close)

    def close(self, peer: str) -> bool:
        self.closed.append(peer)
        self.has_closed.set()
        return True

    def flow(self, account: Account, address: str = "") -> tuple[ResponseFlow, FakeContext]:
        context = FakeContext(address=address)
        flow = ResponseFlow(self.flows, context)
        flow.account = account
        return flow, context


async def backend(size: int = 100) -> bytes:
    return b"x" * size


@pytest.fixture
def site(report: Report) -> Site:
    return Site(report)


async def test_response_counts_until_the_client_has_read_it(site: Site) -> None:
    flow, context = site.flow(site.ada)
    message = await flow.read(backend)
    sending = asyncio.create_task(flow.send(message))
    await asyncio.sleep(0)
    assert site.total.response_bytes == site.ada.response_bytes == 100
    context.reads.set()
    await sending
    assert site.total.response_bytes == site.ada.response_bytes == 0


async def test_reading_waits_above_half_of_a_limit(site: Site) -> None:
    first, context = site.flow(site.ada)
    message = await first.read(lambda: backend(101))
    assert not first.may_read_ahead
    second, _ = site.flow(site.ada)
    reading = asyncio.create_task(second.read(backend))
    other, _ = site.flow(site.bob)
    assert other.may_read_ahead
    await other.read(backend)
    assert not reading.done()
    context.reads.set()
    await first.send(message)
    assert len(await reading) == 100


async def test_response_over_a_limit_is_discarded(site: Site, reached: list[LimitKind]) -> None:
    flows = [site.flow(site.ada)[0] for _ in range(3)]
    results = await asyncio.gather(*(flow.read(lambda: late()) for flow in flows), return_exceptions=True)
    assert [type(result) for result in results] == [bytes, bytes, GatewayError]
    assert reached == [LimitKind.PRINCIPAL_RESPONSE_BYTES]
    assert site.ada.response_bytes == 200


async def late() -> bytes:
    """Return a response after all other streams have begun to read."""
    await asyncio.sleep(0)
    return await backend()


async def test_single_response_over_the_limit_passes(site: Site) -> None:
    flow, _ = site.flow(site.ada)
    assert len(await flow.read(lambda: backend(10_000))) == 10_000


async def test_stream_that_ends_returns_its_bytes(site: Site) -> None:
    flow, _ = site.flow(site.ada)
    ahead = asyncio.create_task(flow.read(late))
    await flow.read(backend)
    flow.close()
    await ahead  # it ends after the stream
    assert site.total.response_bytes == site.ada.response_bytes == 0


async def test_connection_of_the_client_that_does_not_read_is_closed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(responses, "_STALLED_SECONDS", 0.05)
    monkeypatch.setattr(responses, "_CHECK_SECONDS", 0.02)
    stalled, _ = site.flow(site.ada, "stalled")
    idle, _ = site.flow(site.bob, "slow, but not in the way")
    tasks = [
        asyncio.create_task(flow.send(await flow.read(size)))
        for flow, size in [(stalled, lambda: backend(150)), (idle, lambda: backend(10))]
    ]
    waiting = asyncio.create_task(site.flow(site.ada)[0].read(backend))
    await asyncio.wait_for(site.has_closed.wait(), 60)
    assert set(site.closed) == {"stalled"}
    tasks[0].cancel()  # as gRPC does when the connection is closed
    assert await waiting
    tasks[1].cancel()


async def test_clients_that_read_are_never_closed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = FrozenTime()
    monkeypatch.setattr(responses, "time", frozen)
    monkeypatch.setattr(responses, "_CHECK_SECONDS", 0.001)

    async def serve() -> None:
        flow, context = site.flow(site.ada)
        context.reads.set()
        for _ in range(20):
            await flow.send(await flow.read(late))
            frozen.advance(responses._STALLED_SECONDS / 50)  # much longer than this in all rounds together
            await asyncio.sleep(0.005)

    async with asyncio.timeout(60):
        results = await asyncio.gather(*(serve() for _ in range(8)), return_exceptions=True)
    assert site.closed == []
    assert site.total.response_bytes == 0
    assert {type(result) for result in results} <= {type(None), GatewayError}
