"""The registry of served sessions agrees with the session records (gateway.sessions.registry)."""

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gateway.backends import Backends
from gateway.errors import GatewayError
from gateway.requests import SessionKey
from gateway.sessions.registry import Sessions
from gateway.storage import Storage
from workspace.files.leases import FileLeases
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.record_changes import add_holder, mark_ending, remove_holders, update_record
from workspace.records import (
    ClientSessionId,
    Principal,
    RecordConflictError,
    RecordsUnavailableError,
    ReplicaId,
    SessionUuid,
)
from workspace.session_end import end_session

LEASE_SECONDS = 1.0
DEADLINE_SECONDS = 20.0
OWN = ReplicaId("r1")


class FaultyRecords(FileSessionRecords):
    """Real records whose changes can be made to fail, or their answers to be lost, or to wait."""

    is_away = False
    loses_answers = False
    gate: threading.Event | None = None

    def create(self, record: Any) -> Any:
        return self._answer(super().create, record)

    def replace(self, record: Any, version: Any) -> Any:
        if self.gate is not None:
            assert self.gate.wait(DEADLINE_SECONDS)
        return self._answer(super().replace, record, version)

    def _answer(self, change: Callable[..., Any], *arguments: Any) -> Any:
        if self.is_away:
            raise RecordsUnavailableError(None, "The storage is away.")
        changed = change(*arguments)
        if self.loses_answers:
            raise RecordsUnavailableError(None, "The answer was lost.")
        return changed


@dataclass
class Replica:
    sessions: Sessions
    records: FaultyRecords
    locations: FileSessionLocations

    async def lapse(self) -> None:
        """Returns when the lease, which nobody renews here, is valid no more."""
        await asyncio.sleep(LEASE_SECONDS)  # what a pause takes is a time, not a condition

    def holders(self) -> list[set[str]]:
        return [set(stored.record.holders) for stored in self.records.list()]


@pytest_asyncio.fixture
async def replica(tmp_path: Path) -> AsyncIterator[Replica]:
    locations = FileSessionLocations(tmp_path)
    locations.initialise()
    records = FaultyRecords(tmp_path)
    storage = Storage(records, FileLeases(tmp_path), locations)
    backends = Backends(["sc://127.0.0.1:1"])
    sessions = Sessions(
        replica=OWN,
        storage=storage,
        backends=backends,
        idle_timeout_seconds=0.0,
        lease_duration_seconds=LEASE_SECONDS,
    )
    await sessions.renew_lease()
    yield Replica(sessions, records, locations)
    await sessions.leave_all(end=False)
    await backends.close()
    storage.close()


def a_key() -> SessionKey:
    return SessionKey(Principal("ada"), ClientSessionId(str(uuid.uuid4())))


async def settled(replica: Replica, condition: Callable[[], bool], what: str) -> None:
    """Renews the lease until the condition holds."""
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not condition():
                await replica.sessions.renew_lease()
                await asyncio.sleep(LEASE_SECONDS / 20)
    except TimeoutError:
        raise AssertionError(f"Not within {DEADLINE_SECONDS} s: {what}") from None


def may_act(replica: Replica, session: Any) -> bool:
    try:
        replica.sessions.require_lease(session)
    except GatewayError as error:
        assert error.error_class == "LODGE_LEASE_LOST"
        return False
    return True


async def test_after_a_lapse_who_had_judged_by_the_record_before_finds_it_changed(replica: Replica) -> None:
    session = await replica.sessions.open(a_key())
    [judged] = replica.records.list()
    await replica.lapse()
    await settled(replica, lambda: may_act(replica, session), "the session is joined anew")
    with pytest.raises(RecordConflictError):
        end_session(replica.records, replica.locations, judged)
    assert replica.sessions.find(session.key) is session


async def test_after_a_lapse_a_session_is_not_acted_on_until_it_is_joined_anew(replica: Replica) -> None:
    session = await replica.sessions.open(a_key())
    await replica.lapse()
    assert not may_act(replica, session)
    replica.records.is_away = True
    await replica.sessions.renew_lease()
    await replica.sessions.renew_lease()
    assert not may_act(replica, session)
    replica.records.is_away = False
    await settled(replica, lambda: may_act(replica, session), "the session is joined anew")
    [stored] = replica.records.list()
    assert stored.record.holders == {OWN}


async def test_after_a_lapse_a_later_session_of_the_same_name_is_not_joined(replica: Replica) -> None:
    session = await replica.sessions.open(a_key())
    [judged] = replica.records.list()
    await replica.lapse()
    end_session(replica.records, replica.locations, judged)
    later = replace(judged.record, session_uuid=SessionUuid(str(uuid.uuid4())), holders=frozenset({ReplicaId("r2")}))
    stored = replica.records.create(later)
    await settled(replica, lambda: replica.sessions.find(session.key) is None, "the session is given up")
    assert replica.records.read(later.name) == stored


async def test_a_lapse_while_the_lease_is_renewed_is_noticed(replica: Replica, monkeypatch: Any) -> None:
    session = await replica.sessions.open(a_key())
    renew = FileLeases.renew
    renewed = threading.Event()

    def renew_slowly(leases: FileLeases, name: ReplicaId) -> None:
        renewed.wait(LEASE_SECONDS)
        renew(leases, name)

    monkeypatch.setattr(FileLeases, "renew", renew_slowly)
    await replica.sessions.renew_lease()
    update_record(replica.records, session.record_name, lambda record: remove_holders(record, {OWN}))
    monkeypatch.setattr(FileLeases, "renew", renew)
    await settled(replica, lambda: replica.holders() == [{OWN}], "the session is joined anew")


async def test_a_session_that_is_opened_while_it_is_left_is_held_and_its_record_says_so(replica: Replica) -> None:
    session = await replica.sessions.open(a_key())
    replica.records.gate = threading.Event()
    leaving = asyncio.create_task(replica.sessions.end_idle())
    while replica.sessions.find(session.key) is not None:  # noqa: ASYNC110 - it is another task that lets go
        await asyncio.sleep(0.01)
    opening = asyncio.create_task(replica.sessions.open(session.key))
    await asyncio.sleep(0.05)  # the opening has begun, and must wait
    replica.records.gate.set()
    await leaving
    opened = await opening
    [stored] = replica.records.list()
    assert (stored.record.session_uuid, stored.record.holders) == (opened.uuid, {OWN})


@pytest.mark.parametrize("loses_answers", [False, True])
async def test_an_idle_session_that_could_not_be_left_is_left_later(replica: Replica, loses_answers: bool) -> None:
    await replica.sessions.open(a_key())
    replica.records.is_away, replica.records.loses_answers = not loses_answers, loses_answers
    await replica.sessions.end_idle()
    replica.records.is_away = replica.records.loses_answers = False
    await settled(replica, lambda: replica.holders() in ([], [set()]), "the record names this replica no more")


async def test_a_session_that_is_ending_is_closed_for_its_client_whoever_ends_it(replica: Replica) -> None:
    session = await replica.sessions.open(a_key())
    update_record(replica.records, session.record_name, lambda record: remove_holders(record, {OWN}))
    await replica.sessions.leave_all(end=False)
    await replica.sessions.renew_lease()
    ending = update_record(replica.records, session.record_name, mark_ending)
    with pytest.raises(GatewayError, match="SESSION_CLOSED"):
        await replica.sessions.open(session.key)
    assert replica.records.list() == [ending], "its location goes once it has ended at its backend"


async def test_a_session_that_could_not_be_ended_is_ended_later(replica: Replica) -> None:
    session = await replica.sessions.open(a_key())
    await replica.sessions.create_location(session)
    replica.records.is_away = True
    with pytest.raises(GatewayError):
        await replica.sessions.end(session, reason="released by the client")
    replica.records.is_away = False
    await settled(replica, lambda: not replica.records.list(), "the session has ended")
    assert not replica.locations.list()


async def test_an_end_that_comes_too_late_leaves_a_session_alone_that_others_took_up(replica: Replica) -> None:
    session = await replica.sessions.open(a_key())
    replica.records.is_away = True
    with pytest.raises(GatewayError):
        await replica.sessions.end(session, reason="closed at the backend")
    replica.records.is_away = False
    other = ReplicaId("r2")
    update_record(replica.records, session.record_name, lambda record: add_holder(record, other))
    await settled(replica, lambda: replica.holders() == [{other}], "this replica leaves it")


async def test_a_session_that_was_opened_without_an_answer_is_left_unless_the_client_comes_again(
    replica: Replica,
) -> None:
    gone, back = a_key(), a_key()
    replica.records.loses_answers = True
    for key in (gone, back):
        with pytest.raises(GatewayError):
            await replica.sessions.open(key)
    replica.records.loses_answers = False
    session = await replica.sessions.open(back)
    await settled(replica, lambda: sorted(replica.holders(), key=len) == [set(), {OWN}], "one is held, the other left")
    assert replica.sessions.find(back) is session
    assert replica.records.read(session.record_name).record.holders == {OWN}


async def test_after_a_lapse_a_later_session_of_the_same_name_is_left_alone(replica: Replica) -> None:
    session = await replica.sessions.open(a_key())
    await replica.lapse()
    [stored] = replica.records.list()
    end_session(replica.records, replica.locations, stored)
    later = replace(stored.record, session_uuid=SessionUuid(str(uuid.uuid4())), holders=frozenset({ReplicaId("r2")}))
    made = replica.records.create(later)
    await settled(replica, lambda: replica.sessions.find(session.key) is None, "the session that ended is given up")
    assert replica.records.list() == [made]
