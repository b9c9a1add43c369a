"""The choice of a backend for a session (guarantees: gateway.backends.backends.Backends)."""

import gc
import uuid
import weakref
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gateway.backends.backends import Backend, Backends
from gateway.connections.backend_address import BackendAddressError
from workspace.identifiers import ClientSessionId, Principal, SessionUuid
from workspace.records import Phase, SessionRecord

ADA, BOB, EVE = Principal("ada"), Principal("bob"), Principal("eve")
SHARED = ("sc://shared:1", "sc://shared:2")
OWN = {ADA: "sc://ada:1", BOB: "sc://bob:1"}


@pytest_asyncio.fixture
async def backends() -> AsyncIterator[Backends]:
    made = Backends(SHARED, OWN)
    yield made
    await made.close()


@pytest_asyncio.fixture
async def own_only() -> AsyncIterator[Backends]:
    made = Backends(SHARED, OWN, own_only=True)
    yield made
    await made.close()


def a_record(principal: Principal, backend: str = "") -> SessionRecord:
    session = str(uuid.uuid4())
    return SessionRecord(SessionUuid(session), principal, ClientSessionId(session), backend, Phase.ACTIVE, "")


def address(backend: Backend | None) -> str | None:
    return None if backend is None else backend.address


async def test_guarantee_1_principal_gets_its_own_backend_or_a_shared_one(backends: Backends) -> None:
    for _ in range(20):
        assert address(backends.choose(a_record(ADA).name, ADA)) == "sc://ada:1"
    assert {address(backends.choose(a_record(EVE).name, EVE)) for _ in range(100)} == set(SHARED)


async def test_session_keeps_its_backend_while_it_is_configured(backends: Backends) -> None:
    assert address(backends.find(a_record(ADA, "sc://shared:1"))) == "sc://shared:1"
    assert backends.find(a_record(ADA, "sc://gone:1")) is None


async def test_guarantee_2_own_only_gives_no_principal_another_backend(own_only: Backends) -> None:
    assert address(own_only.choose(a_record(BOB).name, BOB)) == "sc://bob:1"
    assert own_only.choose(a_record(EVE).name, EVE) is None
    assert address(own_only.find(a_record(BOB, "sc://bob:1"))) == "sc://bob:1"
    for principal in (BOB, EVE):
        for recorded in (*SHARED, "sc://ada:1"):
            assert own_only.find(a_record(principal, recorded)) is None


async def test_choose_returns_none_without_backends() -> None:
    assert Backends(()).choose(a_record(EVE).name, EVE) is None


async def test_bad_address_is_refused() -> None:
    with pytest.raises(BackendAddressError):
        Backends((), {ADA: "http://ada:1"})


async def test_unknown_methods_do_not_stay_in_memory(backends: Backends) -> None:
    backend = backends.choose(a_record(EVE).name, EVE)
    assert backend is not None
    first = weakref.ref(backend.stream("/Service/First"))
    for number in range(1000):
        backend.stream(f"/Service/Method{number}")
    gc.collect()
    assert first() is None
