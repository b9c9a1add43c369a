"""What the reaper may do, decided from what it saw: no I/O, no clock, no randomness.

Why it exists: what is deleted by mistake is lost, so the rules that decide it stand alone, where they can be
read in one go and tried with any history. :mod:`reaper.reaper` looks, asks here, and acts.

A replica is *gone* once its lease is lost, or once the kubelet says that its pod has ended. It is *doubted* while its
pod is missing or its node does not answer: it may still run, so it is not gone, but what depends on it being gone
begins to be watched at once.

Guarantees:

1. An ``ACTIVE`` session with a holder that is not gone is never ended, unless someone asked the storage of records for
   its end.
2. An ``ACTIVE`` session is ended once each look during the whole grace period found it at the same version,
   with no holder or only ones that are gone or doubted, and the last look found only ones that are gone. Any change of
   its record is a sign of life and begins the period anew.
3. An ``ENDING`` session is finished once it has no holder that is not gone, or was seen ``ENDING`` for the
   grace period.
4. A location is an orphan once each look during the whole grace period found it, with no record that names
   it.
5. Times are those of the reaper's own monotonic clock. What was there is taken to be there only from the end
   of the first look that saw it to the beginning of the last, so a reaper that was paused in the middle of a
   look decides nothing early.
6. Writes of a replica that is gone in a held ``ACTIVE`` session are undone once each look during the whole
   grace period found them so; of a doubted one, if the last look found it gone.
7. A directory in the location of an ``ACTIVE`` session is an orphan once each look during the whole grace period
   found it, and the session's record did not name it. A directory whose name is no UUID never is one: it
   goes with its location.
8. Of the trash, all is purged but the location of a session that still has a record: who ends that session
   will see from it that there was a location.
9. An ``ACTIVE`` session whose end was asked for is ended at once if it has no holder that is not gone; else its holder
   ends it, or the reaper does once each look during the whole grace period found it asked for.

Guarantees 4 and 7 need looks whose locations and directories were listed before the records were: then a session or
table born in between is in the second list, or in neither. Where the records of a look may be old ones, what it decides
for want of a record must pass :func:`confirm_orphans` with records that were read afterwards.

Source: design, "Session records, leases and the reaper".
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TypeVar

from workspace.records import (
    PendingWrite,
    Phase,
    ReplicaId,
    SessionRecord,
    SessionUuid,
    StoredRecord,
    TableUuid,
    Version,
)
from workspace.trash_entries import TrashEntry, is_whole_location, session_of

_Key = TypeVar("_Key", bound=Hashable)
_Nobody: Set[ReplicaId] = frozenset()
_RecordKey = tuple[SessionUuid, Version]
_TableKey = tuple[SessionUuid, TableUuid]
_WriteKey = tuple[SessionUuid, PendingWrite]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one pass of the reaper saw.

    Attributes:
        locations: The session locations; listed before the records.
        records: All session records.
        leased: The replicas that have a lease.
        lost: The replicas whose lease is lost.
        trash: What was set aside and not purged yet.
        begun_seconds: The reaper's monotonic clock before it looked.
        ended_seconds: The reaper's monotonic clock after it had looked.
        tables: The directories with a UUID for a name in each of the locations; listed before the records.
        storage_begun_seconds: The clock before locations, tables and trash were listed, if they are those of an earlier
            look.
        ended: The replicas whose pod has ended, as the kubelet says.
        doubted: The replicas whose pod is missing, or on a node that does not answer.
    """

    locations: Set[SessionUuid]
    records: Sequence[StoredRecord]
    leased: Set[ReplicaId]
    lost: Set[ReplicaId]
    trash: Sequence[TrashEntry]
    begun_seconds: float
    ended_seconds: float
    tables: Mapping[SessionUuid, Set[TableUuid]] = field(default_factory=dict)
    storage_begun_seconds: float | None = None
    ended: Set[ReplicaId] = _Nobody
    doubted: Set[ReplicaId] = _Nobody
    gone: Set[ReplicaId] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "gone", self.lost | self.ended)

    @property
    def storage_seconds(self) -> float:
        """The clock before locations, tables and trash were listed."""
        return self.begun_seconds if self.storage_begun_seconds is None else self.storage_begun_seconds

    def is_held(self, stored: StoredRecord) -> bool:
        """Whether a replica that is not gone holds the session."""
        return not stored.record.holders <= self.gone

    def is_surely_held(self, stored: StoredRecord) -> bool:
        """Whether a replica that is neither gone nor doubted holds the session."""
        return not stored.record.holders <= (self.gone | self.doubted)

    def active(self) -> Iterable[StoredRecord]:
        return (stored for stored in self.records if stored.record.phase is Phase.ACTIVE)

    def dead(self) -> Iterable[StoredRecord]:
        """The sessions that go on although nobody holds them, and whose end nobody asked for."""
        return (s for s in self.active() if not s.is_deletion_requested and not self.is_held(s))

    def named_sessions(self) -> Set[SessionUuid]:
        return {stored.record.session_uuid for stored in self.records}

    def writes_of_gone(self) -> Iterable[_WriteKey]:
        """What replicas were writing that are gone or doubted; of a session that nobody holds, its end will tell."""
        suspect = self.gone | self.doubted
        for stored in self.active():
            if self.is_held(stored):
                for write in writes_of(stored.record):
                    if write.replica in suspect:
                        yield stored.record.session_uuid, write

    def unnamed_tables(self) -> Iterable[_TableKey]:
        for stored in self.active():
            session_uuid = stored.record.session_uuid
            found = self.tables.get(session_uuid)
            for table in found - stored.record.directories if found else ():
                yield session_uuid, table


@dataclass(frozen=True, slots=True)
class History:
    """What was seen at each look up to now, with the time at which the first of these looks had ended.

    Attributes:
        abandoned: ``ACTIVE`` records, each at one version, without a holder that is neither gone nor doubted.
        requested: ``ACTIVE`` sessions whose end was asked for.
        ending: Sessions that are ``ENDING``.
        unnamed: Locations that no record names.
        unfinished: Writes of replicas that are gone or doubted.
        unnamed_tables: Directories in locations that their session's record does not name.
    """

    abandoned: Mapping[_RecordKey, float] = field(default_factory=dict)
    requested: Mapping[SessionUuid, float] = field(default_factory=dict)
    ending: Mapping[SessionUuid, float] = field(default_factory=dict)
    unnamed: Mapping[SessionUuid, float] = field(default_factory=dict)
    unfinished: Mapping[_WriteKey, float] = field(default_factory=dict)
    unnamed_tables: Mapping[_TableKey, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decisions:
    """What to do now; each part may be done or left in any order.

    Attributes:
        end: Sessions whose holders are gone.
        requested: Sessions whose end was asked for, and that nobody else ends.
        finish: Sessions whose end someone else began and did not complete.
        forget: Sessions that go on, with the replicas to take out of their holders.
        undo: Sessions with the replicas whose writes are to be taken out.
        orphans: Locations to remove.
        orphan_tables: Directories to remove from the locations of sessions that go on.
        leases: Leases of gone replicas that no record names.
        purge: Entries of the trash.
    """

    end: tuple[StoredRecord, ...]
    requested: tuple[StoredRecord, ...]
    finish: tuple[StoredRecord, ...]
    forget: tuple[tuple[StoredRecord, frozenset[ReplicaId]], ...]
    undo: tuple[tuple[StoredRecord, frozenset[ReplicaId]], ...]
    orphans: tuple[SessionUuid, ...]
    orphan_tables: tuple[_TableKey, ...]
    leases: tuple[ReplicaId, ...]
    purge: tuple[TrashEntry, ...]


def extend_history(previous: History, snapshot: Snapshot) -> History:
    """The watch after one more look."""
    active = list(snapshot.active())
    ending = (stored for stored in snapshot.records if stored.record.phase is Phase.ENDING)
    seen = snapshot.ended_seconds
    return History(
        abandoned=_since(previous.abandoned, (_key(s) for s in active if not snapshot.is_surely_held(s)), seen),
        requested=_since(previous.requested, (s.record.session_uuid for s in active if s.is_deletion_requested), seen),
        ending=_since(previous.ending, (s.record.session_uuid for s in ending), seen),
        unnamed=_since(previous.unnamed, snapshot.locations - snapshot.named_sessions(), seen),
        unfinished=_since(previous.unfinished, snapshot.writes_of_gone(), seen),
        unnamed_tables=_since(previous.unnamed_tables, snapshot.unnamed_tables(), seen),
    )


def decide(history: History, snapshot: Snapshot, grace_period_seconds: float) -> Decisions:
    """What to do after a look that the watch has taken in already."""
    since = snapshot.begun_seconds - grace_period_seconds
    storage_since = snapshot.storage_seconds - grace_period_seconds
    abandoned = _up_to(history.abandoned, since)
    overdue = _up_to(history.requested, since) | _up_to(history.ending, since)
    unfinished = _up_to(history.unfinished, since)
    held = [stored for stored in snapshot.records if snapshot.is_held(stored)]
    written = {session_uuid for session_uuid, _ in unfinished}
    suspects = (stored for stored in held if stored.record.session_uuid in written)
    undo = ((stored, _gone_writers(stored.record, unfinished) & snapshot.gone) for stored in suspects)
    gone_leases = snapshot.leased & snapshot.gone
    named = snapshot.named_sessions()
    return Decisions(
        end=tuple(stored for stored in snapshot.dead() if _key(stored) in abandoned),
        requested=tuple(
            stored
            for stored in snapshot.active()
            if stored.is_deletion_requested and (not snapshot.is_held(stored) or stored.record.session_uuid in overdue)
        ),
        finish=tuple(
            stored
            for stored in snapshot.records
            if stored.record.phase is Phase.ENDING
            and (not snapshot.is_held(stored) or stored.record.session_uuid in overdue)
        ),
        forget=tuple(
            (stored, stored.record.holders & snapshot.gone)
            for stored in held
            if stored.record.phase is Phase.ACTIVE and stored.record.holders & snapshot.gone
        ),
        undo=tuple((stored, replicas) for stored, replicas in undo if replicas),
        orphans=tuple(sorted(_up_to(history.unnamed, storage_since))),
        orphan_tables=tuple(sorted(_up_to(history.unnamed_tables, storage_since))),
        leases=tuple(sorted(gone_leases - named_replicas(snapshot.records))) if gone_leases else (),
        purge=tuple(entry for entry in snapshot.trash if not _is_location_of(entry, named)),
    )


def confirm_orphans(decisions: Decisions, records: Iterable[StoredRecord]) -> Decisions:
    """The same decisions, without what they decided for want of a record that is there after all.

    Args:
        decisions: Of a look whose records may have been old ones.
        records: Session records that were read after that look; of the sessions in question, all there are.
    """
    current = {stored.record.session_uuid: stored.record for stored in records}

    def is_unnamed(key: _TableKey) -> bool:
        record = current.get(key[0])
        return record is not None and record.phase is Phase.ACTIVE and key[1] not in record.directories

    return replace(
        decisions,
        orphans=tuple(session_uuid for session_uuid in decisions.orphans if session_uuid not in current),
        orphan_tables=tuple(filter(is_unnamed, decisions.orphan_tables)),
    )


def due_seconds(history: History, now_seconds: float, grace_period_seconds: float) -> float:
    """The monotonic time at which the next grace period of a record ends; infinite if none runs."""
    running = (history.abandoned, history.requested, history.ending, history.unfinished)
    ends = (first_seen + grace_period_seconds for part in running for first_seen in part.values())
    return min((end for end in ends if end > now_seconds), default=float("inf"))


def named_replicas(records: Iterable[StoredRecord]) -> frozenset[ReplicaId]:
    """All replicas that records name: as holders, or as writers."""
    return frozenset[ReplicaId]().union(*(stored.record.holders | stored.record.writers for stored in records))


def writes_of(record: SessionRecord) -> Iterable[PendingWrite]:
    """What is being written, and can be undone: not what the record holds the outcome of."""
    writes = (*record.writes, *(write for table in record.tables for write in table.writes))
    return tuple(write for write in writes if not write.is_published)


def _gone_writers(record: SessionRecord, unfinished: Set[_WriteKey]) -> frozenset[ReplicaId]:
    """The replicas all of whose writes in the session stood unfinished for long enough."""
    due = {write for write in writes_of(record) if (record.session_uuid, write) in unfinished}
    others = {write.replica for write in writes_of(record) if write not in due}
    return frozenset(write.replica for write in due) - others


def _is_location_of(entry: TrashEntry, sessions: Set[SessionUuid]) -> bool:
    return is_whole_location(entry) and session_of(entry) in sessions


def _key(stored: StoredRecord) -> _RecordKey:
    return stored.record.session_uuid, stored.version


def _since(previous: Mapping[_Key, float], present: Iterable[_Key], seen_seconds: float) -> Mapping[_Key, float]:
    return {key: previous.get(key, seen_seconds) for key in present}


def _up_to(since: Mapping[_Key, float], limit_seconds: float) -> Set[_Key]:
    return {key for key, first_seen_seconds in since.items() if first_seen_seconds <= limit_seconds}
