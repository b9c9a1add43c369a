"""The steps that end a session, shared by the gateway and the reaper.

====================  =============================================================================
Step                  Effect
====================  =============================================================================
:func:`begin_end`     Marks the record as ``ENDING`` and moves the session locations to the trash.
:func:`complete_end`  Deletes the record.
:func:`end_session`   Runs both steps and purges the files.
====================  =============================================================================

Guarantees:

1. When a session record is ``ENDING``, its phase never changes again; see :mod:`workspace.record_changes`.
2. The record is deleted only after the session locations in all roots have been moved to the trash.
3. Each function can be stopped at any instruction, and can be repeated in the same or another process. Several
   processes may run the functions concurrently. At most one caller gets the result that it ended the session.
4. :func:`begin_end` does not change an ``ACTIVE`` session that has changed since the caller read it. It also does not
   change anything if an ``ENDING`` session has ended since then, even if a later session has the same name.

Not guaranteed: The end of a session may not be logged. If a process dies between the deletion of the record and the
log event, the event is missing.

Source: [architecture "Session records, leases and the reaper"].
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from workspace.identifiers import SessionUuid
from workspace.locations import SessionLocations
from workspace.record_changes import mark_ending
from workspace.record_store import RecordConflictError, RecordNotFoundError, SessionRecords, StoredRecord
from workspace.records import Phase, SessionRecord
from workspace.storage_paths import StoragePath, deletion_message, file_system_of
from workspace.trash_entries import is_whole_location, location_of


@dataclass(frozen=True, slots=True)
class EndingSession:
    """A session whose locations are in the trash and whose record still exists.

    Attributes:
        stored: The session record in the phase ``ENDING``.
        locations: The former paths of the session locations.
    """

    stored: StoredRecord
    locations: tuple[StoragePath, ...]


@dataclass(frozen=True, slots=True)
class EndedSession:
    """A session that has ended.

    Attributes:
        record: The last state of the session record.
        locations: The former paths of the session locations.
        purge_error: The error that left files of the session in the trash. A later purge removes them. None if there
            was no error.
    """

    record: SessionRecord
    locations: tuple[StoragePath, ...]
    purge_error: OSError | None = None


def end_session(records: SessionRecords, locations: SessionLocations, stored: StoredRecord) -> EndedSession | None:
    """End a session and purge its files.

    See :func:`begin_end` and :func:`complete_end` for the arguments, results and exceptions.
    """
    ending = begin_end(records, locations, stored)
    done = None if ending is None else complete_end(records, ending)
    return done and replace(done, purge_error=_purge(locations, done.record.session_uuid))


def begin_end(
    records: SessionRecords,
    locations: SessionLocations,
    stored: StoredRecord,
    release: Callable[[SessionRecord], None] = lambda record: None,
) -> EndingSession | None:
    """Mark a session as ``ENDING`` and move its locations to the trash.

    Args:
        records: The storage of the session record.
        locations: The session locations.
        stored: The session record as the caller read it when it decided to end the session.
        release: A function that ends the session at its backend, as far as possible. It is called after the session is
            marked as ``ENDING`` and before the locations are moved, so that the backend no longer writes to the
            locations. Exceptions are propagated.

    Returns:
        The argument for :func:`complete_end`, or None if another process ended the session first.

    Raises:
        RecordConflictError: If the record was ``ACTIVE`` and has changed since it was read. The caller must decide
            again.
        RecordsUnavailableError: If the record storage cannot answer now. The session may be in any step of its end.
            Call the function again.
        OSError: If the locations cannot be moved. Call the function again.
    """
    try:
        ending = _mark_ending(records, stored)
    except RecordNotFoundError:
        return None
    release(ending.record)
    session_uuid = ending.record.session_uuid
    deleted = set[StoragePath](locations.move_to_trash(session_uuid))
    if stored.record.phase is Phase.ENDING:  # an earlier attempt may have moved the locations
        deleted |= {location_of(entry) for entry in locations.trash_of(session_uuid) if is_whole_location(entry)}
    return EndingSession(ending, tuple(sorted(deleted, key=str)))


def complete_end(records: SessionRecords, ending: EndingSession) -> EndedSession | None:
    """Delete the record of a session whose locations are in the trash.

    Returns:
        The ended session, or None if another process ended the session first.

    Raises:
        RecordsUnavailableError: If the record storage cannot answer now. Read the record and call :func:`begin_end`
            again.
    """
    stored = ending.stored
    try:
        records.delete(stored.record.name, stored.version)
    except (RecordNotFoundError, RecordConflictError):
        # A conflict means that a later session has the same name, or that the deletion of this record was requested.
        # In the second case, the next caller ends the session.
        return None
    return EndedSession(stored.record, ending.locations)


def log_session_end(log: structlog.typing.FilteringBoundLogger, ended: EndedSession) -> None:
    """Log the end of a session.

    The gateway and the reaper use this function so that their log events are the same.
    """
    record = ended.record
    for location in ended.locations:
        log.info(
            "session_location_deleted",
            message=deletion_message(location),
            location=str(location),
            file_system=file_system_of(location),
            session=record.session_uuid,
            principal=record.principal,
        )
    if ended.purge_error is not None:
        log.warning("trash_purge_failed", session=record.session_uuid, reason=str(ended.purge_error))


def _mark_ending(records: SessionRecords, stored: StoredRecord) -> StoredRecord:
    if stored.record.phase is Phase.ENDING:
        now = records.read(stored.record.name)
        if now.record.session_uuid != stored.record.session_uuid:  # a later session of the same name
            raise RecordNotFoundError(stored.record.name, f"The session {stored.record.session_uuid} has ended.")
        return now
    return records.replace(mark_ending(stored.record), stored.version)


def _purge(locations: SessionLocations, session_uuid: SessionUuid) -> OSError | None:
    try:
        for entry in locations.trash_of(session_uuid):
            locations.purge(entry)
    except OSError as error:
        return error
    return None
