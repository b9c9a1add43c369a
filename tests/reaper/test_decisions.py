"""The rules of the reaper, by example and under random histories; see the guarantees of :mod:`reaper.decisions`.

The model has sessions, late writers, and replicas that run, pause or die. At each tick, all running replicas renew
their leases and the reaper makes a pass. The model knows which sessions are live, and checks that the rules never end
one.
"""

import itertools
import uuid
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from reaper.decisions import (
    Decisions,
    History,
    Snapshot,
    confirm_orphans,
    decide,
    due_seconds,
    extend_history,
    named_replicas,
    writes_of,
)
from tests.records import a_record
from workspace.identifiers import RecordName, ReplicaId, SessionUuid, TableUuid
from workspace.leases import LeaseObserver, OwnLease, RenewalMark
from workspace.record_changes import add_holder, mark_ending, put_table, remove_holders, remove_writes
from workspace.record_store import StoredRecord, Version
from workspace.records import PendingWrite, Phase, SessionRecord, TableState, TemporaryTable
from workspace.trash_entries import TrashEntry

PERIOD_SECONDS, LEASE_SECONDS, GRACE_SECONDS = 1.0, 4.0, 3.0
A, B = ReplicaId("a"), ReplicaId("b")


def a_stored(
    number: int,
    *holders: ReplicaId,
    phase: Phase = Phase.ACTIVE,
    version: str = "1",
    tables: tuple[TemporaryTable, ...] = (),
) -> StoredRecord:
    return StoredRecord(a_record(number, phase=phase, holders=frozenset(holders), tables=tables), Version(version))


def a_snapshot(*records: StoredRecord, at_seconds: float, **parts: Any) -> Snapshot:
    defaults: dict[str, Any] = {
        "locations": frozenset(stored.record.session_uuid for stored in records),
        "leased": frozenset(),
        "lost": frozenset(),
        "trash": (),
        "begun_seconds": at_seconds,
        "ended_seconds": at_seconds,
    }
    return Snapshot(records=records, **(defaults | parts))


def a_table(number: int, *writers: ReplicaId, state: TableState = TableState.READY) -> TemporaryTable:
    """Return a table with one part, and one pending insertion for each writer."""
    own = a_directory(number)
    writes = tuple(PendingWrite(a_directory(number + n), "op", writer) for n, writer in enumerate(writers, 1))
    return TemporaryTable(f"t{number}", own, state, "parquet", parts=(own,), writes=writes)


def a_directory(number: int) -> TableUuid:
    return TableUuid(str(uuid.UUID(int=number)))


def decisions_after(*snapshots: Snapshot) -> Decisions:
    """Return the decisions after the last of these snapshots."""
    history = History()
    for snapshot in snapshots:
        history = extend_history(history, snapshot)
    return decide(history, snapshots[-1], GRACE_SECONDS)


def gone_snapshot(*records: StoredRecord, at_seconds: float) -> Snapshot:
    return a_snapshot(*records, at_seconds=at_seconds, lost=frozenset({A}))


def test_guarantee_10_session_in_the_queue_of_an_adopter_is_not_ended() -> None:
    """B adopts one session of A in each second, which takes longer than the grace period."""
    sessions = 10
    history = History()
    for second in range(sessions):
        adopted = [a_stored(number, B, version="2") for number in range(second)]
        waiting = [a_stored(number, A) for number in range(second, sessions)]
        snapshot = gone_snapshot(*adopted, *waiting, at_seconds=float(second))
        history = extend_history(history, snapshot)
        decisions = decide(history, snapshot, GRACE_SECONDS)
        assert not decisions.end
        assert len(decisions.spared) == (len(waiting) if second >= GRACE_SECONDS else 0)
    history = extend_history(history, gone_snapshot(*adopted, at_seconds=float(sessions)))
    assert not history.adopted, "nothing remains of an adoption that is complete"


def test_guarantee_10_session_that_nobody_adopts_is_ended() -> None:
    left, adopted = a_stored(1, A), a_stored(2, B, version="2")
    before = gone_snapshot(left, a_stored(2, A), at_seconds=0.0)
    history = extend_history(extend_history(History(), before), gone_snapshot(left, adopted, at_seconds=1.0))
    for second, ends in ((GRACE_SECONDS, ()), (GRACE_SECONDS + 0.9, ()), (GRACE_SECONDS + 1.0, (left,))):
        snapshot = gone_snapshot(left, adopted, at_seconds=second)
        history = extend_history(history, snapshot)
        assert decide(history, snapshot, GRACE_SECONDS).end == ends
        if not ends:
            assert due_seconds(history, second, GRACE_SECONDS) == GRACE_SECONDS + 1.0


def test_guarantee_10_sessions_of_other_replicas_are_ended() -> None:
    other, none = a_stored(1, B), a_stored(2)
    lost = frozenset({A, B})
    snapshots = [
        a_snapshot(other, none, a_stored(3, *holders, version=version), at_seconds=at, lost=lost)
        for at, version, holders in ((0.0, "1", (A,)), (1.0, "2", ("c",)), (GRACE_SECONDS, "2", ("c",)))
    ]
    assert decisions_after(*snapshots).end == (other, none)


def test_guarantee_10_client_that_moves_is_no_adoption() -> None:
    left = a_stored(1, A)
    snapshots = [
        gone_snapshot(left, a_stored(2, *holders, version=str(len(holders))), at_seconds=at)
        for at, holders in ((0.0, (A,)), (1.0, (A, B)), (GRACE_SECONDS, (A, B)))
    ]
    assert decisions_after(*snapshots).end == (left,)


def test_guarantee_2_record_change_restarts_grace_period() -> None:
    before, after = a_stored(1, A), a_stored(1, A, version="2")
    lost = frozenset({A})
    assert decisions_after(a_snapshot(before, at_seconds=0, lost=lost), a_snapshot(before, at_seconds=3, lost=lost)).end
    changed = (a_snapshot(before, at_seconds=0, lost=lost), a_snapshot(after, at_seconds=3, lost=lost))
    assert not decisions_after(*changed).end
    assert decisions_after(*changed, a_snapshot(after, at_seconds=6, lost=lost)).end == (after,)


def test_guarantee_2_holder_back_in_one_snapshot_restarts_grace_period() -> None:
    stored = a_stored(1, A)
    gone, back = frozenset({A}), frozenset[ReplicaId]()
    history = [a_snapshot(stored, at_seconds=t, lost=back if t == 2 else gone) for t in range(5)]
    assert not decisions_after(*history).end


def test_guarantee_3_ending_session_is_finished_without_holder_or_after_grace_period() -> None:
    stored = a_stored(1, A, phase=Phase.ENDING)
    assert not decisions_after(a_snapshot(stored, at_seconds=0)).finish
    assert not decisions_after(a_snapshot(stored, at_seconds=0), a_snapshot(stored, at_seconds=2.9)).finish
    assert decisions_after(a_snapshot(stored, at_seconds=0), a_snapshot(stored, at_seconds=3)).finish == (stored,)
    assert decisions_after(a_snapshot(stored, at_seconds=0, lost=frozenset({A}))).finish == (stored,)
    unheld = a_stored(1, phase=Phase.ENDING)
    assert decisions_after(a_snapshot(unheld, at_seconds=0)).finish == (unheld,)


def test_guarantee_4_record_in_one_snapshot_restarts_grace_period_of_orphan() -> None:
    stored = a_stored(1, A)
    there = frozenset({stored.record.session_uuid})
    unnamed = [a_snapshot(at_seconds=t, locations=there) for t in range(4)]
    assert decisions_after(*unnamed).orphans == tuple(there)
    assert not decisions_after(*unnamed[:2], a_snapshot(stored, at_seconds=2), unnamed[3]).orphans


def test_ending_session_keeps_its_holders() -> None:
    active, ending = a_stored(1, A, B), a_stored(2, A, B, phase=Phase.ENDING)
    decisions = decisions_after(a_snapshot(active, ending, at_seconds=0, lost=frozenset({A})))
    assert decisions.forget == ((active, {A}),)


def test_guarantee_5_duration_of_a_snapshot_does_not_count() -> None:
    there = frozenset({SessionUuid(str(uuid.UUID(int=1)))})
    slow = a_snapshot(at_seconds=0, locations=there, ended_seconds=100.0)
    assert not decisions_after(slow).orphans
    assert not decisions_after(slow, a_snapshot(at_seconds=102.9, locations=there, ended_seconds=200.0)).orphans
    assert decisions_after(slow, a_snapshot(at_seconds=103, locations=there)).orphans


def test_guarantee_6_writes_are_undone_after_grace_period_without_writer() -> None:
    stored = a_stored(1, B, tables=(a_table(10, A), a_table(20, B)))
    lost = frozenset({A})
    snapshots = [a_snapshot(stored, at_seconds=t, lost=lost) for t in (0, 1, 2, 3)]
    assert not decisions_after(*snapshots[:3]).undo
    assert decisions_after(*snapshots).undo == ((stored, lost),)
    assert not decisions_after(*snapshots[:2], a_snapshot(stored, at_seconds=2), snapshots[3]).undo


def test_guarantee_6_write_of_permanent_table_is_undone() -> None:
    write = PendingWrite(a_directory(10), "op", A)
    record = replace(a_stored(1, B).record, writes=(write,))
    stored = StoredRecord(record, Version("1"))
    there = {record.session_uuid: {write.directory}}
    decisions = decisions_after(*(a_snapshot(stored, at_seconds=t, lost=frozenset({A}), tables=there) for t in (0, 3)))
    assert decisions.undo == ((stored, {A}),)
    assert not decisions.orphan_tables


def test_guarantee_6_write_taken_over_by_another_replica_is_kept() -> None:
    before, after = a_stored(1, A, B, tables=(a_table(10, A),)), a_stored(1, A, B, tables=(a_table(10, B),))
    lost = frozenset({A})
    snapshots = [a_snapshot(before, at_seconds=0, lost=lost), a_snapshot(after, at_seconds=3, lost=lost)]
    assert not decisions_after(*snapshots).undo


def test_guarantee_6_new_write_restarts_grace_period_of_all_writes() -> None:
    one, more = a_stored(1, B, tables=(a_table(10, A),)), a_stored(1, B, tables=(a_table(10, A), a_table(20, A)))
    lost = frozenset({A})
    assert not decisions_after(a_snapshot(one, at_seconds=0, lost=lost), a_snapshot(more, at_seconds=3, lost=lost)).undo


def test_guarantee_6_writes_in_session_without_holder_are_kept_until_its_end() -> None:
    stored = a_stored(1, A, tables=(a_table(10, A),))
    decisions = decisions_after(*(a_snapshot(stored, at_seconds=t, lost=frozenset({A})) for t in (0, 3)))
    assert decisions.end == (stored,)
    assert not decisions.undo


def test_guarantee_6_adopter_has_grace_period_to_take_over_writes() -> None:
    unheld, adopted = a_stored(1, A, tables=(a_table(10, A),)), a_stored(1, A, B, tables=(a_table(10, A),))
    lost = frozenset({A})
    snapshots = [
        a_snapshot(unheld, at_seconds=0, lost=lost),
        *(a_snapshot(adopted, at_seconds=t, lost=lost) for t in (2, 3, 5)),
    ]
    assert not decisions_after(*snapshots[:3]).undo
    assert decisions_after(*snapshots).undo == ((adopted, lost),)


def test_guarantee_7_unnamed_directory_is_orphan_after_grace_period() -> None:
    stored = a_stored(1, B, tables=(a_table(10, B, B),))
    there = {stored.record.session_uuid: {a_directory(n) for n in (10, 11, 12, 13)}}
    snapshots = [a_snapshot(stored, at_seconds=t, tables=there) for t in (0, 1, 3)]
    assert decisions_after(*snapshots).orphan_tables == ((stored.record.session_uuid, a_directory(13)),)
    assert not decisions_after(*snapshots[:2]).orphan_tables
    assert not decisions_after(snapshots[0], a_snapshot(stored, at_seconds=1), snapshots[2]).orphan_tables


def test_guarantee_7_directories_of_ended_session_go_with_the_location() -> None:
    stored = a_stored(1, B, phase=Phase.ENDING)
    there = {stored.record.session_uuid: {a_directory(10)}}
    for records in ((stored,), ()):
        snapshots = [a_snapshot(*records, at_seconds=t, tables=there) for t in (0, 3)]
        assert not decisions_after(*snapshots).orphan_tables


def test_guarantee_8_trash_is_purged_except_location_of_session_with_record() -> None:
    ending = a_stored(1, A, phase=Phase.ENDING)
    own, other = ending.record.session_uuid, uuid.UUID(int=2)
    kept = TrashEntry(f"{own}.aa")
    purged = (TrashEntry(f"{own}.{other}.aa"), TrashEntry(f"{own}.part.aa"), TrashEntry(f"{other}.aa"))
    assert decisions_after(a_snapshot(ending, at_seconds=0, trash=(kept, *purged))).purge == purged


def test_lease_of_lost_replica_is_deleted_when_no_record_names_it() -> None:
    both, lost = frozenset({A, B}), frozenset({A})
    assert decisions_after(a_snapshot(at_seconds=0, leased=both, lost=lost)).leases == (A,)
    named, writing = a_stored(1, A, B), a_stored(1, B, tables=(a_table(10, A),))
    assert not decisions_after(a_snapshot(writing, at_seconds=0, leased=both, lost=lost)).leases
    assert not decisions_after(a_snapshot(named, at_seconds=0, leased=both, lost=lost)).leases
    assert not decisions_after(a_snapshot(at_seconds=0, leased=frozenset({B}), lost=lost)).leases


def requested(stored: StoredRecord) -> StoredRecord:
    return replace(stored, is_deletion_requested=True)


def test_ended_pod_starts_grace_period_at_once() -> None:
    stored = a_stored(1, A)
    ended_pod = frozenset({A})
    snapshots = [a_snapshot(stored, at_seconds=t, ended=ended_pod) for t in (0, 3)]
    assert not decisions_after(snapshots[0]).end
    assert decisions_after(*snapshots).end == (stored,)
    both = a_stored(2, A, B)
    assert decisions_after(a_snapshot(both, at_seconds=0, ended=ended_pod)).forget == ((both, {A}),)
    assert decisions_after(a_snapshot(at_seconds=0, leased=ended_pod, ended=ended_pod)).leases == (A,)


def test_guarantee_2_grace_period_of_doubted_holder_begins_when_it_is_gone() -> None:
    """Until its lease has expired, no other replica can adopt its sessions."""
    stored = a_stored(1, A)
    a = frozenset({A})
    doubted = [a_snapshot(stored, at_seconds=t, doubted=a) for t in (0, 1, 2, 3, 50)]
    assert not decisions_after(*doubted).end
    assert not decisions_after(*doubted).forget
    gone = [a_snapshot(stored, at_seconds=t, doubted=a, lost=a) for t in (51, 53.9, 54)]
    assert not decisions_after(*doubted, *gone[:2]).end
    assert decisions_after(*doubted, *gone).end == (stored,)


def test_guarantee_2_sign_of_life_restarts_grace_period() -> None:
    """A lease that is stopped is one: a watcher that replaces a gateway stops the lease of the former one."""
    stored = a_stored(1, A)
    a = frozenset({A})
    before = [a_snapshot(stored, at_seconds=t, lost=a, lease_changes={A: 0.0}) for t in (0.0, 2.0)]
    after = [a_snapshot(stored, at_seconds=t, lost=a, lease_changes={A: 2.5}) for t in (3.0, 5.4, 5.5)]
    assert not decisions_after(*before, *after[:2]).end
    assert decisions_after(*before, *after).end == (stored,)


def test_guarantee_2_live_holder_prevents_grace_period() -> None:
    stored = a_stored(1, A, B)
    snapshots = [a_snapshot(stored, at_seconds=t, lost=frozenset({A})) for t in (0, 3)]
    assert not decisions_after(*snapshots, a_snapshot(stored, at_seconds=4, lost=frozenset({A, B}))).end


def test_guarantee_6_writes_of_doubted_replica_are_undone_after_it_is_gone() -> None:
    stored = a_stored(1, B, tables=(a_table(10, A),))
    a = frozenset({A})
    doubted = [a_snapshot(stored, at_seconds=t, doubted=a) for t in (0, 3)]
    gone = [a_snapshot(stored, at_seconds=t, doubted=a, lost=a) for t in (4, 6.9, 7)]
    assert not decisions_after(*doubted, *gone[:2]).undo
    assert decisions_after(*doubted, *gone).undo == ((stored, a),)


def test_guarantee_6_sign_of_life_restarts_grace_period() -> None:
    stored = a_stored(1, B, tables=(a_table(10, A),))
    a = frozenset({A})
    before = [a_snapshot(stored, at_seconds=t, lost=a, lease_changes={A: 0.0}) for t in (0.0, 2.0)]
    after = [a_snapshot(stored, at_seconds=t, lost=a, lease_changes={A: 2.5}) for t in (3.0, 5.4, 5.5)]
    assert not decisions_after(*before, *after[:2]).undo
    assert decisions_after(*before, *after).undo == ((stored, a),)


def test_guarantee_9_requested_deletion_ends_session_without_live_holder_at_once() -> None:
    unheld, dead = requested(a_stored(1)), requested(a_stored(2, A))
    decisions = decisions_after(a_snapshot(unheld, dead, at_seconds=0, lost=frozenset({A})))
    assert decisions.requested == (unheld, dead)
    assert not decisions.end


def test_guarantee_9_live_holder_has_grace_period_for_requested_deletion() -> None:
    stored = requested(a_stored(1, A))
    snapshots = [a_snapshot(stored, at_seconds=t) for t in (0, 2.9, 3)]
    assert not decisions_after(*snapshots[:2]).requested
    assert decisions_after(*snapshots).requested == (stored,)
    changed = requested(a_stored(1, A, version="2"))
    assert decisions_after(snapshots[0], a_snapshot(changed, at_seconds=3)).requested == (changed,), (
        "a change is no excuse"
    )


def test_guarantee_5_reused_locations_count_from_their_own_listing() -> None:
    there = frozenset({SessionUuid(str(uuid.UUID(int=1)))})
    first = a_snapshot(at_seconds=0, locations=there)
    again = a_snapshot(at_seconds=9, locations=there, storage_begun_seconds=0)
    assert not decisions_after(first, again).orphans
    assert decisions_after(first, again, a_snapshot(at_seconds=10, locations=there, storage_begun_seconds=3)).orphans
    stored = a_stored(2, B)
    tables = {stored.record.session_uuid: {a_directory(13)}}
    snapshots = [a_snapshot(stored, at_seconds=t, tables=tables, storage_begun_seconds=0) for t in (0, 9)]
    assert not decisions_after(*snapshots).orphan_tables


def test_current_record_prevents_orphan() -> None:
    stored = a_stored(1, B, tables=(a_table(10, B),))
    session_uuid = stored.record.session_uuid
    there = frozenset({session_uuid})
    orphan = decisions_after(*(a_snapshot(at_seconds=t, locations=there) for t in (0, 3)))
    assert confirm_orphans(orphan, [stored]).orphans == ()
    assert confirm_orphans(orphan, [a_stored(2)]).orphans == (session_uuid,)
    old = a_stored(1, B)
    tables = {session_uuid: {a_directory(10), a_directory(13)}}
    unnamed = decisions_after(*(a_snapshot(old, at_seconds=t, tables=tables) for t in (0, 3)))
    assert confirm_orphans(unnamed, [stored]).orphan_tables == ((session_uuid, a_directory(13)),)
    assert confirm_orphans(unnamed, []).orphan_tables == ()
    assert confirm_orphans(unnamed, [replace(stored, record=mark_ending(stored.record))]).orphan_tables == ()


def test_due_seconds_is_end_of_next_grace_period() -> None:
    history = extend_history(History(), a_snapshot(a_stored(1, A), at_seconds=10, lost=frozenset({A})))
    assert due_seconds(history, 10, GRACE_SECONDS) == 13
    assert due_seconds(history, 13, GRACE_SECONDS) == float("inf")


class Replica:
    """A gateway replica that obeys its lease: after it expired, it serves only sessions that it joins again."""

    def __init__(self) -> None:
        self.is_running = True
        self.lease = OwnLease(LEASE_SECONDS)
        self.serving: set[RecordName] = set()


class Histories(RuleBasedStateMachine):
    """Random histories of replicas and sessions, with a pass of the reaper at each tick."""

    @initialize()
    def begin(self) -> None:
        self.now_seconds = 100.0
        self.numbers = itertools.count(1)
        self.replicas: dict[ReplicaId, Replica] = {}
        self.leases: dict[ReplicaId, RenewalMark] = {}
        self.records: dict[RecordName, StoredRecord] = {}
        self.locations: set[SessionUuid] = set()
        self.directories: set[tuple[SessionUuid, TableUuid]] = set()
        self.observer = LeaseObserver(LEASE_SECONDS)
        self.history = History()
        self.ended: set[ReplicaId] = set()
        self.doubted: set[ReplicaId] = set()
        self.asked_for: set[RecordName] = set()

    def running(self) -> list[ReplicaId]:
        return sorted(name for name, replica in self.replicas.items() if replica.is_running)

    def write(self, record: SessionRecord) -> None:
        self.records[record.name] = StoredRecord(record, Version(str(next(self.numbers))))

    def renew(self, name: ReplicaId) -> None:
        self.leases[name] = RenewalMark(str(next(self.numbers)))
        replica = self.replicas[name]
        if not replica.lease.is_valid(self.now_seconds):
            replica.serving.clear()
        replica.lease.record_renewal(self.now_seconds)

    @rule()
    def a_replica_starts(self) -> None:
        name = ReplicaId(f"r{next(self.numbers)}")
        self.replicas[name] = Replica()
        self.renew(name)

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def a_replica_pauses_or_dies(self, data: st.DataObject) -> None:
        self.replicas[data.draw(st.sampled_from(self.running()))].is_running = False

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def a_replica_dies_and_its_kubelet_says_so(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.running()))
        self.replicas[name].is_running = False
        self.replicas[name].serving.clear()
        self.ended.add(name)

    @precondition(lambda self: self.replicas)
    @rule(data=st.data())
    def a_node_goes_silent_or_is_heard_of_again(self, data: st.DataObject) -> None:
        self.doubted ^= {data.draw(st.sampled_from(sorted(self.replicas)))}

    @precondition(lambda self: self.records)
    @rule(data=st.data())
    def somebody_asks_for_the_end_of_a_session(self, data: st.DataObject) -> None:
        self.asked_for.add(data.draw(st.sampled_from(sorted(self.records))))

    def paused(self) -> list[ReplicaId]:
        return sorted(self.replicas.keys() - set(self.running()) - self.ended)

    @precondition(lambda self: self.paused())
    @rule(data=st.data())
    def a_paused_replica_goes_on(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.paused()))
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
        changed = data.draw(
            st.sampled_from([add_holder(record, name), remove_holders(record, {name}), mark_ending(record)])
        )
        self.write(changed)
        serving = self.replicas[name].serving
        (serving.add if name in changed.holders else serving.discard)(record.name)

    @precondition(lambda self: self.served_by_running())
    @rule(data=st.data(), finishes=st.booleans())
    def a_replica_writes_a_table(self, data: st.DataObject, finishes: bool) -> None:
        name, record = data.draw(st.sampled_from(self.served_by_running()))
        number = 1000 * next(self.numbers)
        table = a_table(number) if finishes else a_table(number, name, state=TableState.CREATING)
        self.write(put_table(record, table))
        self.directories |= {(record.session_uuid, directory) for directory in table.directories}

    def served_by_running(self) -> list[tuple[ReplicaId, SessionRecord]]:
        """Return which running replicas may write in which active sessions."""
        return [
            (name, self.records[served].record)
            for name in self.running()
            if self.replicas[name].lease.is_valid(self.now_seconds)
            for served in sorted(self.replicas[name].serving & self.records.keys())
            if self.records[served].record.phase is Phase.ACTIVE
        ]

    @precondition(lambda self: self.locations)
    @rule(data=st.data())
    def a_late_writer_makes_a_table_again(self, data: st.DataObject) -> None:
        session_uuid = data.draw(st.sampled_from(sorted(self.locations)))
        self.directories.add((session_uuid, a_directory(next(self.numbers))))

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
        records = tuple(
            replace(stored, is_deletion_requested=name in self.asked_for) for name, stored in self.records.items()
        )
        self.observer.observe(dict(self.leases), named_replicas(records), self.now_seconds)
        snapshot = a_snapshot(
            *records,
            at_seconds=self.now_seconds,
            locations=frozenset(self.locations),
            leased=frozenset(self.leases),
            lost=self.observer.lost(self.now_seconds),
            ended=frozenset(self.ended),
            doubted=frozenset(self.doubted),
            tables={one: {d for other, d in self.directories if other == one} for one in self.locations},
        )
        self.history = extend_history(self.history, snapshot)
        self.obey(decide(self.history, snapshot, GRACE_SECONDS))

    def obey(self, decisions: Decisions) -> None:
        for stored in (*decisions.end, *decisions.requested, *decisions.finish):
            was_asked_for = stored.record.name in self.asked_for
            assert stored.record.phase is Phase.ENDING or was_asked_for or not self.living_holders(stored.record)
            del self.records[stored.record.name]
            self.remove(stored.record.session_uuid)
        for stored, replicas in decisions.undo:
            assert not replicas & self.living_holders(stored.record)
            if stored.record.name in self.records and not any(forgotten == stored for forgotten, _ in decisions.forget):
                self.write(remove_writes(stored.record, replicas))  # otherwise the other change wins
        for session_uuid, table_uuid in decisions.orphan_tables:
            assert table_uuid not in self.named_directories(session_uuid)
            self.directories.discard((session_uuid, table_uuid))
        for stored, replicas in decisions.forget:
            assert replicas <= stored.record.holders
            assert not replicas & self.living_holders(stored.record)
            if stored.record.name in self.records:
                self.write(remove_holders(stored.record, replicas))
        named = {stored.record.session_uuid for stored in self.records.values()}
        for session_uuid in decisions.orphans:
            assert session_uuid not in named
            self.remove(session_uuid)
        for name in decisions.leases:
            assert name not in self.running()
            del self.leases[name]

    def remove(self, session_uuid: SessionUuid) -> None:
        self.locations.discard(session_uuid)
        self.directories = {(one, directory) for one, directory in self.directories if one != session_uuid}

    def named_directories(self, session_uuid: SessionUuid) -> set[TableUuid]:
        records = (stored.record for stored in self.records.values() if stored.record.session_uuid == session_uuid)
        return {directory for record in records for directory in record.directories}

    def living_holders(self, record: SessionRecord) -> set[ReplicaId]:
        """Return the replicas that may act for the session now, by their own lease."""
        return {
            name
            for name in record.holders
            if record.name in self.replicas[name].serving and self.replicas[name].lease.is_valid(self.now_seconds)
        }

    @invariant()
    def every_session_has_its_location(self) -> None:
        assert {stored.record.session_uuid for stored in self.records.values()} <= self.locations

    @invariant()
    def every_table_has_its_directories(self) -> None:
        for stored in self.records.values():
            session_uuid = stored.record.session_uuid
            assert {(session_uuid, one) for one in self.named_directories(session_uuid)} <= self.directories

    def teardown(self) -> None:
        if not hasattr(self, "records"):
            return
        served = {
            name
            for name, stored in self.records.items()
            if stored.record.phase is Phase.ACTIVE and stored.record.holders & set(self.running())
            if name not in self.asked_for
        }
        limit_seconds = LEASE_SECONDS + GRACE_SECONDS + 3 * PERIOD_SECONDS
        for _ in range(int(limit_seconds / PERIOD_SECONDS)):
            self.time_passes()
        assert self.records.keys() == served, "dead sessions end in bounded time, and no others"
        assert self.locations == {stored.record.session_uuid for stored in self.records.values()}
        writers = {write.replica for stored in self.records.values() for write in writes_of(stored.record)}
        assert writers <= set(self.running()), "writes of dead replicas are undone in bounded time"
        for _ in range(int((GRACE_SECONDS + 2 * PERIOD_SECONDS) / PERIOD_SECONDS)):
            self.time_passes()
        sessions = [stored.record.session_uuid for stored in self.records.values()]
        assert self.directories == {(one, directory) for one in sessions for directory in self.named_directories(one)}


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=30, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
