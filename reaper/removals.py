"""The individual actions of the reaper.

All methods block and can be called from any thread.

Guarantees:

1. A session location is removed only if it is an orphan (:mod:`reaper.decisions`), or if its session has ended by a
   compare-and-swap on the record.
2. In the location of an active session, only directories to which the record does not refer are removed. Writes are
   undone only by a compare-and-swap on the record.
3. Errors are logged and reported, but not raised. Each method returns whether the action succeeded. If another process
   performed the action first, the action counts as successful.
4. When the reaper must stop, a purge stops soon, and the end of a session stops after the current step. Another
   process can complete both later.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from reaper import reports
from workspace.identifiers import ReplicaId, SessionUuid, TableUuid
from workspace.leases import Leases
from workspace.locations import SessionLocations
from workspace.record_changes import remove_holders, remove_writes
from workspace.record_store import RecordConflictError, RecordError, RecordNotFoundError, SessionRecords, StoredRecord
from workspace.records import SessionRecord
from workspace.session_end import EndingSession, begin_end, complete_end, log_session_end
from workspace.storage_paths import deletion_message, file_system_of
from workspace.trash_entries import TrashEntry

Release = Callable[[SessionRecord], None]
"""A function that releases a session at its backend, if possible.

It takes bounded time and does not raise exceptions.
"""


class _StoppedError(Exception):
    """Raised if this reaper must not continue the current action."""


@dataclass(slots=True)
class _Outcome:
    succeeded: bool = True


class Removals:
    """The actions on sessions, orphans, leases and trash.

    For the guarantees, see the module docstring.

    Args:
        records: The session records.
        leases: The leases of the gateway replicas.
        locations: The session locations of the default temporary workspace.
        release: A function that releases a session at its backend.
        should_stop: A function that returns whether this reaper must stop.
        log: The logger for events.
        report: A function that is called with a report of each action.
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
        report: reports.ReportHandler,
    ) -> None:
        self._records = records
        self._leases = leases
        self._locations = locations
        self._release = release
        self._should_stop = should_stop
        self._log = log
        self._report = report

    def begin_end(self, stored: StoredRecord) -> tuple[bool, EndingSession | None]:
        """Begin the end of a session.

        The session is marked as ending and released at its backend, and its locations are moved to the trash.

        Returns:
            Whether the action succeeded, and the argument for :meth:`complete_end` if the session has not ended yet.
        """
        ending: EndingSession | None = None
        with self._logged_failures("end_session", stored, session=stored.record.session_uuid) as outcome:
            ending = begin_end(self._records, self._locations, stored, self._release_unless_stopped)
        return outcome.succeeded, ending

    def complete_end(self, stored: StoredRecord, ending: EndingSession, reason: str) -> bool:
        """Delete the record of a session whose locations are in the trash."""
        record = stored.record
        with self._logged_failures("end_session", stored, session=record.session_uuid) as outcome:
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
                self._report(reports.SessionReaped(stored, reason, ended.locations))
        return outcome.succeeded

    def change(self, stored: StoredRecord, forget: frozenset[ReplicaId], undo: frozenset[ReplicaId]) -> bool:
        """Remove replicas that are gone from the record of an active session.

        Args:
            stored: The record of the session.
            forget: The replicas to remove from the holders.
            undo: The replicas whose pending writes are removed.
        """
        record = stored.record
        with self._logged_failures("change_record", stored, session=record.session_uuid) as outcome:
            tables = tuple(t.name for t in record.tables if any(write.replica in undo for write in t.writes))
            kept = remove_writes(record, undo) if undo else record
            self._records.replace(remove_holders(kept, forget), stored.version)
            if forget:
                self._log.info("lost_holders_forgotten", session=record.session_uuid, replicas=sorted(forget))
                self._report(reports.HoldersForgotten(stored, forget))
            if undo:
                self._log.warning(
                    "unfinished_writes_undone", session=record.session_uuid, tables=list(tables), replicas=sorted(undo)
                )
                self._report(reports.WritesUndone(stored, undo, tables))
        return outcome.succeeded

    def remove_orphan(self, session_uuid: SessionUuid) -> bool:
        """Move the locations of a session without a record to the trash."""
        with self._logged_failures("remove_orphan", None, session=session_uuid) as outcome:
            for location in self._locations.move_to_trash(session_uuid):
                self._log.info(
                    "orphan_location_deleted",
                    message=deletion_message(location),
                    location=str(location),
                    file_system=file_system_of(location),
                    session=session_uuid,
                )
                self._report(reports.OrphanRemoved(session_uuid, location))
        return outcome.succeeded

    def remove_orphan_table(self, stored: StoredRecord, table_uuid: TableUuid) -> bool:
        """Remove a directory to which the record of its session does not refer."""
        session_uuid = stored.record.session_uuid
        with self._logged_failures(
            "remove_orphan_table", stored, session=session_uuid, table_uuid=table_uuid
        ) as outcome:
            if self._locations.remove_table(session_uuid, table_uuid):
                self._log.info("orphan_table_deleted", session=session_uuid, table_uuid=table_uuid)
                self._report(reports.OrphanTableRemoved(stored, table_uuid))
        return outcome.succeeded

    def delete_lease(self, replica: ReplicaId) -> bool:
        """Delete the lease of a replica that is gone."""
        with self._logged_failures("delete_lease", None, replica=replica) as outcome:
            self._leases.delete(replica)
            self._log.info("lost_lease_deleted", replica=replica)
            self._report(reports.LeaseRemoved(replica))
        return outcome.succeeded

    def purge(self, entry: TrashEntry) -> bool:
        """Permanently remove an entry of the trash."""
        begun_seconds = time.monotonic()
        with self._logged_failures("purge_trash", None, entry=entry) as outcome:
            if self._locations.purge(entry, self._should_stop):
                self._report(reports.TrashPurged(time.monotonic() - begun_seconds))
        return outcome.succeeded

    def trash_of(self, session_uuid: SessionUuid) -> Sequence[TrashEntry]:
        """Return the entries of the trash that belonged to a session.

        The result is empty if the entries cannot be listed, because the next pass lists them again.
        """
        with self._logged_failures("list_trash", None, session=session_uuid):
            return self._locations.trash_of(session_uuid)
        return ()

    def _release_unless_stopped(self, record: SessionRecord) -> None:
        self._release(record)
        if self._should_stop():
            raise _StoppedError

    @contextmanager
    def _logged_failures(self, action: str, stored: StoredRecord | None, **fields: str) -> Iterator[_Outcome]:
        """Log and report errors of the block instead of raising them.

        A later pass tries the action again.
        """
        outcome = _Outcome()
        try:
            yield outcome
        except _StoppedError:
            self._log.debug("action_left_to_next_reaper", action=action, **fields)
        except (RecordConflictError, RecordNotFoundError):
            self._log.debug("session_changed_concurrently", action=action, **fields)
        except (RecordError, OSError) as error:
            outcome.succeeded = False
            self._log.warning("reaper_action_failed", action=action, reason=str(error), **fields)
            self._report(reports.ActionFailed(action, str(error), stored, " ".join(fields.values())))
