"""Limits of calls and statements."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import grpc
import pytest
from grpc import aio

from gateway.admission import admission as module
from gateway.admission.admission import Admission
from gateway.admission.limits import AdmissionLimits, LimitKind
from gateway.errors import GatewayError
from tests.gateway.admission.conftest import FakeContext
from workspace.identifiers import Principal

ADA, BOB = Principal("ada"), Principal("bob")


@pytest.fixture
def admit(reached: list[LimitKind], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Admission]:
    monkeypatch.setattr(module, "_REFUSAL_DELAY_SECONDS", 0.01)
    return lambda **limits: Admission(AdmissionLimits(**limits), reached.append)


Make = Callable[..., Admission]


async def open_call(admission: Admission, principal: Principal | None = ADA, context: Any = None) -> Any:
    call = admission.admit(context or FakeContext(), "ExecutePlan", principal)
    await call.__aenter__()
    return call


async def test_calls_of_a_principal_are_limited(admit: Make, reached: list[LimitKind]) -> None:
    admission = admit(max_principal_requests_in_flight=2)
    calls = [await open_call(admission) for _ in range(2)]
    with pytest.raises(GatewayError, match="max_principal_requests_in_flight") as refused:
        await open_call(admission)
    assert refused.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    other = await open_call(admission, BOB)
    await calls[0].__aexit__(None, None, None)
    await open_call(admission)
    assert admission.accounts.total.requests == 3
    assert reached == [LimitKind.PRINCIPAL_REQUESTS]
    await other.__aexit__(None, None, None)


async def test_total_limit_holds_for_made_up_principals(admit: Make) -> None:
    admission = admit(max_requests_in_flight=3)
    for number in range(3):
        await open_call(admission, Principal(f"principal {number}"))
    with pytest.raises(GatewayError, match="max_requests_in_flight"):
        await open_call(admission)
    assert len(admission.accounts) == 3


async def test_ended_calls_leave_nothing(admit: Make) -> None:
    admission = admit()
    for number in range(100):
        async with admission.admit(FakeContext([b"request"]), "Config", None) as call:
            await call.read()
            await call.claim(Principal(f"principal {number}"))
            call.start_statement()
            assert admission.accounts.total.request_bytes == 7
    total = admission.accounts.total
    assert (total.requests, total.statements, total.request_bytes, total.response_bytes) == (0, 0, 0, 0)
    assert len(admission.accounts) == 0


async def test_client_is_busy_until_its_call_has_ended(admit: Make) -> None:
    admission, context = admit(), FakeContext()
    async with admission.admit(context, "Config", ADA):
        assert admission.busy_peers == {context.address}
    assert admission.busy_peers == {context.address}, "the status of the call has not been sent"
    context.end()
    assert admission.busy_peers == set()


async def test_call_over_the_rate_waits_for_the_next_second(admit: Make, reached: list[LimitKind]) -> None:
    admission = admit(principal_requests_per_second=5)
    begun = asyncio.get_running_loop().time()
    for _ in range(7):
        async with admission.admit(FakeContext(), "Config", ADA):
            pass
    assert 0.5 < asyncio.get_running_loop().time() - begun < 10
    assert set(reached) == {LimitKind.PRINCIPAL_REQUEST_RATE}


async def test_calls_over_the_rate_of_the_next_second_are_refused(admit: Make) -> None:
    admission = admit(principal_requests_per_second=2)
    results = await asyncio.gather(*(open_call(admission) for _ in range(8)), return_exceptions=True)
    refused = [result for result in results if isinstance(result, GatewayError)]
    assert len(refused) == 4
    assert admission.accounts.total.requests == 4


async def test_statements_are_limited_until_they_end(admit: Make) -> None:
    admission = admit(max_principal_statements=1)
    call = await open_call(admission)
    call.start_statement()
    end = call.keep_statement()
    await call.__aexit__(None, None, None)
    second = await open_call(admission)
    with pytest.raises(GatewayError, match="max_principal_statements"):
        second.start_statement()
    second.follow_statement()  # a client that reattaches is never refused
    await second.__aexit__(None, None, None)
    end()
    third = await open_call(admission)
    third.start_statement()
    with pytest.raises(GatewayError):
        third.start_statement()


async def test_all_statements_are_limited(admit: Make) -> None:
    admission = admit(max_statements=2)
    for principal in (ADA, BOB):
        (await open_call(admission, principal)).start_statement()
    with pytest.raises(GatewayError, match="max_statements"):
        (await open_call(admission, Principal("carol"))).start_statement()


async def test_message_counts_until_the_next_is_read(admit: Make) -> None:
    admission = admit()
    async with admission.admit(FakeContext([b"first", b"second"]), "AddArtifacts", ADA) as call:
        assert await call.read() == b"first"
        assert admission.accounts.total.request_bytes == 5
        assert await call.read() == b"second"
        assert admission.accounts.total.request_bytes == 6


async def test_admitted_call_has_the_methods_of_the_context(admit: Make) -> None:
    async with admit().admit(FakeContext(), "Config", ADA) as call:
        assert call.peer() == "ipv4:192.0.2.1:50000"


async def test_failed_logins_are_delayed_by_address(admit: Make, reached: list[LimitKind]) -> None:
    admission = admit(failed_logins_per_minute=2)
    for port in range(3):
        assert reached == []
        await admission.delay_failed_login(f"ipv4:192.0.2.1:{port}")
    assert reached == [LimitKind.FAILED_LOGINS]
    await admission.delay_failed_login("ipv4:192.0.2.2:99")
    assert len(reached) == 1


async def test_logins_after_many_failures_leave_room_for_other_addresses(admit: Make, reached: list[LimitKind]) -> None:
    admission = admit(failed_logins_per_minute=2)
    for port in range(3):
        await admission.delay_failed_login(f"ipv6:%5B2001:db8::{port}%5D:1")
    running, most_running, two_run, release = 0, 0, asyncio.Event(), asyncio.Event()

    async def log_in(peer: str) -> None:
        nonlocal running, most_running
        async with admission.limit_login(peer):
            running += 1
            most_running = max(running, most_running)
            if running == 2:
                two_run.set()
            await release.wait()
            running -= 1

    attacks = [asyncio.create_task(log_in(f"ipv6:%5B2001:db8::{port}%5D:1")) for port in range(70)]
    await asyncio.wait_for(two_run.wait(), 60)
    others = [asyncio.create_task(log_in(f"ipv4:192.0.2.{host}:1")) for host in range(5)]
    await asyncio.sleep(0)
    assert running == 7
    release.set()
    await asyncio.gather(*others)
    results = await asyncio.gather(*attacks, return_exceptions=True)
    refused = [each for each in results if isinstance(each, GatewayError)]
    assert {each.condition for each in refused} == {"LODGE_LIMIT_EXCEEDED"}
    assert len(refused) == 6
    assert most_running == 7


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, "OK"),
        (GatewayError("LODGE_X", "58000", "text"), "INTERNAL"),
        (asyncio.CancelledError(), "CANCELLED"),
        (ValueError(), "INTERNAL"),
        (aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, aio.Metadata(), aio.Metadata()), "UNAVAILABLE"),
    ],
)
async def test_ended_calls_are_counted_by_status(error: BaseException | None, code: str) -> None:
    counted: list[tuple[str, str]] = []
    admission = Admission(count_call=lambda method, status: counted.append((method, status)))
    with pytest.raises(type(error)) if error is not None else nullcontext():
        async with admission.admit(FakeContext(), "Config", ADA):
            if error is not None:
                raise error
    assert counted == [("Config", code)]
