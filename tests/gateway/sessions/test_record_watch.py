"""The watch of session records by a replica (gateway.sessions.record_watch)."""

import asyncio
import contextlib
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
import structlog
from grpc import aio
from pyspark.sql.connect.proto import base_pb2

from gateway.backends.backends import Backends
from gateway.blocking_work.storage import Storage
from gateway.messages.requests import SessionKey
from gateway.sessions.adopter import Adopter
from gateway.sessions.adoption import rank
from gateway.sessions.record_watch import RecordWatch
from gateway.sessions.registry import Sessions
from gateway.sessions.session import Session
from tests.records import a_record
from workspace.files.leases import FileLeases
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import ClientSessionId, Principal, ReplicaId
from workspace.record_changes import add_holder, add_suspect, mark_ending, remove_holders, update_record
from workspace.record_store import RecordsEvent
from workspace.records import Refusal, SessionRecord, SuspectedRequest
from workspace.session_end import end_session

DEADLINE_SECONDS = 60.0


class ReleasingBackend(grpc.GenericRpcHandler):
    """A Spark Connect server that only releases sessions."""

    def __init__(self) -> None:
        self.released: list[str] = []

    def service(self, handler_call_details: Any) -> Any:
        async def release(request: bytes, _: Any) -> bytes:
            self.released.append(base_pb2.ReleaseSessionRequest.FromString(request).session_id)
            return base_pb2.ReleaseSessionResponse().SerializeToString()

        is_known = handler_call_details.method.endswith("/ReleaseSession")
        return grpc.unary_unary_rpc_method_handler(release) if is_known else None


@dataclass
class Replica:
    sessions: Sessions
    storage: Storage
    records: FileSessionRecords
    locations: FileSessionLocations
    backend: ReleasingBackend
    operations_ended: list[Session] = field(default_factory=list)


@pytest_asyncio.fixture
async def unwatching(tmp_path: Path) -> AsyncIterator[Replica]:
    """A replica that does not watch records."""
    backend = ReleasingBackend()
    server = aio.server()
    server.add_generic_rpc_handlers((backend,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    locations = FileSessionLocations(tmp_path)
    locations.initialise()
    records = FileSessionRecords(tmp_path, poll_seconds=0.05)
    storage = Storage(records, FileLeases(tmp_path), locations)
    backends = Backends([f"sc://127.0.0.1:{port}"])
    sessions = Sessions(
        replica=ReplicaId("r1"),
        storage=storage,
        backends=backends,
        idle_timeout_seconds=60,
        lease_duration_seconds=60,
    )
    await sessions.renew_lease()
    yield Replica(sessions, storage, records, locations, backend)
    await backends.close()
    await server.stop(None)
    await storage.close()


@pytest_asyncio.fixture
async def replica(unwatching: Replica) -> AsyncIterator[Replica]:
    """A replica that watches records."""
    async with watching(unwatching):
        yield unwatching


@contextlib.asynccontextmanager
async def watching(replica: Replica, *, patience_seconds: float = 60.0, adopts: bool = True) -> AsyncIterator[Adopter]:
    async def end_operations(session: Session) -> None:
        replica.operations_ended.append(session)

    adopter = Adopter(
        replica.sessions, replica.storage, lambda session, stored: None, patience_seconds=patience_seconds
    )
    watch = RecordWatch(replica.sessions, replica.records, end_operations, adopter if adopts else None)
    tasks = [asyncio.create_task(each) for each in ([watch.run(), adopter._adopt_left()] if adopts else [watch.run()])]
    yield adopter
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def open_session(replica: Replica) -> Session:
    return await replica.sessions.open(SessionKey(Principal("ada"), ClientSessionId(str(uuid.uuid4()))))


async def let_the_watch_catch_up(replica: Replica) -> None:
    """Return once the watch has seen the records as they are now."""
    marker = await open_session(replica)
    update_record(replica.records, marker.record_name, mark_ending)
    await until(lambda: replica.sessions.find(marker.key) is None, "the watch ends the marker")


async def until(condition: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not condition():  # noqa: ASYNC110 - no event says that a file changed
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"Not within {DEADLINE_SECONDS} s: {what}") from None


async def test_ending_record_ends_the_session_at_its_backend_too(replica: Replica) -> None:
    session = await open_session(replica)
    other = await open_session(replica)
    await replica.sessions.locations.create(session)
    update_record(replica.records, session.record_name, mark_ending)
    await until(lambda: replica.sessions.find(session.key) is None, "the session is no longer served")
    await until(lambda: not replica.locations.list(), "its location is deleted")
    await until(lambda: len(replica.records.list()) == 1, "its record is deleted")
    assert replica.backend.released == [session.key.client_session_id]
    assert replica.operations_ended == [session]
    assert replica.sessions.find(other.key) is other


async def test_session_that_ended_elsewhere_is_forgotten_without_a_backend_call(replica: Replica) -> None:
    session = await open_session(replica)
    await let_the_watch_catch_up(replica)
    end_session(replica.records, replica.locations, replica.records.read(session.record_name))
    await until(lambda: replica.sessions.find(session.key) is None, "the session is no longer served")
    assert replica.operations_ended[-1] is session
    again = await replica.sessions.open(session.key)
    assert again.uuid != session.uuid
    assert replica.sessions.find_by_record(session.record_name) is again
    assert session.key.client_session_id not in replica.backend.released


async def test_changed_record_does_not_end_the_session(replica: Replica) -> None:
    session = await open_session(replica)
    await let_the_watch_catch_up(replica)
    update_record(replica.records, session.record_name, lambda record: add_holder(record, ReplicaId("r2")))
    update_record(replica.records, session.record_name, lambda record: remove_holders(record, {ReplicaId("r2")}))
    await let_the_watch_catch_up(replica)
    assert replica.sessions.find(session.key) is session
    assert session not in replica.operations_ended


@pytest.mark.parametrize("others", [(), ("r2",), ("r2", "r3")])
async def test_replica_that_was_taken_for_lost_joins_its_sessions_again(
    replica: Replica, others: Sequence[str]
) -> None:
    """Another process removed it from the holders, for example because the machine was suspended."""
    session = await open_session(replica)
    await let_the_watch_catch_up(replica)
    own, theirs = ReplicaId("r1"), {ReplicaId(name) for name in others}
    update_record(replica.records, session.record_name, lambda record: replace(record, holders=frozenset(theirs)))

    def holders() -> Set[ReplicaId]:
        return replica.records.read(session.record_name).record.holders

    await until(lambda: holders() == {own, *theirs}, "the replica is a holder again")
    await replica.sessions.joins.ensure_joined(session)
    assert replica.sessions.find(session.key) is session
    assert session not in replica.operations_ended


async def test_replica_that_was_taken_for_lost_before_a_list_joins_again(unwatching: Replica) -> None:
    session = await open_session(unwatching)
    others = frozenset({ReplicaId("r2"), ReplicaId("r3")})
    update_record(unwatching.records, session.record_name, lambda record: replace(record, holders=others))
    async with watching(unwatching):
        await until(
            lambda: "r1" in unwatching.records.read(session.record_name).record.holders, "the replica joins again"
        )


async def test_suspects_that_another_replica_records_are_known(replica: Replica) -> None:
    session = await open_session(replica)
    await let_the_watch_catch_up(replica)
    suspect = SuspectedRequest("operation", "digest", 1, Refusal.REQUEST, "loss")
    update_record(replica.records, session.record_name, lambda record: add_suspect(record, suspect))
    await let_the_watch_catch_up(replica)
    assert session.suspects == (suspect,)


async def test_suspects_of_a_session_that_is_being_opened_are_known(replica: Replica) -> None:
    served = await open_session(replica)
    suspect = SuspectedRequest("operation", "digest", 1, Refusal.REQUEST, "loss")
    record = a_record(holders=frozenset({ReplicaId("r1")}), backend=served.backend.address, suspects=(suspect,))
    replica.records.create(record)
    await let_the_watch_catch_up(replica)
    key = SessionKey(record.principal, record.client_session_id)
    session = replica.sessions._served.add(Session(key, record.session_uuid, served.backend, 1))
    deadline = asyncio.get_running_loop().time() + DEADLINE_SECONDS
    while session.suspects != (suspect,):
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.05)


async def create_left_session(replica: Replica) -> SessionRecord:
    """Create the record of a session that its replica has left."""
    backend = (await open_session(replica)).backend
    return replica.records.create(a_record(backend=backend.address)).record


async def test_session_without_holders_is_adopted_on_its_backend(replica: Replica) -> None:
    record = await create_left_session(replica)
    await until(lambda: replica.sessions.find_by_record(record.name) is not None, "the session is adopted")
    adopted = replica.sessions.find_by_record(record.name)
    assert adopted is not None
    assert (adopted.uuid, adopted.backend.address) == (record.session_uuid, record.backend)
    assert replica.records.read(record.name).record.holders == {ReplicaId("r1")}


async def test_session_of_another_replica_is_not_adopted(replica: Replica) -> None:
    other = replica.records.create(a_record(holders=frozenset({ReplicaId("r2")})))
    await let_the_watch_catch_up(replica)
    assert replica.sessions.find_by_record(other.record.name) is None
    assert replica.records.read(other.record.name) == other


async def test_watch_without_adoption_only_ends_sessions(unwatching: Replica) -> None:
    record = await create_left_session(unwatching)
    async with watching(unwatching, adopts=False):
        await let_the_watch_catch_up(unwatching)
    assert unwatching.sessions.find_by_record(record.name) is None
    assert unwatching.records.read(record.name).record.holders == frozenset()


async def test_session_that_another_replica_adopts_first_is_withdrawn(unwatching: Replica) -> None:
    record = await create_left_session(unwatching)
    unwatching.sessions.peers.living |= {ReplicaId("r2")}
    while rank(record.name, unwatching.sessions.peers.living)[0] == unwatching.sessions.replica:
        unwatching.records.delete(record.name, unwatching.records.read(record.name).version)
        record = replace(record, client_session_id=ClientSessionId(str(uuid.uuid4())))
        unwatching.records.create(record)
    async with watching(unwatching, patience_seconds=1e6) as adopter:
        await until(lambda: record.name in adopter.left, "the watch sees that nobody serves the session")
        update_record(unwatching.records, record.name, lambda record: add_holder(record, ReplicaId("r2")))
        await until(lambda: not adopter.left, "the watch sees that another replica serves the session")
    assert unwatching.sessions.find_by_record(record.name) is None
    assert unwatching.records.read(record.name).record.holders == {ReplicaId("r2")}


async def test_guarantee_2_failed_watch_is_restarted(unwatching: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workspace.watch_loop._PAUSE_SECONDS", 0.05)
    watch, failures = unwatching.records.watch, iter([KeyError("items"), AttributeError("metadata")])

    def watch_at_last(stop: threading.Event, replica: ReplicaId | None) -> Iterator[RecordsEvent]:
        if (failure := next(failures, None)) is not None:
            raise failure
        yield from watch(stop, replica)

    monkeypatch.setattr(unwatching.records, "watch", watch_at_last)
    session = await open_session(unwatching)
    with structlog.testing.capture_logs() as logs:
        async with watching(unwatching):
            update_record(unwatching.records, session.record_name, mark_ending)
            await until(lambda: unwatching.sessions.find(session.key) is None, "the session is no longer served")
    events = [line["event"] for line in logs]
    assert events.count("record_watch_failed") == 2
    assert events.count("record_watch_interrupted") == 1, "two failures are one interruption"


async def test_guarantee_2_thread_that_does_not_start_is_started_again(
    unwatching: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.sessions.record_watch._RETRY_SECONDS", 0.01)
    start, failures = threading.Thread.start, iter([RuntimeError("can't start new thread"), MemoryError()])

    def start_at_last(thread: threading.Thread) -> None:
        if thread.name == "record-watch" and (failure := next(failures, None)) is not None:
            raise failure
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_at_last)
    session = await open_session(unwatching)
    with structlog.testing.capture_logs() as logs:
        async with watching(unwatching):
            update_record(unwatching.records, session.record_name, mark_ending)
            await until(lambda: unwatching.sessions.find(session.key) is None, "the session is no longer served")
    assert [line["event"] for line in logs].count("record_watch_failed") == 2


async def test_guarantee_2_interrupted_watch_ends_no_session(replica: Replica, tmp_path: Path) -> None:
    session = await open_session(replica)
    records = tmp_path / ".lodge" / "sessions"
    with structlog.testing.capture_logs() as logs:
        away = records.rename(records.with_name("sessions.away"))
        await until(lambda: "record_watch_interrupted" in [line["event"] for line in logs], "the watch is interrupted")
        away.rename(records)
    await let_the_watch_catch_up(replica)
    assert replica.sessions.find(session.key) is session
