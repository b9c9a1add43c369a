"""The reaper: looks again and again at what is there, and removes what is dead.

Why it exists: a gateway that dies cleans nothing up. Each pass looks at everything anew (level-triggered), so
nothing depends on a message that may get lost, and a pass that was cut short anywhere is made good by the
next.

Guarantees:

1. A pass that cannot read all records, leases and locations changes nothing.
2. A location is removed only for a record that a compare-and-swap of this reaper moved, or found, at its end;
   or for want of any record (:mod:`reaper.decisions`).
3. What fails for one session, location or trash entry does not stop the others.
4. Of a session that goes on, only directories are removed that its record does not name, and writes are undone only
   by a compare-and-swap on its record.
5. Several reapers may run at once: they do nothing twice that may be done once only.
6. Time during which it could not look does not count: grace periods begin anew after a pass that was held
   back.
7. A session whose holders are gone is ended after at most the lease duration, the grace period and three
   passes; what a lost replica was writing is taken out of its record in the same time. An orphan is removed after
   the grace period and two passes. All while
   the storage answers.

The log's event names and fields are an interface.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog

from reaper.decisions import Decisions, Look, Watch, decided, named_replicas, watched
from reaper.table_directories import Known, TableDirectories
from workspace.leases import LeaseObserver, Leases
from workspace.locations import SessionLocations
from workspace.records import (
    RecordConflictError,
    RecordNotFoundError,
    RecordsUnavailableError,
    ReplicaId,
    SessionRecords,
    SessionUuid,
    StoredRecord,
    TableUuid,
)
from workspace.roots import HomeMovedError
from workspace.sessions import end_session, left, log_ended, without_writes
from workspace.trash import TrashEntry


@dataclass(slots=True)
class PassSummary:
    """What one pass did.

    Attributes:
        held_back: Why the pass changed nothing; None if it could look.
        reaped: Sessions that this pass ended.
        orphans: Sessions whose location was removed, with no record left.
        forgotten: Lost replicas that were taken out of the holders of living sessions, with repetitions.
        undone: Sessions from which writes of lost replicas were taken out.
        orphan_tables: Directories that were removed from sessions that go on.
        leases: Lost replicas whose lease was deleted.
        purged: The number of trash entries purged.
        failures: The number of single things that failed; each was logged.
    """

    held_back: str | None = None
    reaped: list[SessionUuid] = field(default_factory=list)
    orphans: list[SessionUuid] = field(default_factory=list)
    forgotten: list[ReplicaId] = field(default_factory=list)
    undone: list[SessionUuid] = field(default_factory=list)
    orphan_tables: list[TableUuid] = field(default_factory=list)
    leases: list[ReplicaId] = field(default_factory=list)
    purged: int = 0
    failures: int = 0


class Reaper:
    """Looks and removes; see the module's guarantees. Not to be shared between threads.

    Args:
        records: The session records.
        leases: The leases of gateway replicas.
        locations: The session locations of the default temporary workspace.
        lease_duration_seconds: As configured for all replicas of the workspace.
        grace_period_seconds: How long something must look dead before it is removed.
        monotonic: A clock, in seconds.
        log: Where events go.
    """

    def __init__(
        self,
        *,
        records: SessionRecords,
        leases: Leases,
        locations: SessionLocations,
        lease_duration_seconds: float,
        grace_period_seconds: float,
        monotonic: Callable[[], float],
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._records = records
        self._leases = leases
        self._locations = locations
        self._grace_period_seconds = grace_period_seconds
        self._monotonic = monotonic
        self._log = log
        self._observer = LeaseObserver(lease_duration_seconds)
        self._watch = Watch()
        self._tables = TableDirectories(locations)
        self._told: Set[SessionUuid] = frozenset()

    def run(self, stop: threading.Event, period_seconds: float) -> None:
        """Makes passes until told to stop; an unexpected error ends a pass, not the loop.

        Raises: HomeMovedError; what this reaper was made with is not the truth any more.
        """
        while not stop.is_set():
            try:
                self.run_once()
            except HomeMovedError:
                raise
            except Exception:  # noqa: BLE001 - a top loop: an unexpected error must not end the clean-up
                self._log.exception("reaper_pass_failed")
            stop.wait(period_seconds)

    def run_once(self) -> PassSummary:
        try:
            look = self._look()
        except HomeMovedError:
            raise
        except (RecordsUnavailableError, OSError) as error:
            self._watch = Watch()
            self._log.warning("reaper_held_back", reason=str(error))
            return PassSummary(held_back=str(error))
        self._watch = watched(self._watch, look)
        return self._act(decided(self._watch, look, self._grace_period_seconds))

    def _look(self) -> Look:
        begun_seconds = self._monotonic()
        locations = self._locations.list()
        inside = self._tables.look(locations, begun_seconds)
        leases = self._leases.list()
        records = tuple(self._records.list())
        trash = tuple(self._locations.trash())
        ended_seconds = self._monotonic()
        self._tell_of(inside)
        self._observer.observe(leases, named_replicas(records), ended_seconds)
        return Look(
            locations=locations,
            records=records,
            leased=leases.keys(),
            lost=self._observer.lost(begun_seconds),
            trash=trash,
            begun_seconds=begun_seconds,
            ended_seconds=ended_seconds,
            tables={session_uuid: known.tables for session_uuid, known in inside.items()},
        )

    def _tell_of(self, inside: Mapping[SessionUuid, Known]) -> None:
        """Logs what the reaper cannot judge in locations: once, while it stays so."""
        odd = {session_uuid: known for session_uuid, known in inside.items() if known.foreign or known.error}
        for session_uuid in sorted(odd.keys() - self._told):
            known = odd[session_uuid]
            if known.error is not None:
                self._log.warning("location_not_listed", session=session_uuid, reason=str(known.error))
            else:
                self._log.info("foreign_directories_left", session=session_uuid, directories=known.foreign)
        self._told = odd.keys()

    def _act(self, decisions: Decisions) -> PassSummary:
        summary = PassSummary()
        for stored in decisions.finish:
            self._end(stored, "end_not_finished", summary)
        for stored in decisions.end:
            self._end(stored, "holders_lost", summary)
        for stored, replicas in decisions.forget:
            self._forget(stored, replicas, summary)
        for stored, replicas in decisions.undo:
            self._undo(stored, replicas, summary)
        for session_uuid in decisions.orphans:
            self._remove_orphan(session_uuid, summary)
        for session_uuid, table_uuid in decisions.orphan_tables:
            self._remove_orphan_table(session_uuid, table_uuid, summary)
        for replica in decisions.leases:
            self._delete_lease(replica, summary)
        for entry in decisions.purge:
            self._purge(entry, summary)
        return summary

    def _end(self, stored: StoredRecord, reason: str, summary: PassSummary) -> None:
        record = stored.record
        with self._going_on("end_session", summary, session=record.session_uuid):
            ended = end_session(self._records, self._locations, stored)
            if ended is None:
                return
            log_ended(self._log, ended)
            self._log.info(
                "session_reaped",
                session=record.session_uuid,
                principal=record.principal,
                reason=reason,
                holders=sorted(record.holders),
            )
            summary.reaped.append(record.session_uuid)

    def _forget(self, stored: StoredRecord, replicas: frozenset[ReplicaId], summary: PassSummary) -> None:
        session_uuid = stored.record.session_uuid
        with self._going_on("forget_holders", summary, session=session_uuid):
            self._records.replace(left(stored.record, replicas), stored.version)
            self._log.info("lost_holders_forgotten", session=session_uuid, replicas=sorted(replicas))
            summary.forgotten.extend(sorted(replicas))

    def _undo(self, stored: StoredRecord, replicas: frozenset[ReplicaId], summary: PassSummary) -> None:
        record = stored.record
        with self._going_on("undo_writes", summary, session=record.session_uuid):
            self._records.replace(without_writes(record, replicas), stored.version)
            self._log.warning(
                "unfinished_writes_undone",
                session=record.session_uuid,
                tables=[t.name for t in record.tables if any(write.replica in replicas for write in t.writes)],
                replicas=sorted(replicas),
            )
            summary.undone.append(record.session_uuid)

    def _remove_orphan_table(self, session_uuid: SessionUuid, table_uuid: TableUuid, summary: PassSummary) -> None:
        with self._going_on("remove_orphan_table", summary, session=session_uuid, table_uuid=table_uuid):
            if not self._locations.remove_table(session_uuid, table_uuid):
                return
            self._log.info("orphan_table_deleted", session=session_uuid, table_uuid=table_uuid)
            summary.orphan_tables.append(table_uuid)

    def _remove_orphan(self, session_uuid: SessionUuid, summary: PassSummary) -> None:
        with self._going_on("remove_orphan", summary, session=session_uuid):
            locations = self._locations.set_aside(session_uuid)
            if not locations:
                return
            for location in map(str, locations):
                self._log.info(
                    "orphan_location_deleted", location=location, file_system="file:///", session=session_uuid
                )
            summary.orphans.append(session_uuid)
            for entry in self._locations.trash_of(session_uuid):
                self._locations.purge(entry)

    def _delete_lease(self, replica: ReplicaId, summary: PassSummary) -> None:
        with self._going_on("delete_lease", summary, replica=replica):
            self._leases.delete(replica)
            self._log.info("lost_lease_deleted", replica=replica)
            summary.leases.append(replica)

    def _purge(self, entry: TrashEntry, summary: PassSummary) -> None:
        with self._going_on("purge_trash", summary, entry=entry):
            self._locations.purge(entry)
            summary.purged += 1

    @contextmanager
    def _going_on(self, action: str, summary: PassSummary, **fields: str) -> Iterator[None]:
        """Keeps what went wrong with one thing from stopping the others; the next pass looks at it again."""
        try:
            yield
        except (RecordConflictError, RecordNotFoundError):
            self._log.debug("session_changed_meanwhile", action=action, **fields)
        except (RecordsUnavailableError, OSError) as error:
            summary.failures += 1
            self._log.warning("reaper_action_failed", action=action, reason=str(error), **fields)
