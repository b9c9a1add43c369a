"""What the reaper does, one thing at a time; each method blocks, and may run in any thread.

Guarantees:

1. A location is removed only for a record that a compare-and-swap moved, or found, at its end; or for want of any
   record (:mod:`reaper.decisions`).
2. Of a session that goes on, only directories are removed that its record does not name, and writes are undone only
   by a compare-and-swap on its record.
3. What cannot be done is logged and reported, and raises nothing; each method returns whether it succeeded. That
   somebody else was faster is a success.
4. Once told to stop, a purge ends soon, and an end goes no further than the step it is in; both may be completed later,
   here or elsewhere.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from reaper.reports import (
    ActionFailed,
    HoldersForgotten,
    LeaseRemoved,
    OrphanRemoved,
    OrphanTableRemoved,
    ReportHandler,
    SessionReaped,
    TrashPurged,
    WritesUndone,
)
from workspace.leases import Leases
from workspace.locations import SessionLocations
from workspace.record_changes import remove_holders, remove_writes
from workspace.records import (
    RecordConflictError,
    RecordError,
    RecordNotFoundError,
    ReplicaId,
    SessionRecord,
    SessionRecords,
    SessionUuid,
    StoredRecord,
    TableUuid,
)
from workspace.session_end import EndingSession, begin_end, complete_end, log_session_end
from workspace.storage_paths import deletion_message, file_system_of
from workspace.trash_entries import TrashEntry

Release = Callable[[SessionRecord], None]
"""Ends a session at its backend, as well as that can be done in short time; raises nothing."""


class ToldToStopError(Exception):
    """Whoever does this now, it must not be this reaper."""


@dataclass(slots=True)
class _Outcome:
    succeeded: bool = True


class Removals:
    """See the module's guarantees.

    Args:
        records: The session records.
        leases: The leases of gateway replicas.
        locations: The session locations of the default temporary workspace.
        release: Ends a session at its backend.
        should_stop: Whether this reaper must leave off.
        log: Where events go.
        report: Gets what was done.
    """

    def __init__(
        self,
        *,
        records: SessionRecords,
        leases: Leases,
        locations: SessionLocations,
        release: Release,
        should_stop: Callable[[], bool],
        log: structlog.typing.FilteringBoundLogger,
        report: ReportHandler,
    ) -> None:
        self._records = records
        self._leases = leases
        self._locations = locations
        self._release = release
        self._should_stop = should_stop
        self._log = log
        self._report = report

    def begin_end(self, stored: StoredRecord) -> tuple[bool, EndingSession | None]:
        """Marks a session as ending and sets its locations aside.

        Returns: Whether it succeeded; and what :meth:`complete_end` is to be called with, if there is more to do.
        """
        ending: EndingSession | None = None
        with self._going_on("end_session", stored, session=stored.record.session_uuid) as outcome:
            ending = begin_end(self._records, self._locations, stored, self._release_and_go_on)
        return outcome.succeeded, ending

    def complete_end(self, stored: StoredRecord, ending: EndingSession, reason: str) -> bool:
        """Deletes the record of a session whose locations were set aside."""
        record = stored.record
        with self._going_on("end_session", stored, session=record.session_uuid) as outcome:
            ended = complete_end(self._records, ending)
            if ended is not None:
                log_session_end(self._log, ended)
                self._log.info(
                    "session_reaped",
                    session=record.session_uuid,
                    principal=record.principal,
                    reason=reason,
                    holders=sorted(record.holders),
                )
                self._report(SessionReaped(stored, reason, ended.locations))
        return outcome.succeeded

    def change(self, stored: StoredRecord, forget: frozenset[ReplicaId], undo: frozenset[ReplicaId]) -> bool:
        """Takes replicas that are gone out of a session that goes on.

        Args:
            stored: The session's record.
            forget: Who holds it no more.
            undo: Whose writes are taken out.
        """
        record = stored.record
        with self._going_on("change_record", stored, session=record.session_uuid) as outcome:
            tables = tuple(t.name for t in record.tables if any(write.replica in undo for write in t.writes))
            kept = remove_writes(record, undo) if undo else record
            self._records.replace(remove_holders(kept, forget), stored.version)
            if forget:
                self._log.info("lost_holders_forgotten", session=record.session_uuid, replicas=sorted(forget))
                self._report(HoldersForgotten(stored, forget))
            if undo:
                self._log.warning(
                    "unfinished_writes_undone",
                    session=record.session_uuid,
                    tables=list(tables),
                    replicas=sorted(undo),
                )
                self._report(WritesUndone(stored, undo, tables))
        return outcome.succeeded

    def remove_orphan(self, session_uuid: SessionUuid) -> bool:
        with self._going_on("remove_orphan", None, session=session_uuid) as outcome:
            for location in self._locations.move_to_trash(session_uuid):
                self._log.info(
                    "orphan_location_deleted",
                    message=deletion_message(location),
                    location=str(location),
                    file_system=file_system_of(location),
                    session=session_uuid,
                )
                self._report(OrphanRemoved(session_uuid, location))
        return outcome.succeeded

    def remove_orphan_table(self, stored: StoredRecord, table_uuid: TableUuid) -> bool:
        session_uuid = stored.record.session_uuid
        with self._going_on("remove_orphan_table", stored, session=session_uuid, table_uuid=table_uuid) as outcome:
            if self._locations.remove_table(session_uuid, table_uuid):
                self._log.info("orphan_table_deleted", session=session_uuid, table_uuid=table_uuid)
                self._report(OrphanTableRemoved(stored, table_uuid))
        return outcome.succeeded

    def delete_lease(self, replica: ReplicaId) -> bool:
        with self._going_on("delete_lease", None, replica=replica) as outcome:
            self._leases.delete(replica)
            self._log.info("lost_lease_deleted", replica=replica)
            self._report(LeaseRemoved(replica))
        return outcome.succeeded

    def purge(self, entry: TrashEntry) -> bool:
        begun_seconds = time.monotonic()
        with self._going_on("purge_trash", None, entry=entry) as outcome:
            if self._locations.purge(entry, self._should_stop):
                self._report(TrashPurged(time.monotonic() - begun_seconds))
        return outcome.succeeded

    def trash_of(self, session_uuid: SessionUuid) -> Sequence[TrashEntry]:
        """What is in the trash of a session; nothing if that cannot be found out, since the next look will."""
        with self._going_on("list_trash", None, session=session_uuid):
            return self._locations.trash_of(session_uuid)
        return ()

    def _release_and_go_on(self, record: SessionRecord) -> None:
        self._release(record)
        if self._should_stop():
            raise ToldToStopError

    @contextmanager
    def _going_on(self, action: str, stored: StoredRecord | None, **fields: str) -> Iterator[_Outcome]:
        """Keeps what went wrong with one thing from stopping the others; a later pass looks at it again."""
        outcome = _Outcome()
        try:
            yield outcome
        except ToldToStopError:
            self._log.debug("left_to_the_next_reaper", action=action, **fields)
        except (RecordConflictError, RecordNotFoundError):
            self._log.debug("session_changed_meanwhile", action=action, **fields)
        except (RecordError, OSError) as error:
            outcome.succeeded = False
            self._log.warning("reaper_action_failed", action=action, reason=str(error), **fields)
            self._report(ActionFailed(action, str(error), stored, " ".join(fields.values())))
