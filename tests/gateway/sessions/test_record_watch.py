"""A session that is over elsewhere is given up by the replica that holds it, and one that was left is taken up
(gateway.sessions.record_watch)."""

import asyncio
import contextlib
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
import structlog
from grpc import aio
from pyspark.sql.connect.proto import base_pb2

from gateway.backends import Backends
from gateway.requests import SessionKey
from gateway.sessions.record_watch import RecordWatch
from gateway.sessions.registry import Sessions
from gateway.sessions.session import Session
from gateway.storage import Storage
from workspace.files.leases import FileLeases
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.record_changes import add_holder, mark_ending, remove_holders, update_record
from workspace.records import ClientSessionId, Principal, RecordsEvent, ReplicaId
from workspace.session_end import end_session

DEADLINE_SECONDS = 20.0


class ReleasingBackend(grpc.GenericRpcHandler):
    """A Spark Connect server as far as releasing a session goes."""

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
    records: FileSessionRecords
    locations: FileSessionLocations
    backend: ReleasingBackend
    operations_ended: list[Session] = field(default_factory=list)


@pytest_asyncio.fixture
async def unaware(tmp_path: Path) -> AsyncIterator[Replica]:
    """A replica that does not follow its records."""
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
    yield Replica(sessions, records, locations, backend)
    await backends.close()
    await server.stop(None)
    storage.close()


@pytest_asyncio.fixture
async def replica(unaware: Replica) -> AsyncIterator[Replica]:
    """A replica that follows its records."""
    async with following(unaware):
        yield unaware


@contextlib.asynccontextmanager
async def following(replica: Replica) -> AsyncIterator[None]:
    async def end_operations(session: Session) -> None:
        replica.operations_ended.append(session)

    watching = asyncio.create_task(RecordWatch(replica.sessions, replica.records, end_operations).run())
    yield
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching


async def opened(replica: Replica) -> Session:
    return await replica.sessions.open(SessionKey(Principal("ada"), ClientSessionId(str(uuid.uuid4()))))


async def looked_again(replica: Replica) -> None:
    """Returns after a look at the records as they are now: one that finds a session over that has just begun."""
    marker = await opened(replica)
    update_record(replica.records, marker.record_name, mark_ending)
    await until(lambda: replica.sessions.find(marker.key) is None, "the watch looks")


async def until(condition: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not condition():  # noqa: ASYNC110 - nothing tells when a file has changed
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"Not within {DEADLINE_SECONDS} s: {what}") from None


async def test_a_session_whose_record_says_ending_is_ended_at_its_backend_and_its_location_goes(
    replica: Replica,
) -> None:
    session = await opened(replica)
    other = await opened(replica)
    await replica.sessions.create_location(session)
    update_record(replica.records, session.record_name, mark_ending)
    await until(lambda: replica.sessions.find(session.key) is None, "the session is given up")
    await until(lambda: not replica.locations.list(), "its location is gone")
    await until(lambda: len(replica.records.list()) == 1, "its record is gone")
    assert replica.backend.released == [session.key.client_session_id]
    assert replica.operations_ended == [session]
    assert replica.sessions.find(other.key) is other


async def test_a_session_that_was_ended_elsewhere_is_forgotten_and_its_backend_left_alone(replica: Replica) -> None:
    session = await opened(replica)
    await looked_again(replica)
    end_session(replica.records, replica.locations, replica.records.read(session.record_name))
    await until(lambda: replica.sessions.find(session.key) is None, "the session is given up")
    assert replica.operations_ended[-1] is session
    again = await replica.sessions.open(session.key)
    assert again.uuid != session.uuid
    assert replica.sessions.find_by_record(session.record_name) is again
    assert session.key.client_session_id not in replica.backend.released


async def test_a_session_that_only_changes_goes_on(replica: Replica) -> None:
    session = await opened(replica)
    await looked_again(replica)
    update_record(replica.records, session.record_name, lambda record: add_holder(record, ReplicaId("r2")))
    update_record(replica.records, session.record_name, lambda record: remove_holders(record, {ReplicaId("r2")}))
    await looked_again(replica)
    assert replica.sessions.find(session.key) is session
    assert session not in replica.operations_ended


async def test_a_session_that_its_replica_left_is_taken_up_and_goes_on_where_it_was(replica: Replica) -> None:
    session = await opened(replica)
    update_record(replica.records, session.record_name, lambda record: add_holder(record, ReplicaId("r2")))
    await replica.sessions.leave_all(end=False)
    await replica.sessions.renew_lease()
    assert replica.sessions.find(session.key) is None
    update_record(replica.records, session.record_name, lambda record: remove_holders(record, {ReplicaId("r2")}))
    await until(lambda: replica.sessions.find(session.key) is not None, "the session is taken up")
    adopted = replica.sessions.find(session.key)
    assert adopted is not None
    assert (adopted.uuid, adopted.backend) == (session.uuid, session.backend)
    assert replica.records.read(session.record_name).record.holders == {ReplicaId("r1")}


async def test_a_session_of_another_replica_is_left_alone(replica: Replica) -> None:
    session = await opened(replica)
    update_record(replica.records, session.record_name, lambda record: add_holder(record, ReplicaId("r2")))
    await replica.sessions.leave_all(end=False)
    await replica.sessions.renew_lease()
    await looked_again(replica)
    assert replica.sessions.find(session.key) is None
    assert replica.records.read(session.record_name).record.holders == {ReplicaId("r2")}


async def test_of_two_that_would_take_a_session_up_one_does(replica: Replica) -> None:
    session = await opened(replica)
    stored = update_record(
        replica.records, session.record_name, lambda record: remove_holders(record, {ReplicaId("r1")})
    )
    update_record(replica.records, session.record_name, lambda record: add_holder(record, ReplicaId("r2")))
    await replica.sessions.leave_all(end=False)
    await replica.sessions.renew_lease()
    await replica.sessions.adopt(stored)
    assert replica.sessions.find(session.key) is None
    assert replica.records.read(session.record_name).record.holders == {ReplicaId("r2")}


async def test_guarantee_2_a_watch_that_fails_unexpectedly_is_begun_anew(
    unaware: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workspace.watch_loop._PAUSE_SECONDS", 0.05)
    watch, failures = unaware.records.watch, iter([KeyError("items"), AttributeError("metadata")])

    def watch_at_last(stop: threading.Event) -> Iterator[RecordsEvent]:
        if (failure := next(failures, None)) is not None:
            raise failure
        yield from watch(stop)

    monkeypatch.setattr(unaware.records, "watch", watch_at_last)
    session = await opened(unaware)
    with structlog.testing.capture_logs() as logs:
        async with following(unaware):
            update_record(unaware.records, session.record_name, mark_ending)
            await until(lambda: unaware.sessions.find(session.key) is None, "the session is given up")
    events = [line["event"] for line in logs]
    assert events.count("record_watch_failed") == 2
    assert events.count("record_watch_interrupted") == 1, "two failures are one interruption"


async def test_records_that_cannot_be_read_for_a_while_end_nothing(replica: Replica, tmp_path: Path) -> None:
    session = await opened(replica)
    records = tmp_path / ".lodge" / "sessions"
    with structlog.testing.capture_logs() as logs:
        away = records.rename(records.with_name("sessions.away"))
        await until(lambda: "record_watch_interrupted" in [line["event"] for line in logs], "the watch is interrupted")
        away.rename(records)
    await looked_again(replica)
    assert replica.sessions.find(session.key) is session
