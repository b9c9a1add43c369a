"""The adoption of the sessions of lost and stopped replicas (gateway.sessions.adopter)."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog

from gateway.errors import GatewayError
from gateway.messages.requests import SessionKey
from gateway.sessions.adoption import rank
from tests.gateway.sessions.adopting_replicas import (
    AdoptingReplicas,
    adopt_sessions_of_killed_replica,
    until,
)
from workspace.files.leases import FileLeases
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import ReplicaId, TableUuid
from workspace.record_changes import add_holder, remove_holders, update_record
from workspace.record_store import RecordsUnavailableError
from workspace.records import NO_REPLICA, PendingWrite, SessionRecord, TableState, TemporaryTable

Start = Callable[..., AbstractAsyncContextManager[AdoptingReplicas]]
STOPPED, OTHER = ReplicaId("stopped"), ReplicaId("other")


def key_of(record: SessionRecord) -> SessionKey:
    return SessionKey(record.principal, record.client_session_id)


@pytest.fixture
def run(tmp_path: Path) -> Start:
    locations = FileSessionLocations(tmp_path)
    locations.initialise()

    @asynccontextmanager
    async def start(**settings: Any) -> AsyncIterator[AdoptingReplicas]:
        def open_records() -> FileSessionRecords:
            return FileSessionRecords(tmp_path, poll_seconds=0.05)

        async with AdoptingReplicas(open_records, FileLeases(tmp_path), locations, **settings) as replicas:
            yield replicas

    return start


async def test_sessions_of_killed_replica_are_adopted_once_each(run: Start) -> None:
    async with run(lease_seconds=10.0, patience_seconds=50.0) as replicas:
        await adopt_sessions_of_killed_replica(replicas, sessions=40)


@pytest.mark.slow
async def test_many_sessions_of_killed_replica_are_adopted_once_each(run: Start) -> None:
    async with run(lease_seconds=10.0, patience_seconds=50.0) as replicas:
        await adopt_sessions_of_killed_replica(replicas, sessions=200)


async def test_sessions_of_stopped_replica_are_adopted_without_waiting_for_its_lease(run: Start) -> None:
    async with run(lease_seconds=6000.0) as replicas:
        await replicas.create(STOPPED, 20)
        replicas.leases.stop(STOPPED)
        one, other = [await replicas.start(name) for name in ("one", "other")]
        await until(lambda: len(one.served() | other.served()) == 20, "all sessions are adopted")
        assert not one.served() & other.served()
        assert all(len(holders) == 1 and STOPPED not in holders for holders in replicas.holders().values())


async def test_stopping_replica_needs_one_request_for_all_sessions(run: Start) -> None:
    async with run(lease_seconds=6000.0) as replicas:
        await replicas.create("", 30)
        stopping = await replicas.start("stopping", watches=True)
        await until(lambda: len(stopping.served()) == 30, "it serves all sessions")
        stopping.records.calls.clear()
        await stopping.sessions.leave_all(end=False)
        assert not {"replace", "read", "delete"} & stopping.records.calls.keys()
        assert stopping.sessions.count == 0
        assert set(replicas.holders().values()) == {frozenset({stopping.name})}
        other = await replicas.start("other")
        await until(lambda: len(other.served()) == 30, "another replica adopts all sessions")


async def test_silent_replica_is_replaced_by_the_next_in_rank(run: Start) -> None:
    async with run(lease_seconds=6000.0, patience_seconds=0.5) as replicas:
        records = await replicas.create(STOPPED, 20)
        replicas.leases.stop(STOPPED)
        silent = await replicas.start("silent", adopts=False)
        other = await replicas.start("other")
        assert {rank(record.name, [silent.name, other.name])[0] for record in records} == {silent.name, other.name}
        await until(lambda: len(other.served()) == 20, "the other replica adopts the share of the silent replica")
        assert not silent.records.calls


async def test_session_with_a_living_holder_is_not_adopted(run: Start) -> None:
    async with run(lease_seconds=6000.0) as replicas:
        shared, left = await replicas.create(STOPPED, 2)
        update_record(replicas.records, shared.name, lambda record: add_holder(record, ReplicaId("client-moved")))
        replicas.leases.renew(ReplicaId("client-moved"))
        replicas.leases.stop(STOPPED)
        replica = await replicas.start("one")
        await until(lambda: bool(replica.served()), "the other session is adopted")
        assert replica.served() == {left.name}


async def test_session_is_adopted_if_the_reaper_removes_its_second_lost_holder(run: Start) -> None:
    """The record then names only a replica whose other sessions were adopted long ago."""
    async with run(lease_seconds=6000.0, patience_seconds=0.3) as replicas:
        shared, left = await replicas.create(STOPPED, 2)
        moved = ReplicaId("client-moved")
        update_record(replicas.records, shared.name, lambda record: add_holder(record, moved))
        replicas.leases.renew(moved)
        replicas.leases.stop(STOPPED)
        replica = await replicas.start("one")
        await until(lambda: replica.served() == {left.name}, "the other session is adopted")
        lists = replica.records.calls["list_held"]
        await until(lambda: replica.records.calls["list_held"] > lists, "the shared session is listed again")
        update_record(replicas.records, shared.name, lambda record: remove_holders(record, {moved}))
        await until(lambda: shared.name in replica.served(), "the shared session is adopted")


async def test_abandoned_changes_are_handed_to_completion(run: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.sessions.peers._LISTS_PER_LEASE", 12_000)
    async with run(lease_seconds=6000.0) as replicas:
        directory = TableUuid("00000000-0000-4000-8000-000000000001")
        write = PendingWrite(directory, "operation", STOPPED)
        table = TemporaryTable("t", directory, TableState.CREATING, "parquet", writes=(write,))
        (adopted,) = await replicas.create(STOPPED, 1, tables=(table,))
        (shared,) = await replicas.create(STOPPED, 1, first=1, tables=(table,))
        replica = await replicas.start("one", watches=True)
        session = await replica.sessions.open(key_of(shared))
        replicas.leases.stop(STOPPED)
        await until(
            lambda: {each.record.name for each in replica.completed} == {adopted.name, shared.name}, "both arrive"
        )
        assert replica.sessions.find(session.key) is session


async def test_change_of_a_replica_that_the_reaper_has_forgotten_is_completed(
    run: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reaper may remove the lost replica from the record before the other replicas know of the loss."""
    monkeypatch.setattr("gateway.sessions.peers._LISTS_PER_LEASE", 12_000)
    async with run(lease_seconds=6000.0) as replicas:
        directory = TableUuid("00000000-0000-4000-8000-000000000001")
        write = PendingWrite(directory, "operation", STOPPED)
        table = TemporaryTable("t", directory, TableState.CREATING, "parquet", writes=(write,))
        (shared,) = await replicas.create(STOPPED, 1, tables=(table,))
        replicas.leases.renew(STOPPED)
        replica = await replicas.start("one", watches=True)
        await replica.sessions.open(key_of(shared))
        update_record(replicas.records, shared.name, lambda record: remove_holders(record, {STOPPED}))
        await until(lambda: shared.name in replica.adopter.tracked, "it sees the change of the other replica")
        assert not replica.completed
        replicas.leases.stop(STOPPED)
        await until(lambda: bool(replica.completed), "it completes the change")


async def test_handed_over_change_of_a_shared_session_is_completed(run: Start) -> None:
    async with run(lease_seconds=6000.0) as replicas:
        (shared,) = await replicas.create("stopping", 1)
        replica = await replicas.start("one", watches=True)
        await replica.sessions.open(key_of(shared))
        directory = TableUuid("00000000-0000-4000-8000-000000000001")
        write = PendingWrite(directory, "operation", NO_REPLICA)
        table = TemporaryTable("t", directory, TableState.CREATING, "parquet", writes=(write,))
        update_record(replicas.records, shared.name, lambda record: replace(record, tables=(table,)))
        await until(lambda: bool(replica.completed), "it completes the change, although the other replica still lives")


async def test_sessions_without_holders_are_spread_and_adopted_once(run: Start) -> None:
    async with run(lease_seconds=6000.0) as replicas:
        running = [await replicas.start(f"replica-{number}", watches=True) for number in range(3)]
        for replica in running:
            await replica.sessions.peers.observe()
        records = await replicas.create("", 40)
        await until(lambda: sum(len(each.served()) for each in running) >= len(records), "all sessions are adopted")
        assert all(each.served() for each in running)
        assert sum(each.records.calls["replace"] for each in running) == len(records)
        await until(lambda: not any(each.adopter.left for each in running), "nobody waits for another adoption")


@pytest.mark.parametrize(
    ("error", "event"),
    [
        (RecordsUnavailableError(None, "The storage is unavailable."), "session_not_adopted"),
        (MemoryError(), "adoption_postponed"),
    ],
    ids=["expected", "unexpected"],
)
async def test_guarantee_4_failed_adoptions_are_retried(
    run: Start, monkeypatch: pytest.MonkeyPatch, error: Exception, event: str
) -> None:
    async with run(lease_seconds=6000.0, patience_seconds=0.2) as replicas:
        await replicas.create(STOPPED, 20)
        replicas.leases.stop(STOPPED)
        replica = await replicas.start("one", adopts=False)
        refused = threading.Event()
        original = type(replicas.records).replace

        def refuse(*_: object) -> None:
            refused.set()
            raise error

        monkeypatch.setattr(FileSessionRecords, "replace", refuse)
        with structlog.testing.capture_logs() as logs:
            task = asyncio.create_task(replica.adopter.run())
            await until(refused.is_set, "an adoption fails")
            monkeypatch.setattr(FileSessionRecords, "replace", original)
            await until(lambda: len(replica.served()) == 20, "all sessions are adopted")
        assert {line["event"] for line in logs} >= {event, "session_adopted"}
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_replica_that_is_lost_again_is_replaced_without_the_pause_after_a_failure(
    run: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an absence of the storage, in which all replicas seem lost, the pause is a minute."""
    async with run(lease_seconds=2.0, patience_seconds=600.0) as replicas:
        (record,) = await replicas.create(OTHER, 1)
        replicas.leases.renew(OTHER)
        original, refused = FileSessionRecords.replace, threading.Event()

        def refuse(*_: object) -> None:
            refused.set()
            raise RecordsUnavailableError(None, "The storage is unavailable.")

        monkeypatch.setattr(FileSessionRecords, "replace", refuse)
        replica = await replicas.start("one")
        await until(refused.is_set, "an adoption fails")
        monkeypatch.setattr(FileSessionRecords, "replace", original)
        while not replica.served():  # on a busy machine, the lease of the living replica can lapse in between, too
            replicas.leases.renew(OTHER)
            await until(lambda: OTHER not in replica.sessions.peers.lost, "the replica has returned")
            await until(lambda: OTHER in replica.sessions.peers.lost or bool(replica.served()), "it is lost again")
        assert replica.served() == {record.name}


async def test_guarantee_4_failed_lists_of_leases_are_retried(run: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    async with run(lease_seconds=6000.0, patience_seconds=0.2) as replicas:
        monkeypatch.setattr("gateway.sessions.peers._LISTS_PER_LEASE", 60_000)
        list_leases, errors = replicas.leases.list, iter([MemoryError(), RecordsUnavailableError(None, "unavailable")])

        def list_at_last() -> Any:
            if (error := next(errors, None)) is not None:
                raise error
            return list_leases()

        monkeypatch.setattr(replicas.leases, "list", list_at_last)
        await replicas.create(STOPPED, 1)
        replicas.leases.stop(STOPPED)
        with structlog.testing.capture_logs() as logs:
            replica = await replicas.start("one")
            await until(lambda: len(replica.served()) == 1, "the session is adopted")
        events = [line["event"] for line in logs]
        assert (events.count("adoption_postponed"), events.count("leases_not_listed")) == (1, 1)


async def test_fenced_replica_adopts_nothing(run: Start) -> None:
    async with run(lease_seconds=6000.0) as replicas:
        replica = await replicas.start("one", adopts=False)
        (record,) = await replicas.create(STOPPED, 1)
        await replica.sessions.lease.stop()
        with pytest.raises(GatewayError, match="LODGE_LEASE_LOST"):
            await replica.sessions.joins.adopt(replicas.records.read(record.name), {STOPPED})
        assert replicas.holders() == {record.name: {STOPPED}}
