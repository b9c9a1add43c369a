"""The end of a session, in steps that gateway and reaper share.

====================  =============================================================================
step                  effect
====================  =============================================================================
:func:`begin_end`     marks the record ``ENDING`` and moves the session locations to the trash
:func:`complete_end`  deletes the record
:func:`end_session`   both, and purges the files
====================  =============================================================================

Guarantees:

1. The record of a session never leaves ``ENDING``; see :mod:`workspace.record_changes`.
2. The record is deleted only after the session locations of all roots have moved to the trash.
3. Each function may be stopped at any instruction and repeated, here or in another process. Several may run
   concurrently. At most one caller learns that it ended the session.
4. If an ``ACTIVE`` session has changed since the caller read it, :func:`begin_end` changes nothing. The same holds for
   an ``ENDING`` session that has ended since, even if a later session has the same name.

Not guaranteed: that the end of every session is logged. A process that dies between the deletion and the log line
leaves none.

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
        stored: The record, which is ``ENDING``.
        locations: The session locations that were deleted.
    """

    stored: StoredRecord
    locations: tuple[StoragePath, ...]


@dataclass(frozen=True, slots=True)
class EndedSession:
    """The result of :func:`complete_end` and :func:`end_session`.

    Attributes:
        record: The last record of the session.
        locations: The session locations that were deleted.
        purge_error: Why files of the session are still in the trash, for a later purge; None if there are none.
    """

    record: SessionRecord
    locations: tuple[StoragePath, ...]
    purge_error: OSError | None = None


def end_session(records: SessionRecords, locations: SessionLocations, stored: StoredRecord) -> EndedSession | None:
    """End a session and purge its files.

    See :func:`begin_end` and :func:`complete_end`.
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
    """Mark a session ``ENDING`` and move its locations to the trash.

    Args:
        records: The storage of the record.
        locations: The session locations.
        stored: The record as the caller read it when it decided to end the session.
        release: Runs when the session is ``ENDING`` and before its locations move, so that nobody writes there any
            more. It ends the session at the backend as far as possible. Its errors pass on.

    Returns:
        The argument of :func:`complete_end`; None if another process ended the session first.

    Raises:
        RecordConflictError: If the record was ``ACTIVE`` and has changed since; the caller must decide again.
        RecordsUnavailableError: If the records cannot answer now. The session may be in any step of its end; call
            again.
        OSError: If the locations cannot be moved; call again.
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
        None if another process ended the session first.

    Raises:
        RecordsUnavailableError: If the records cannot answer now. Read the record, and call :func:`begin_end` again.
    """
    stored = ending.stored
    try:
        records.delete(stored.record.name, stored.version)
    except (RecordNotFoundError, RecordConflictError):
        # A conflict means a later session of the same name, or a request to delete this record. The next caller
        # handles that request.
        return None
    return EndedSession(stored.record, ending.locations)


def log_session_end(log: structlog.typing.FilteringBoundLogger, ended: EndedSession) -> None:
    """Log the end of a session with the same events in gateway and reaper."""
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
            raise RecordNotFoundError(stored.record.name, f"Session {stored.record.session_uuid} has ended.")
        return now
    return records.replace(mark_ending(stored.record), stored.version)


def _purge(locations: SessionLocations, session_uuid: SessionUuid) -> OSError | None:
    try:
        for entry in locations.trash_of(session_uuid):
            locations.purge(entry)
    except OSError as error:
        return error
    return None
