"""The reaper's rules under random histories (guarantees: reaper.decisions).

The model has replicas that live, pause or die, sessions, and late writers; at each tick, everyone who lives
renews, and the reaper makes a pass. The model knows the truth, which the rules must never hurt.
"""

import itertools
import uuid
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from reaper.decisions import Decisions, Look, Watch, decided, watched
from workspace.leases import HeldLease, LeaseObserver, RenewalMark
from workspace.locations import TrashEntry
from workspace.records import (
    ClientSessionId,
    Phase,
    Principal,
    RecordName,
    ReplicaId,
    SessionRecord,
    SessionUuid,
    StoredRecord,
    Version,
)
from workspace.sessions import ended, joined, left

PERIOD_SECONDS, LEASE_SECONDS, GRACE_SECONDS = 1.0, 4.0, 3.0
A, B = ReplicaId("a"), ReplicaId("b")


def a_stored(number: int, *holders: ReplicaId, phase: Phase = Phase.ACTIVE, version: str = "1") -> StoredRecord:
    record = SessionRecord(
        session_uuid=SessionUuid(str(uuid.UUID(int=number))),
        principal=Principal("ada"),
        client_session_id=ClientSessionId(str(number)),
        backend="sc://backend:15002",
        phase=phase,
        created_at="",
        holders=frozenset(holders),
    )
    return StoredRecord(record, Version(version))


def a_look(*records: StoredRecord, at_seconds: float, **parts: Any) -> Look:
    defaults: dict[str, Any] = {
        "locations": frozenset(stored.record.session_uuid for stored in records),
        "leased": frozenset(),
        "lost": frozenset(),
        "trash": (),
        "begun_seconds": at_seconds,
        "ended_seconds": at_seconds,
    }
    return Look(records=records, **(defaults | parts))


def decisions_after(*looks: Look) -> Decisions:
    """What is decided after the last of these looks."""
    watch = Watch()
    for look in looks:
        watch = watched(watch, look)
    return decided(watch, looks[-1], GRACE_SECONDS)


def test_guarantee_2_any_change_of_the_record_begins_the_grace_period_anew() -> None:
    before, after = a_stored(1, A), a_stored(1, A, version="2")
    lost = frozenset({A})
    assert decisions_after(a_look(before, at_seconds=0, lost=lost), a_look(before, at_seconds=3, lost=lost)).end
    changed = (a_look(before, at_seconds=0, lost=lost), a_look(after, at_seconds=3, lost=lost))
    assert not decisions_after(*changed).end
    assert decisions_after(*changed, a_look(after, at_seconds=6, lost=lost)).end == (after,)


def test_guarantee_2_a_holder_that_came_back_for_one_look_begins_the_grace_period_anew() -> None:
    stored = a_stored(1, A)
    gone, back = frozenset({A}), frozenset[ReplicaId]()
    history = [a_look(stored, at_seconds=t, lost=back if t == 2 else gone) for t in range(5)]
    assert not decisions_after(*history).end


def test_guarantee_3_an_ending_session_is_finished_when_unheld_or_seen_for_the_grace_period() -> None:
    stored = a_stored(1, A, phase=Phase.ENDING)
    assert not decisions_after(a_look(stored, at_seconds=0)).finish
    assert not decisions_after(a_look(stored, at_seconds=0), a_look(stored, at_seconds=2.9)).finish
    assert decisions_after(a_look(stored, at_seconds=0), a_look(stored, at_seconds=3)).finish == (stored,)
    assert decisions_after(a_look(stored, at_seconds=0, lost=frozenset({A}))).finish == (stored,)
    unheld = a_stored(1, phase=Phase.ENDING)
    assert decisions_after(a_look(unheld, at_seconds=0)).finish == (unheld,)


def test_guarantee_4_a_location_that_a_record_named_at_one_look_begins_the_grace_period_anew() -> None:
    stored = a_stored(1, A)
    there = frozenset({stored.record.session_uuid})
    unnamed = [a_look(at_seconds=t, locations=there) for t in range(4)]
    assert decisions_after(*unnamed).orphans == tuple(there)
    assert not decisions_after(*unnamed[:2], a_look(stored, at_seconds=2), unnamed[3]).orphans


def test_an_ending_session_keeps_its_holders_since_its_record_changes_no_more() -> None:
    active, ending = a_stored(1, A, B), a_stored(2, A, B, phase=Phase.ENDING)
    decisions = decisions_after(a_look(active, ending, at_seconds=0, lost=frozenset({A})))
    assert decisions.forget == ((active, {A}),)


def test_guarantee_5_the_time_that_a_look_takes_does_not_count() -> None:
    there = frozenset({SessionUuid(str(uuid.UUID(int=1)))})
    slow = a_look(at_seconds=0, locations=there, ended_seconds=100.0)
    assert not decisions_after(slow).orphans
    assert not decisions_after(slow, a_look(at_seconds=102.9, locations=there, ended_seconds=200.0)).orphans
    assert decisions_after(slow, a_look(at_seconds=103, locations=there)).orphans


def test_guarantee_6_the_trash_is_purged_but_for_the_location_of_a_session_with_a_record() -> None:
    ending = a_stored(1, A, phase=Phase.ENDING)
    own, other = ending.record.session_uuid, uuid.UUID(int=2)
    kept = TrashEntry(f"{own}.aa")
    purged = (TrashEntry(f"{own}.{other}.aa"), TrashEntry(f"{own}.part.aa"), TrashEntry(f"{other}.aa"))
    assert decisions_after(a_look(ending, at_seconds=0, trash=(kept, *purged))).purge == purged


def test_leases_of_lost_replicas_are_deleted_once_no_record_names_them() -> None:
    both, lost = frozenset({A, B}), frozenset({A})
    assert decisions_after(a_look(at_seconds=0, leased=both, lost=lost)).leases == (A,)
    named = a_stored(1, A, B)
    assert not decisions_after(a_look(named, at_seconds=0, leased=both, lost=lost)).leases
    assert not decisions_after(a_look(at_seconds=0, leased=frozenset({B}), lost=lost)).leases


class Replica:
    """A gateway replica that obeys its lease: once that ran out, it serves only sessions it joins anew."""

    def __init__(self) -> None:
        self.is_running = True
        self.lease = HeldLease(LEASE_SECONDS)
        self.serving: set[RecordName] = set()


class Histories(RuleBasedStateMachine):
    """Random lives of replicas and sessions, with a pass of the reaper at each tick."""

    @initialize()
    def begin(self) -> None:
        self.now_seconds = 100.0
        self.numbers = itertools.count(1)
        self.replicas: dict[ReplicaId, Replica] = {}
        self.leases: dict[ReplicaId, RenewalMark] = {}
        self.records: dict[RecordName, StoredRecord] = {}
        self.locations: set[SessionUuid] = set()
        self.observer = LeaseObserver(LEASE_SECONDS)
        self.watch = Watch()

    def running(self) -> list[ReplicaId]:
        return sorted(name for name, replica in self.replicas.items() if replica.is_running)

    def write(self, record: SessionRecord) -> None:
        self.records[record.name] = StoredRecord(record, Version(str(next(self.numbers))))

    def renew(self, name: ReplicaId) -> None:
        self.leases[name] = RenewalMark(str(next(self.numbers)))
        replica = self.replicas[name]
        if not replica.lease.is_valid(self.now_seconds):
            replica.serving.clear()
        replica.lease.renewed(self.now_seconds)

    @rule()
    def a_replica_starts(self) -> None:
        name = ReplicaId(f"r{next(self.numbers)}")
        self.replicas[name] = Replica()
        self.renew(name)

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def a_replica_pauses_or_dies(self, data: st.DataObject) -> None:
        self.replicas[data.draw(st.sampled_from(self.running()))].is_running = False

    @precondition(lambda self: len(self.running()) < len(self.replicas))
    @rule(data=st.data())
    def a_paused_replica_goes_on(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.replicas.keys() - set(self.running()))))
        self.replicas[name].is_running = True
        self.renew(name)

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def a_session_starts(self, data: st.DataObject) -> None:
        name, number = data.draw(st.sampled_from(self.running())), next(self.numbers)
        record = a_stored(number, name).record
        self.write(record)
        self.locations.add(record.session_uuid)
        self.replicas[name].serving.add(record.name)

    @precondition(lambda self: self.running() and self.records)
    @rule(data=st.data())
    def a_replica_joins_leaves_or_begins_to_end_a_session(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.running()))
        record = self.records[data.draw(st.sampled_from(sorted(self.records)))].record
        if record.phase is Phase.ENDING:
            return
        changed = data.draw(st.sampled_from([joined(record, name), left(record, {name}), ended(record)]))
        self.write(changed)
        serving = self.replicas[name].serving
        (serving.add if name in changed.holders else serving.discard)(record.name)

    @rule()
    def a_late_writer_makes_a_location_again(self) -> None:
        self.locations.add(SessionUuid(str(uuid.UUID(int=next(self.numbers)))))

    @rule()
    def time_passes(self) -> None:
        self.now_seconds += PERIOD_SECONDS
        for name in self.running():
            self.renew(name)
        self.make_pass()

    def make_pass(self) -> None:
        records = tuple(self.records.values())
        holders = frozenset(holder for stored in records for holder in stored.record.holders)
        self.observer.observe(dict(self.leases), holders, self.now_seconds)
        look = a_look(
            *records,
            at_seconds=self.now_seconds,
            locations=frozenset(self.locations),
            leased=frozenset(self.leases),
            lost=self.observer.lost(self.now_seconds),
        )
        self.watch = watched(self.watch, look)
        self.obey(decided(self.watch, look, GRACE_SECONDS))

    def obey(self, decisions: Decisions) -> None:
        for stored in (*decisions.end, *decisions.finish):
            assert stored.record.phase is Phase.ENDING or not self.living_holders(stored.record)
            del self.records[stored.record.name]
            self.locations.discard(stored.record.session_uuid)
        for stored, replicas in decisions.forget:
            assert replicas <= stored.record.holders
            assert not replicas & self.living_holders(stored.record)
            self.write(left(stored.record, replicas))
        named = {stored.record.session_uuid for stored in self.records.values()}
        for session_uuid in decisions.orphans:
            assert session_uuid not in named
            self.locations.remove(session_uuid)
        for name in decisions.leases:
            assert name not in self.running()
            del self.leases[name]

    def living_holders(self, record: SessionRecord) -> set[ReplicaId]:
        """Those who may act for the session now, by their own lease."""
        return {
            name
            for name in record.holders
            if record.name in self.replicas[name].serving and self.replicas[name].lease.is_valid(self.now_seconds)
        }

    @invariant()
    def every_session_has_its_location(self) -> None:
        assert {stored.record.session_uuid for stored in self.records.values()} <= self.locations

    def teardown(self) -> None:
        if not hasattr(self, "records"):
            return
        served = {
            name
            for name, stored in self.records.items()
            if stored.record.phase is Phase.ACTIVE and stored.record.holders & set(self.running())
        }
        limit_seconds = LEASE_SECONDS + GRACE_SECONDS + 3 * PERIOD_SECONDS
        for _ in range(int(limit_seconds / PERIOD_SECONDS)):
            self.time_passes()
        assert self.records.keys() == served, "the dead are gone in bounded time, and only they"
        assert self.locations == {stored.record.session_uuid for stored in self.records.values()}


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
