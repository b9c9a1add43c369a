"""The rules for what the reaper removes, without I/O, clock or randomness.

A wrong deletion cannot be undone. Therefore, the rules are pure functions that are easy to review and can be tested
with any history. :mod:`reaper.reaper` reads a snapshot, calls this module to decide, and then acts.

A replica is *gone* when its lease has expired, or when the kubelet reports that its pod has ended. A replica is
*doubted* while its pod is missing or its node does not answer. A doubted replica may still be running. It does not
count as gone, and no grace period begins: after its lease has expired, other replicas need time to adopt its sessions.

Guarantees:

1. An ``ACTIVE`` session with a holder that is not gone is never ended, unless its deletion was requested.
2. An ``ACTIVE`` session is ended if each snapshot during the grace period shows its record at the same version, with
   no holders or only holders that are gone. Any change of the record, or of the lease of a holder, restarts the grace
   period: a replica whose lease is stopped has ended in an orderly way or was replaced.
3. The end of an ``ENDING`` session is completed if all its holders are gone, or if the session was ``ENDING`` for the
   grace period.
4. A session location is an orphan if each snapshot during the grace period shows the location, but no record for it.
5. All times are measured with the reaper's monotonic clock. The duration of a state is measured from the end of the
   first snapshot that shows it to the beginning of the last. Therefore, a reaper that was paused during a snapshot
   does not act too early.
6. If an ``ACTIVE`` session has pending writes of a replica that is gone, and another replica serves the session, the
   writes are undone if each snapshot during the grace period shows them. A change of the lease restarts the grace
   period.
7. A directory in the location of an ``ACTIVE`` session is an orphan if each snapshot during the grace period shows the
   directory, but the session's record does not refer to it. A directory whose name is not a UUID is never an orphan.
   It is removed together with its session location.
8. All entries of the trash are purged, except for the location of a session that still has a record. The process that
   ends this session uses the entry to determine that there was a location.
9. If the deletion of an ``ACTIVE`` session was requested, the reaper ends the session immediately if all its holders
   are gone. Otherwise, a holder ends the session, or the reaper ends it after the grace period.
10. While sessions of a replica that is gone are being adopted, the other sessions of this replica are not ended. This
    ends when the snapshots of a whole grace period show no further adoption. Sessions without holders form one group.

Guarantees 4 and 7 require that each snapshot lists locations and directories before records. If a session or table is
created between the two lists, it is only in the second list or in neither list. If the records of a snapshot may be
outdated, the decisions must be passed to :func:`confirm_orphans` together with records that were read later.

Source: [architecture "Session records, leases and the reaper"].
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TypeVar

from workspace.identifiers import ReplicaId, SessionUuid, TableUuid
from workspace.record_store import StoredRecord, Version
from workspace.records import NO_REPLICA, PendingWrite, Phase, SessionRecord
from workspace.trash_entries import TrashEntry, is_whole_location, session_of

_Key = TypeVar("_Key", bound=Hashable)
_Nobody: Set[ReplicaId] = frozenset()
_NEVER = float("-inf")
_RecordKey = tuple[SessionUuid, Version]
_TableKey = tuple[SessionUuid, TableUuid]
_WriteKey = tuple[SessionUuid, PendingWrite]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state that one pass of the reaper has read.

    Attributes:
        locations: The sessions with a session location. Locations are listed before records.
        records: All session records.
        leased: The replicas that have a lease.
        lost: The replicas whose lease has expired.
        trash: The entries of the trash that have not been purged.
        begun_seconds: The monotonic time before leases and records were read.
        ended_seconds: The monotonic time after leases and records were read.
        tables: The directories in each location whose names are UUIDs. Directories are listed before records.
        storage_begun_seconds: The monotonic time before locations, directories and trash were listed. None means
            ``begun_seconds``.
        ended: The replicas whose pod has ended, as reported by the kubelet.
        doubted: The replicas whose pod is missing or whose node does not answer.
        lease_changes: The monotonic time at which the lease of each replica was last seen to change.
        gone: The replicas that are lost or ended.
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
    lease_changes: Mapping[ReplicaId, float] = field(default_factory=dict)
    gone: Set[ReplicaId] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "gone", self.lost | self.ended)

    @property
    def storage_seconds(self) -> float:
        """The monotonic time before locations, directories and trash were listed."""
        return self.begun_seconds if self.storage_begun_seconds is None else self.storage_begun_seconds

    def has_live_holder(self, stored: StoredRecord) -> bool:
        """Return whether the session has a holder that is not gone."""
        return not stored.record.holders <= self.gone

    def has_certain_holder(self, stored: StoredRecord) -> bool:
        """Return whether the session has a holder that is neither gone nor doubted."""
        return not stored.record.holders <= (self.gone | self.doubted)

    def last_sign_of(self, replicas: Iterable[ReplicaId]) -> float:
        """Return the monotonic time at which one of the replicas last gave a sign of life, or minus infinity."""
        return max((self.lease_changes.get(replica, _NEVER) for replica in replicas), default=_NEVER)

    def active(self) -> Iterable[StoredRecord]:
        """Return the records of all active sessions."""
        return (stored for stored in self.records if stored.record.phase is Phase.ACTIVE)

    def dead(self) -> Iterable[StoredRecord]:
        """Return the records of active sessions without a live holder.

        Sessions whose deletion was requested are not included.
        """
        return (s for s in self.active() if not s.is_deletion_requested and not self.has_live_holder(s))

    def named_sessions(self) -> Set[SessionUuid]:
        """Return the sessions that have a record."""
        return {stored.record.session_uuid for stored in self.records}

    def writes_of_gone(self) -> Iterable[_WriteKey]:
        """Return the writes of gone replicas in active sessions with a live holder."""
        for stored in self.active():
            if self.has_live_holder(stored):
                for write in writes_of(stored.record):
                    if write.replica in self.gone:
                        yield stored.record.session_uuid, write

    def unnamed_tables(self) -> Iterable[_TableKey]:
        """Return the directories of active sessions to which the records do not refer."""
        for stored in self.active():
            session_uuid = stored.record.session_uuid
            found = self.tables.get(session_uuid)
            for table in found - stored.record.directories if found else ():
                yield session_uuid, table


@dataclass(frozen=True, slots=True)
class History:
    """The states that all snapshots up to now show without a break.

    Each state is stored with the time at which the first of these snapshots ended.

    Attributes:
        abandoned: ``ACTIVE`` records, each at one version, whose holders are all gone.
        requested: ``ACTIVE`` sessions whose deletion was requested.
        ending: ``ENDING`` sessions.
        unnamed: Sessions with a location but without a record.
        unfinished: Pending writes of replicas that are gone.
        unnamed_tables: Directories in session locations to which the session's record does not refer.
        waiting: The sessions without a live holder in the last snapshot, and their former holders. A session without
            holders has the former holder ``NO_REPLICA``.
        adopted: The former holders, and the end of the last snapshot that shows the adoption of one of their sessions.
    """

    abandoned: Mapping[_RecordKey, float] = field(default_factory=dict)
    requested: Mapping[SessionUuid, float] = field(default_factory=dict)
    ending: Mapping[SessionUuid, float] = field(default_factory=dict)
    unnamed: Mapping[SessionUuid, float] = field(default_factory=dict)
    unfinished: Mapping[_WriteKey, float] = field(default_factory=dict)
    unnamed_tables: Mapping[_TableKey, float] = field(default_factory=dict)
    waiting: Mapping[SessionUuid, frozenset[ReplicaId]] = field(default_factory=dict)
    adopted: Mapping[ReplicaId, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decisions:
    """The work that is due. All parts are independent of each other.

    Attributes:
        end: Sessions to end because their holders are gone.
        requested: Sessions to end because their deletion was requested.
        finish: Sessions whose end was begun by another process but not completed.
        forget: Active sessions, and the replicas to remove from their holders.
        undo: Active sessions, and the replicas whose writes are to be undone.
        orphans: Sessions whose locations are to be removed because they have no record.
        orphan_tables: Directories to remove from the locations of active sessions.
        leases: Leases to delete, because their replicas are gone and no record refers to them.
        purge: Entries of the trash to purge.
        spared: Sessions that would be due to end, but other sessions of the same holders are being adopted.
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
    spared: tuple[StoredRecord, ...] = ()


def extend_history(previous: History, snapshot: Snapshot) -> History:
    """Return the history extended by a snapshot."""
    active = list(snapshot.active())
    ending = (stored for stored in snapshot.records if stored.record.phase is Phase.ENDING)
    seen = snapshot.ended_seconds
    waiting = {stored.record.session_uuid: _former_holders(stored) for stored in snapshot.dead()}
    abandoned = {_key(s): s.record.holders for s in active if not snapshot.has_live_holder(s)}
    unfinished = {write: (write[1].replica,) for write in snapshot.writes_of_gone()}
    return History(
        abandoned=_since_last_sign(previous.abandoned, abandoned, snapshot),
        requested=_since(previous.requested, (s.record.session_uuid for s in active if s.is_deletion_requested), seen),
        ending=_since(previous.ending, (s.record.session_uuid for s in ending), seen),
        unnamed=_since(previous.unnamed, snapshot.locations - snapshot.named_sessions(), seen),
        unfinished=_since_last_sign(previous.unfinished, unfinished, snapshot),
        unnamed_tables=_since(previous.unnamed_tables, snapshot.unnamed_tables(), seen),
        waiting=waiting,
        adopted=_adopted(previous, snapshot, waiting),
    )


def decide(history: History, snapshot: Snapshot, grace_period_seconds: float) -> Decisions:
    """Return the work that is due.

    Args:
        history: The history, including the last snapshot.
        snapshot: The last snapshot.
        grace_period_seconds: The time for which a state must be observed before the reaper acts on it.
    """
    since = snapshot.begun_seconds - grace_period_seconds
    storage_since = snapshot.storage_seconds - grace_period_seconds
    abandoned = _up_to(history.abandoned, since)
    overdue = _up_to(history.requested, since) | _up_to(history.ending, since)
    unfinished = _up_to(history.unfinished, since)
    due = [stored for stored in snapshot.dead() if _key(stored) in abandoned]
    adopting = {replica for replica, seconds in history.adopted.items() if seconds > since}
    spared = tuple(stored for stored in due if _former_holders(stored) & adopting) if adopting else ()
    held = [stored for stored in snapshot.records if snapshot.has_live_holder(stored)]
    written = {session_uuid for session_uuid, _ in unfinished}
    suspects = (stored for stored in held if stored.record.session_uuid in written)
    undo = ((stored, _gone_writers(stored.record, unfinished) & snapshot.gone) for stored in suspects)
    gone_leases = snapshot.leased & snapshot.gone
    named = snapshot.named_sessions()
    return Decisions(
        end=tuple(stored for stored in due if not _former_holders(stored) & adopting),
        requested=tuple(
            stored
            for stored in snapshot.active()
            if stored.is_deletion_requested
            and (not snapshot.has_live_holder(stored) or stored.record.session_uuid in overdue)
        ),
        finish=tuple(
            stored
            for stored in snapshot.records
            if stored.record.phase is Phase.ENDING
            and (not snapshot.has_live_holder(stored) or stored.record.session_uuid in overdue)
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
        spared=spared,
    )


def forget_silence(history: History) -> History:
    """Return the history without all that depends on the silence of a replica."""
    return History(requested=history.requested, ending=history.ending)


def only_ended(decisions: Decisions) -> Decisions:
    """Return the decisions about what has already ended, or whose end was requested.

    These do not depend on the silence of a replica, and they free space on a full disk.
    """
    return replace(decisions, end=(), forget=(), undo=(), orphans=(), orphan_tables=(), leases=(), spared=())


def confirm_orphans(decisions: Decisions, records: Iterable[StoredRecord]) -> Decisions:
    """Return the decisions without orphans that have a record after all.

    Args:
        decisions: The decisions for a snapshot whose records may be outdated.
        records: Records that were read after the snapshot. They must include the records of all sessions with orphans.
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


def confirm_gone(decisions: Decisions, gone: Set[ReplicaId]) -> Decisions:
    """Return the decisions without changes of records for replicas that have returned.

    Args:
        decisions: The decisions for a snapshot, whose leases are older than its records.
        gone: The replicas that are gone by leases that were listed after the snapshot.
    """
    forget = ((stored, replicas & gone) for stored, replicas in decisions.forget)
    undo = ((stored, replicas & gone) for stored, replicas in decisions.undo)
    return replace(
        decisions,
        forget=tuple((stored, replicas) for stored, replicas in forget if replicas),
        undo=tuple((stored, replicas) for stored, replicas in undo if replicas),
    )


def due_seconds(history: History, now_seconds: float, grace_period_seconds: float) -> float:
    """Return the monotonic time at which the next grace period of a record ends.

    The result is infinite if there is no such grace period.
    """
    running = (history.abandoned, history.requested, history.ending, history.unfinished, history.adopted)
    ends = (first_seen + grace_period_seconds for part in running for first_seen in part.values())
    return min((end for end in ends if end > now_seconds), default=float("inf"))


def named_replicas(records: Iterable[StoredRecord]) -> frozenset[ReplicaId]:
    """Return all replicas that are holders or writers in the records."""
    return frozenset[ReplicaId]().union(*(stored.record.holders | stored.record.writers for stored in records))


def writes_of(record: SessionRecord) -> Iterable[PendingWrite]:
    """Return the pending writes that can be undone, which are not published."""
    writes = (*record.writes, *(write for table in record.tables for write in table.writes))
    return tuple(write for write in writes if not write.is_published)


def _former_holders(stored: StoredRecord) -> frozenset[ReplicaId]:
    return stored.record.holders or frozenset({NO_REPLICA})


def _adopted(
    previous: History, snapshot: Snapshot, waiting: Mapping[SessionUuid, frozenset[ReplicaId]]
) -> Mapping[ReplicaId, float]:
    """Return when the sessions of each former holder were last seen to be adopted."""
    adopted = dict(previous.adopted)
    if previous.waiting:
        for stored in snapshot.active():
            former = previous.waiting.get(stored.record.session_uuid)
            if former is not None and snapshot.has_live_holder(stored):
                adopted |= dict.fromkeys(former - stored.record.holders, snapshot.ended_seconds)
    still_waiting = frozenset[ReplicaId]().union(*waiting.values())
    return {replica: seconds for replica, seconds in adopted.items() if replica in still_waiting}


def _gone_writers(record: SessionRecord, unfinished: Set[_WriteKey]) -> frozenset[ReplicaId]:
    """Return the replicas whose writes have all been unfinished for the grace period."""
    due = {write for write in writes_of(record) if (record.session_uuid, write) in unfinished}
    others = {write.replica for write in writes_of(record) if write not in due}
    return frozenset(write.replica for write in due) - others


def _is_location_of(entry: TrashEntry, sessions: Set[SessionUuid]) -> bool:
    return is_whole_location(entry) and session_of(entry) in sessions


def _key(stored: StoredRecord) -> _RecordKey:
    return stored.record.session_uuid, stored.version


def _since(previous: Mapping[_Key, float], present: Iterable[_Key], seen_seconds: float) -> Mapping[_Key, float]:
    return {key: previous.get(key, seen_seconds) for key in present}


def _since_last_sign(
    previous: Mapping[_Key, float], present: Mapping[_Key, Iterable[ReplicaId]], snapshot: Snapshot
) -> Mapping[_Key, float]:
    """Return since when each state lasts. A sign of life of one of its replicas restarts it."""
    since = _since(previous, present, snapshot.ended_seconds)
    return {key: max(since[key], snapshot.last_sign_of(replicas)) for key, replicas in present.items()}


def _up_to(since: Mapping[_Key, float], limit_seconds: float) -> Set[_Key]:
    return {key for key, first_seen_seconds in since.items() if first_seen_seconds <= limit_seconds}
