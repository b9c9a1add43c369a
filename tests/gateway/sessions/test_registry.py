"""The registry of served sessions agrees with the session records."""

import asyncio
import gc
import threading
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from grpc import aio

from gateway.admission.limits import AdmissionLimits
from gateway.admission.session_quota import SessionQuota
from gateway.backends.backends import Backends
from gateway.blocking_work.storage import Storage
from gateway.errors import GatewayError
from gateway.messages.requests import SessionKey
from gateway.sessions.registry import Sessions
from tests.gateway.sessions.lease_clock import LeaseClock
from tests.records import a_record
from workspace.files.leases import FileLeases
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import ClientSessionId, Principal, ReplicaId, SessionUuid
from workspace.record_changes import add_holder, mark_ending, remove_holders, update_record
from workspace.record_store import RecordConflictError, RecordsUnavailableError
from workspace.records import Phase
from workspace.session_end import end_session

LEASE_SECONDS = 600.0
DEADLINE_SECONDS = 60.0
OWN = ReplicaId("r1")


class FaultyRecords(FileSessionRecords):
    """Real records whose changes can fail, wait, or take effect without an answer.

    Attributes:
        reads: How often a record was read.
    """

    reads = 0
    is_unavailable = False
    loses_answers = False
    gate: threading.Event | None = None

    def read(self, name: Any) -> Any:
        found = super().read(name)
        self.reads += 1
        return found

    def create(self, record: Any) -> Any:
        return self._answer(super().create, record)

    def replace(self, record: Any, version: Any) -> Any:
        return self._answer(super().replace, record, version)

    def _answer(self, change: Callable[..., Any], *arguments: Any) -> Any:
        if self.gate is not None:
            assert self.gate.wait(DEADLINE_SECONDS)
        if self.is_unavailable:
            raise RecordsUnavailableError(None, "The storage is unavailable.")
        changed = change(*arguments)
        if self.loses_answers:
            raise RecordsUnavailableError(None, "The answer was lost.")
        return changed


class IdleBackend(grpc.GenericRpcHandler):
    """A backend on which no session has a running operation.

    Attributes:
        calls: The methods that were called.
        is_unreachable: Whether it answers all calls like a connection that fails.
        may_answer: Set when it answers.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.is_unreachable = False
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    def service(self, handler_call_details: Any) -> Any:
        self.calls.append(handler_call_details.method.rpartition("/")[2])

        async def answer(request: bytes, context: Any) -> bytes:
            await self.may_answer.wait()
            if self.is_unreachable:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "Connection refused")
            return b""

        return grpc.unary_unary_rpc_method_handler(answer)


@dataclass
class Replica:
    sessions: Sessions
    records: FaultyRecords
    locations: FileSessionLocations
    backend: IdleBackend
    clock: LeaseClock

    def lapse(self) -> None:
        """Let the lease lapse, which nothing renews here."""
        self.clock.seconds += LEASE_SECONDS

    def holders(self) -> list[set[str]]:
        return [set(stored.record.holders) for stored in self.records.list()]


@pytest_asyncio.fixture
async def replica(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Replica]:
    """A replica. The parameter, if any, is the idle timeout of its sessions in seconds."""
    clock = LeaseClock(monkeypatch)
    locations = FileSessionLocations(tmp_path)
    locations.initialise()
    records = FaultyRecords(tmp_path)
    storage = Storage(records, FileLeases(tmp_path), locations)
    server = aio.server()
    backend = IdleBackend()
    server.add_generic_rpc_handlers((backend,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    backends = Backends([f"sc://127.0.0.1:{port}"])
    sessions = Sessions(
        replica=OWN,
        storage=storage,
        backends=backends,
        idle_timeout_seconds=getattr(request, "param", 0.0),
        lease_duration_seconds=LEASE_SECONDS,
    )
    await sessions.renew_lease()
    yield Replica(sessions, records, locations, backend, clock)
    await sessions.leave_all(end=False)
    await backends.close()
    await server.stop(None)
    await storage.close()


def new_key() -> SessionKey:
    return SessionKey(Principal("ada"), ClientSessionId(str(uuid.uuid4())))


async def renew_until(replica: Replica, condition: Callable[[], bool], what: str) -> None:
    """Renew the lease until the condition holds."""
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not condition():
                await replica.sessions.renew_lease()
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"Not within {DEADLINE_SECONDS} s: {what}") from None


async def let_tasks_run() -> None:
    """Let each task run until it waits for another task, or for a storage that waits."""
    for _ in range(10):
        await asyncio.to_thread(int)
        await asyncio.sleep(0)


def may_act(replica: Replica, session: Any) -> bool:
    try:
        replica.sessions.lease.require_joined(session)
    except GatewayError as error:
        assert error.condition == "LODGE_LEASE_LOST"
        return False
    return True


async def test_guarantee_4_acting_on_a_record_from_before_a_lapse_conflicts(replica: Replica) -> None:
    session = await replica.sessions.open(new_key())
    [before] = replica.records.list()
    replica.lapse()
    await renew_until(replica, lambda: may_act(replica, session), "the session is joined again")
    with pytest.raises(RecordConflictError):
        end_session(replica.records, replica.locations, before)
    assert replica.sessions.find(session.key) is session


async def test_guarantee_4_session_is_fenced_until_it_is_joined_again(replica: Replica) -> None:
    session = await replica.sessions.open(new_key())
    replica.lapse()
    assert not may_act(replica, session)
    replica.records.is_unavailable = True
    await replica.sessions.renew_lease()
    await replica.sessions.renew_lease()
    assert not may_act(replica, session)
    replica.records.is_unavailable = False
    await renew_until(replica, lambda: may_act(replica, session), "the session is joined again")
    [stored] = replica.records.list()
    assert stored.record.holders == {OWN}


async def test_rejoin_leaves_a_later_session_of_the_same_name_alone(replica: Replica) -> None:
    session = await replica.sessions.open(new_key())
    [before] = replica.records.list()
    replica.lapse()
    end_session(replica.records, replica.locations, before)
    later = replace(before.record, session_uuid=SessionUuid(str(uuid.uuid4())), holders=frozenset({ReplicaId("r2")}))
    stored = replica.records.create(later)
    await renew_until(replica, lambda: replica.sessions.find(session.key) is None, "the session is no longer served")
    assert replica.records.read(later.name) == stored


async def test_lapse_during_a_renewal_is_noticed(replica: Replica, monkeypatch: Any) -> None:
    session = await replica.sessions.open(new_key())
    renew = FileLeases.renew

    def renew_slowly(leases: FileLeases, name: ReplicaId) -> None:
        replica.lapse()
        renew(leases, name)

    monkeypatch.setattr(FileLeases, "renew", renew_slowly)
    await replica.sessions.renew_lease()
    update_record(replica.records, session.record_name, lambda record: remove_holders(record, {OWN}))
    monkeypatch.setattr(FileLeases, "renew", renew)
    await renew_until(replica, lambda: replica.holders() == [{OWN}], "the session is joined again")


@pytest.mark.parametrize("is_renewed", [False, True])
async def test_session_is_not_ended_after_a_lapse(replica: Replica, monkeypatch: Any, is_renewed: bool) -> None:
    session = await replica.sessions.open(new_key())
    read, loop = replica.records.read, asyncio.get_running_loop()

    def read_slowly(name: Any) -> Any:
        found = read(name)
        replica.lapse()
        if is_renewed:
            asyncio.run_coroutine_threadsafe(replica.sessions.renew_lease(), loop).result(DEADLINE_SECONDS)
        return found

    monkeypatch.setattr(replica.records, "read", read_slowly)
    with pytest.raises(GatewayError, match="LODGE_LEASE_LOST"):
        await replica.sessions.ends.end(session, reason="closed at the backend")
    [stored] = replica.records.list()
    assert (stored.record.phase, stored.record.holders) == (Phase.ACTIVE, {OWN})


async def test_guarantee_6_opening_waits_until_the_session_is_left(replica: Replica) -> None:
    session = await replica.sessions.open(new_key())
    replica.records.gate = threading.Event()
    leaving = asyncio.create_task(replica.sessions.idle.end())
    while replica.sessions.find(session.key) is not None:  # noqa: ASYNC110 - another task stops serving it
        await asyncio.sleep(0.01)
    opening = asyncio.create_task(replica.sessions.open(session.key))
    await let_tasks_run()  # the opening has started, and must wait
    replica.records.gate.set()
    await leaving
    opened = await opening
    [stored] = replica.records.list()
    assert (stored.record.session_uuid, stored.record.holders) == (opened.uuid, {OWN})


async def test_late_request_does_not_start_an_ending_session_again(replica: Replica) -> None:
    session = await replica.sessions.open(new_key())
    replica.records.gate = threading.Event()
    ending = asyncio.create_task(replica.sessions.ends.end(session, reason="released by the client"))
    while replica.sessions.find(session.key) is not None:  # noqa: ASYNC110 - another task stops serving it
        await asyncio.sleep(0.01)
    reads = replica.records.reads
    late = asyncio.create_task(replica.sessions.open_existing(session.key))
    while replica.records.reads == reads:  # noqa: ASYNC110 - a thread reads the record, which is still active
        await asyncio.sleep(0.01)
    await let_tasks_run()  # the late request must wait
    replica.records.gate.set()
    await ending
    assert await late is None
    assert not replica.records.list()
    assert (await replica.sessions.open(session.key)).uuid != session.uuid, "only a new request may start it again"


@pytest.mark.parametrize("replica", [3600.0], indirect=True)
async def test_sessions_of_unreachable_backend_end_after_second_idle_timeout(replica: Replica) -> None:
    sessions = [await replica.sessions.open(new_key()) for _ in range(40)]
    replica.backend.is_unreachable = True
    for session in sessions:
        session.last_active_seconds -= 3600.0
    await replica.sessions.idle.end()
    assert len(replica.sessions.all()) == 40, "they may have running operations"
    assert replica.backend.calls.count("GetStatus") < 40, "one check shows that the backend does not respond"
    for session in sessions:
        session.last_active_seconds -= 3600.0
    await replica.sessions.idle.end()
    assert not replica.sessions.all()
    assert not replica.records.list()


async def test_end_of_idle_sessions_does_not_wait_for_a_slow_backend(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.sessions.idle_sessions._PASS_SECONDS", 0.1)
    await replica.sessions.open(new_key())
    replica.backend.may_answer.clear()
    for _ in range(2):
        async with asyncio.timeout(5):
            await replica.sessions.idle.end()
    assert replica.backend.calls == ["GetStatus"], "the first check continues"
    replica.backend.may_answer.set()
    async with asyncio.timeout(DEADLINE_SECONDS):
        while replica.records.list():  # noqa: ASYNC110 - the check ends the session in the background
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("loses_answers", [False, True])
async def test_guarantee_6_failed_leave_is_retried(replica: Replica, loses_answers: bool) -> None:
    await replica.sessions.open(new_key())
    replica.records.is_unavailable, replica.records.loses_answers = not loses_answers, loses_answers
    await replica.sessions.idle.end()
    replica.records.is_unavailable = replica.records.loses_answers = False
    await renew_until(replica, lambda: replica.holders() in ([], [set()]), "the record no longer names this replica")


async def test_failed_open_whose_caller_was_cancelled_is_not_logged(replica: Replica) -> None:
    reported: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    replica.records.is_unavailable, replica.records.gate = True, threading.Event()
    tasks_before = asyncio.all_tasks()
    caller = asyncio.create_task(replica.sessions.open(new_key()))
    await let_tasks_run()  # the opening has started, and waits
    caller.cancel()
    await asyncio.wait([caller])
    [opening] = asyncio.all_tasks() - tasks_before
    replica.records.gate.set()
    await asyncio.wait([opening])
    del caller, opening  # the error is logged when the last reference is gone
    gc.collect()
    assert not reported


async def test_open_reports_an_ending_session_as_closed(replica: Replica) -> None:
    key = new_key()
    record = a_record(principal=key.principal, client_session_id=key.client_session_id)
    ending = replica.records.create(mark_ending(record))
    with pytest.raises(GatewayError, match="SESSION_CLOSED"):
        await replica.sessions.open(key)
    assert replica.records.list() == [ending], "the process that ends it deletes its record"


async def test_guarantee_6_failed_end_is_retried(replica: Replica) -> None:
    session = await replica.sessions.open(new_key())
    await replica.sessions.locations.create(session)
    replica.records.is_unavailable = True
    with pytest.raises(GatewayError):
        await replica.sessions.ends.end(session, reason="released by the client")
    replica.records.is_unavailable = False
    await renew_until(replica, lambda: not replica.records.list(), "the session has ended")
    assert not replica.locations.list()


async def test_guarantee_6_failed_open_does_not_replace_a_failed_end(replica: Replica) -> None:
    session = await replica.sessions.open(new_key())
    replica.records.is_unavailable = True
    with pytest.raises(GatewayError):
        await replica.sessions.ends.end(session, reason="released by the client")
    with pytest.raises(GatewayError):
        await replica.sessions.open(session.key)
    replica.records.is_unavailable = False
    await renew_until(replica, lambda: replica.holders() != [{OWN}], "the record no longer names this replica")
    assert not replica.records.list(), "the session has ended"


async def test_guarantee_6_failed_open_of_a_later_session_is_undone_after_a_failed_end(replica: Replica) -> None:
    session = await replica.sessions.open(new_key())
    replica.records.loses_answers = True
    with pytest.raises(GatewayError):
        await replica.sessions.ends.end(session, reason="released by the client")
    end_session(replica.records, replica.locations, replica.records.read(session.record_name))
    with pytest.raises(GatewayError):
        await replica.sessions.open(session.key)
    [later] = replica.records.list()
    assert later.record.session_uuid != session.uuid
    replica.records.loses_answers = False
    await renew_until(replica, lambda: replica.holders() == [set()], "the record no longer names this replica")


async def test_retried_end_leaves_a_session_that_another_replica_adopted(replica: Replica) -> None:
    session = await replica.sessions.open(new_key())
    replica.records.is_unavailable = True
    with pytest.raises(GatewayError):
        await replica.sessions.ends.end(session, reason="closed at the backend")
    replica.records.is_unavailable = False
    other = ReplicaId("r2")
    update_record(replica.records, session.record_name, lambda record: add_holder(record, other))
    await renew_until(replica, lambda: replica.holders() == [{other}], "this replica leaves it")


async def test_guarantee_6_failed_open_is_undone_unless_the_client_returns(replica: Replica) -> None:
    gone, back = new_key(), new_key()
    replica.records.loses_answers = True
    for key in (gone, back):
        with pytest.raises(GatewayError):
            await replica.sessions.open(key)
    replica.records.loses_answers = False
    session = await replica.sessions.open(back)
    await renew_until(
        replica, lambda: sorted(replica.holders(), key=len) == [set(), {OWN}], "one is served, the other left"
    )
    assert replica.sessions.find(back) is session
    assert replica.records.read(session.record_name).record.holders == {OWN}


async def test_discarded_session_is_released_although_its_record_is_gone(replica: Replica) -> None:
    parent = await replica.sessions.open(new_key())
    clone = await replica.sessions.open_clone(new_key(), parent)
    [record] = [each for each in replica.records.list() if each.record.session_uuid == clone.uuid]
    replica.records.delete(record.record.name, record.version)
    await replica.sessions.ends.discard(clone, reason="incomplete")
    assert replica.backend.calls == ["ReleaseSession"]
    assert replica.sessions.all() == [parent]


async def test_clones_at_the_same_time_do_not_exceed_the_quota(replica: Replica) -> None:
    replica.sessions._served.quota = SessionQuota(AdmissionLimits(max_principal_sessions=2))
    parent = await replica.sessions.open(new_key())

    async def clone() -> None:
        key = SessionKey(parent.key.principal, new_key().client_session_id)
        with replica.sessions.reserve_room(key.principal):
            await asyncio.sleep(0)  # the request to the backend
            await replica.sessions.open_clone(key, parent)

    results = await asyncio.gather(*(clone() for _ in range(5)), return_exceptions=True)
    assert len([each for each in results if isinstance(each, GatewayError)]) == 4
    assert len(replica.sessions.all()) == 2


async def test_clone_that_cannot_be_opened_is_released(replica: Replica) -> None:
    parent = await replica.sessions.open(new_key())
    replica.records.is_unavailable = True
    with pytest.raises(GatewayError, match="LODGE_STORAGE_UNAVAILABLE"):
        await replica.sessions.open_clone(new_key(), parent)
    assert replica.backend.calls == ["ReleaseSession"]
    replica.records.is_unavailable = False
