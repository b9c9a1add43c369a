"""The memory of requests."""

import asyncio
from collections.abc import Callable

import pytest

from gateway.admission import request_bytes
from gateway.admission.accounts import Account
from gateway.admission.limits import AdmissionLimits, LimitKind, LimitReports
from gateway.admission.request_bytes import RequestBytes
from gateway.errors import GatewayError
from workspace.identifiers import Principal

Report = Callable[[AdmissionLimits], LimitReports]
LIMITS = AdmissionLimits(
    max_request_bytes_in_flight=300,
    max_principal_request_bytes_in_flight=200,
    max_message_bytes=100,
    request_timeout=1e9,
)


class Site:
    """Clients that send messages, and the accounts of two principals."""

    def __init__(self, report: Report, limits: AdmissionLimits = LIMITS) -> None:
        self.total = Account(None)
        self.ada, self.bob = Account(Principal("ada")), Account(Principal("bob"))
        self.requests = RequestBytes(limits, self.total, report(limits))

    def send_slowly(self, account: Account | None) -> "tuple[asyncio.Task[bytes], asyncio.Future[bytes]]":
        arrives: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def receive() -> bytes:
            return await arrives

        return asyncio.create_task(self.requests.read(receive, account)), arrives

    def check(self, times: int = request_bytes._SLOW_CHECKS) -> None:
        for _ in range(times):
            self.requests._check()


@pytest.fixture
def site(report: Report, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(request_bytes, "_CHECK_SECONDS", 100.0)  # the tests call the check
    return Site(report)


async def test_slow_message_counts_as_the_largest_until_it_arrives(site: Site) -> None:
    task, arrives = site.send_slowly(site.ada)
    await asyncio.sleep(0)
    site.check(request_bytes._SLOW_CHECKS - 1)
    assert site.total.request_bytes == 0
    site.check(1)
    assert site.total.request_bytes == site.ada.request_bytes == 100
    arrives.set_result(b"short")
    assert await task == b"short"
    assert site.total.request_bytes == site.ada.request_bytes == 0


async def test_oldest_slow_message_of_the_principal_that_uses_most_is_refused(
    site: Site, reached: list[LimitKind]
) -> None:
    oldest, _ = site.send_slowly(site.ada)
    await asyncio.sleep(0)
    site.check(1)
    others = [site.send_slowly(account) for account in (site.ada, site.bob)]
    await asyncio.sleep(0)
    site.check()
    assert site.total.request_bytes == 300
    newest, arrives = site.send_slowly(site.bob)
    await asyncio.sleep(0)
    site.check()
    with pytest.raises(GatewayError, match="bytes in requests"):
        await oldest
    assert reached == [LimitKind.REQUEST_BYTES]
    assert site.total.request_bytes == 300
    for _, future in others:
        future.set_result(b"")
    arrives.set_result(b"new")
    assert await newest == b"new"
    await asyncio.gather(*(task for task, _ in others))
    assert site.total.request_bytes == site.ada.request_bytes == site.bob.request_bytes == 0


async def test_principal_over_its_limit_loses_its_own_message(site: Site, reached: list[LimitKind]) -> None:
    tasks = [site.send_slowly(site.ada) for _ in range(3)]
    await asyncio.sleep(0)
    site.check()
    assert reached == [LimitKind.PRINCIPAL_REQUEST_BYTES]
    assert site.ada.request_bytes == 200
    with pytest.raises(GatewayError, match="max_principal_request_bytes_in_flight"):
        await tasks[0][0]
    for task, arrives in tasks[1:]:
        arrives.set_result(b"")
        await task


async def test_message_that_takes_too_long_is_refused(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_bytes, "_CHECK_SECONDS", 0.01)
    site = Site(report, AdmissionLimits(request_timeout=0.1))
    task, _ = site.send_slowly(None)
    with pytest.raises(GatewayError, match="request_timeout"):
        await asyncio.wait_for(task, 60)
    assert site.total.request_bytes == 0


async def test_client_that_disconnects_is_not_refused(site: Site) -> None:
    task, _ = site.send_slowly(site.ada)
    await asyncio.sleep(0)
    site.check()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert site.total.request_bytes == 0


async def test_arrived_messages_over_the_limit_are_refused(site: Site) -> None:
    site.requests.add(1000, site.ada)  # a single message is always within the limits
    with pytest.raises(GatewayError):
        site.requests.add(1, site.ada)
    with pytest.raises(GatewayError):
        site.requests.add(1, site.bob)
    site.requests.remove(1000, site.ada)
    site.requests.add(150, site.ada)
    with pytest.raises(GatewayError, match="of this principal"):
        site.requests.add(100, site.ada)
    site.requests.add(150, site.bob)
