"""The life of a session: what may change in its record, and how it ends.

Why it exists: gateway replicas and the reaper change the same records, so what a change may do is said once,
as pure functions from a record to the next. And both end sessions, by the one routine here.

Guarantees:

1. A session never goes back: once ``ENDING``, its record changes no more; it is only deleted. Every
   transition except :func:`mark_ending` and :func:`remove_holders` raises SessionEndingError then.
2. The record is deleted only after the session locations were set aside, in all roots (:func:`begin_end`).
3. :func:`begin_end`, :func:`complete_end` and :func:`end_session` may be stopped at any instruction and run again, here
   or in another process; several may run at once. At most one is told that it ended the session.
4. :func:`begin_end` of an ``ACTIVE`` session whose record was changed since it was read touches nothing, nor does that
   of an ``ENDING`` one that has ended meanwhile, though there be a later session of the same name.

Not guaranteed: that the end of each session is logged; a process that dies between the deletion and its log
line leaves none.

Source: design, "Session records, leases and the reaper".
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from workspace.locations import SessionLocations
from workspace.record_changes import mark_ending
from workspace.records import (
    Phase,
    RecordConflictError,
    RecordNotFoundError,
    SessionRecord,
    SessionRecords,
    SessionUuid,
    StoredRecord,
)
from workspace.storage_paths import StoragePath, deletion_message, file_system_of
from workspace.trash_entries import is_whole_location, location_of


@dataclass(frozen=True, slots=True)
class EndingSession:
    """A session whose locations were set aside, and whose record is still there.

    Attributes:
        stored: Its record, which is ``ENDING``.
        locations: Where the session locations were that were deleted.
    """

    stored: StoredRecord
    locations: tuple[StoragePath, ...]


@dataclass(frozen=True, slots=True)
class EndedSession:
    """What :func:`complete_end` and :func:`end_session` did.

    Attributes:
        record: The session's last record.
        locations: Where the session locations were that were deleted.
        purge_error: Why files of the session are still in the trash, for a later purge; None if none are.
    """

    record: SessionRecord
    locations: tuple[StoragePath, ...]
    purge_error: OSError | None = None


def end_session(records: SessionRecords, locations: SessionLocations, stored: StoredRecord) -> EndedSession | None:
    """Ends a session and purges its files; see :func:`begin_end` and :func:`complete_end`."""
    ending = begin_end(records, locations, stored)
    done = None if ending is None else complete_end(records, ending)
    return done and replace(done, purge_error=_purge(locations, done.record.session_uuid))


def begin_end(
    records: SessionRecords,
    locations: SessionLocations,
    stored: StoredRecord,
    release: Callable[[SessionRecord], None] = lambda record: None,
) -> EndingSession | None:
    """Marks a session ``ENDING`` and sets its locations aside: its files are in the trash.

    Args:
        records: Where the record is.
        locations: Where the session locations are.
        stored: The record as the caller read it when it decided that the session must end.
        release: Called once the session is ``ENDING`` and before its locations go, so that nobody writes there any
            more; ends the session at its backend as well as that can be done. What it raises is passed on.

    Returns: What :func:`complete_end` is to be called with; None if another process ended the session first.

    Raises:
        RecordConflictError: Only if the record was ``ACTIVE`` and was changed since; the caller decides anew.
        RecordsUnavailableError, OSError: The session may be in any step of its end; call again.
    """
    try:
        ending = _mark_ending(records, stored)
    except RecordNotFoundError:
        return None
    release(ending.record)
    session_uuid = ending.record.session_uuid
    deleted = set[StoragePath](locations.move_to_trash(session_uuid))
    if stored.record.phase is Phase.ENDING:  # somebody who began to end it may have come so far
        deleted |= {location_of(entry) for entry in locations.trash_of(session_uuid) if is_whole_location(entry)}
    return EndingSession(ending, tuple(sorted(deleted, key=str)))


def complete_end(records: SessionRecords, ending: EndingSession) -> EndedSession | None:
    """Deletes the record of a session whose locations were set aside.

    Returns: None if another process ended the session first.

    Raises: RecordsUnavailableError; begin with :func:`begin_end` again, by the record that is there then.
    """
    stored = ending.stored
    try:
        records.delete(stored.record.name, stored.version)
    except (RecordNotFoundError, RecordConflictError):
        # A conflict is with a later session of the same name, or with somebody who asks for the deletion of this one,
        # which is then for the next who looks.
        return None
    return EndedSession(stored.record, ending.locations)


def log_session_end(log: structlog.typing.FilteringBoundLogger, ended_session: EndedSession) -> None:
    """Logs the end of a session, in the same words wherever it was ended."""
    record = ended_session.record
    for location in ended_session.locations:
        log.info(
            "session_location_deleted",
            message=deletion_message(location),
            location=str(location),
            file_system=file_system_of(location),
            session=record.session_uuid,
            principal=record.principal,
        )
    if ended_session.purge_error is not None:
        log.warning("trash_purge_failed", session=record.session_uuid, reason=str(ended_session.purge_error))


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
