"""What the reaper may do, decided from what it saw: no I/O, no clock, no randomness.

Why it exists: what is deleted by mistake is lost, so the rules that decide it stand alone, where they can be
read in one go and tried with any history. :mod:`reaper.reaper` looks, asks here, and acts.

Guarantees:

1. An ``ACTIVE`` session with a holder that is not lost is never ended.
2. An ``ACTIVE`` session is ended once each look during the whole grace period found it at the same version,
   with no holder or only lost ones. Any change of its record is a sign of life and begins the period anew.
3. An ``ENDING`` session is finished once it has no holder that is not lost, or was seen ``ENDING`` for the
   grace period.
4. A location is an orphan once each look during the whole grace period found it, with no record that names
   it.
5. Times are those of the reaper's own monotonic clock. What was there is taken to be there only from the end
   of the first look that saw it to the beginning of the last, so a reaper that was paused in the middle of a
   look decides nothing early.
6. Writes of a lost replica in a held ``ACTIVE`` session are undone once each look during the whole
   grace period found them so.
7. A directory in the location of an ``ACTIVE`` session is an orphan once each look during the whole grace period
   found it, and the session's record did not name it. A directory whose name is no UUID never is one: it
   goes with its location.
8. Of the trash, all is purged but the location of a session that still has a record: who ends that session
   will see from it that there was a location.

Guarantees 4 and 7 need looks whose locations and directories were listed before the records were: then a session or
table born in between is in the second list, or in neither.

Source: design, "Session records, leases and the reaper".
"""

from collections.abc import Hashable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import TypeVar

from workspace.records import PendingWrite, Phase, ReplicaId, SessionRecord, SessionUuid, StoredRecord, TableUuid
from workspace.trash import TrashEntry, is_whole_location, session_of

_Key = TypeVar("_Key", bound=Hashable)
_TableKey = tuple[SessionUuid, TableUuid]
_WriteKey = tuple[SessionUuid, PendingWrite]


@dataclass(frozen=True, slots=True)
class Look:
    """What one pass of the reaper saw.

    Attributes:
        locations: The session locations; listed before the records.
        tables: The directories with a UUID for a name in each of them; listed before the records.
        records: All session records.
        leased: The replicas that have a lease.
        lost: The replicas whose lease is lost.
        trash: What was set aside and not purged yet.
        begun_seconds: The reaper's monotonic clock before it looked.
        ended_seconds: The reaper's monotonic clock after it had looked.
    """

    locations: Set[SessionUuid]
    records: tuple[StoredRecord, ...]
    leased: Set[ReplicaId]
    lost: Set[ReplicaId]
    trash: tuple[TrashEntry, ...]
    begun_seconds: float
    ended_seconds: float
    tables: Mapping[SessionUuid, Set[TableUuid]] = field(default_factory=dict)

    def is_held(self, stored: StoredRecord) -> bool:
        """Whether a replica that is not lost holds the session."""
        return not stored.record.holders <= self.lost

    def named_sessions(self) -> Set[SessionUuid]:
        return {stored.record.session_uuid for stored in self.records}

    def writes_of_lost(self) -> Iterable[_WriteKey]:
        """What lost replicas were writing; of a session that nobody holds, its end will tell."""
        for stored in self.records:
            if stored.record.phase is Phase.ACTIVE and self.is_held(stored):
                for write in writes_of(stored.record):
                    if write.replica in self.lost:
                        yield stored.record.session_uuid, write

    def unnamed_tables(self) -> Iterable[_TableKey]:
        for stored in self.records:
            if stored.record.phase is Phase.ACTIVE:
                session_uuid = stored.record.session_uuid
                for table in self.tables.get(session_uuid, frozenset()) - stored.record.directories:
                    yield session_uuid, table


@dataclass(frozen=True, slots=True)
class Watch:
    """What was seen at each look up to now, with the time at which the first of these looks had ended.

    Attributes:
        abandoned: ``ACTIVE`` records, each at one version, whose holders are all lost or that have none.
        ending: Sessions that are ``ENDING``.
        unnamed: Locations that no record names.
        unfinished: Writes of lost replicas.
        unnamed_tables: Directories in locations that their session's record does not name.
    """

    abandoned: Mapping[StoredRecord, float] = field(default_factory=dict)
    ending: Mapping[SessionUuid, float] = field(default_factory=dict)
    unnamed: Mapping[SessionUuid, float] = field(default_factory=dict)
    unfinished: Mapping[_WriteKey, float] = field(default_factory=dict)
    unnamed_tables: Mapping[_TableKey, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decisions:
    """What to do now; each part may be done or left in any order.

    Attributes:
        end: Sessions whose holders are gone.
        finish: Sessions whose end someone else began and did not complete.
        forget: Sessions that go on, with the lost replicas to take out of their holders.
        undo: Sessions with the lost replicas whose writes are to be taken out.
        orphans: Locations to remove.
        orphan_tables: Directories to remove from the locations of sessions that go on.
        leases: Leases of lost replicas that no record names.
        purge: Entries of the trash.
    """

    end: tuple[StoredRecord, ...]
    finish: tuple[StoredRecord, ...]
    forget: tuple[tuple[StoredRecord, frozenset[ReplicaId]], ...]
    undo: tuple[tuple[StoredRecord, frozenset[ReplicaId]], ...]
    orphans: tuple[SessionUuid, ...]
    orphan_tables: tuple[_TableKey, ...]
    leases: tuple[ReplicaId, ...]
    purge: tuple[TrashEntry, ...]


def watched(previous: Watch, look: Look) -> Watch:
    """The watch after one more look."""
    active = [stored for stored in look.records if stored.record.phase is Phase.ACTIVE]
    ending = [stored for stored in look.records if stored.record.phase is Phase.ENDING]
    seen = look.ended_seconds
    return Watch(
        abandoned=_since(previous.abandoned, (s for s in active if not look.is_held(s)), seen),
        ending=_since(previous.ending, (s.record.session_uuid for s in ending), seen),
        unnamed=_since(previous.unnamed, look.locations - look.named_sessions(), seen),
        unfinished=_since(previous.unfinished, look.writes_of_lost(), seen),
        unnamed_tables=_since(previous.unnamed_tables, look.unnamed_tables(), seen),
    )


def decided(watch: Watch, look: Look, grace_period_seconds: float) -> Decisions:
    """What to do after a look that the watch has taken in already."""
    since = look.begun_seconds - grace_period_seconds
    abandoned = _up_to(watch.abandoned, since)
    stuck = _up_to(watch.ending, since)
    orphans = _up_to(watch.unnamed, since)
    unfinished = _up_to(watch.unfinished, since)
    held = [stored for stored in look.records if look.is_held(stored)]
    undo = ((stored, _gone_writers(stored.record, unfinished)) for stored in held)
    return Decisions(
        end=tuple(stored for stored in look.records if stored in abandoned),
        finish=tuple(
            stored
            for stored in look.records
            if stored.record.phase is Phase.ENDING and (not look.is_held(stored) or stored.record.session_uuid in stuck)
        ),
        forget=tuple(
            (stored, stored.record.holders & look.lost)
            for stored in held
            if stored.record.phase is Phase.ACTIVE and stored.record.holders & look.lost
        ),
        undo=tuple((stored, replicas) for stored, replicas in undo if replicas),
        orphans=tuple(sorted(orphans)),
        orphan_tables=tuple(sorted(_up_to(watch.unnamed_tables, since))),
        leases=tuple(sorted((look.leased & look.lost) - named_replicas(look.records))),
        purge=tuple(entry for entry in look.trash if not _is_location_of(entry, look.named_sessions())),
    )


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


def _since(previous: Mapping[_Key, float], present: Iterable[_Key], seen_seconds: float) -> Mapping[_Key, float]:
    return {key: previous.get(key, seen_seconds) for key in present}


def _up_to(since: Mapping[_Key, float], limit_seconds: float) -> Set[_Key]:
    return {key for key, first_seen_seconds in since.items() if first_seen_seconds <= limit_seconds}
