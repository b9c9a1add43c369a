"""The life of a session: what may change in its record, and how it ends.

Why it exists: gateway replicas and the reaper change the same records, so what a change may do is said once,
as pure functions from a record to the next. And both end sessions, by the one routine here.

Guarantees:

1. A session never goes back: once ``ENDING``, its record changes no more; it is only deleted. Every
   transition except :func:`ended` and :func:`left` raises SessionEndingError then.
2. The record is deleted only after the session locations were set aside, in all roots (:func:`begin_end`).
3. :func:`begin_end`, :func:`complete_end` and :func:`end_session` may be stopped at any instruction and run again, here
   or in another process; several may run at once. At most one is told that it ended the session.
4. :func:`begin_end` of an ``ACTIVE`` session whose record was changed since it was read touches nothing, nor does that
   of an ``ENDING`` one that has ended meanwhile, though there be a later session of the same name.

Not guaranteed: that the end of each session is logged; a process that dies between the deletion and its log
line leaves none.

Source: design, "Session records, leases and the reaper".
"""

from collections.abc import Callable, Set
from dataclasses import dataclass, replace

import structlog
import tenacity

from workspace.locations import SessionLocations
from workspace.records import (
    Answer,
    PendingWrite,
    Phase,
    RecordConflictError,
    RecordError,
    RecordName,
    RecordNotFoundError,
    ReplicaId,
    SessionRecord,
    SessionRecords,
    SessionUuid,
    StoredRecord,
    TableState,
    TemporaryTable,
)
from workspace.storage_paths import StoragePath, deletion_message, file_system_of
from workspace.trash import is_whole_location, location_of

_UPDATE_ATTEMPTS = 50
_KEPT_ANSWERS = 32


class SessionEndingError(RecordError):
    """The session is ending and takes no more changes."""

    def __init__(self, record: SessionRecord) -> None:
        super().__init__(record.name, f"Session {record.session_uuid} is ending; start a new session.")
        self.session_uuid = record.session_uuid


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


def joined(record: SessionRecord, replica: ReplicaId) -> SessionRecord:
    """The replica serves the session from now on."""
    return replace(_active(record), holders=record.holders | {replica})


def left(record: SessionRecord, replicas: Set[ReplicaId]) -> SessionRecord:
    """The replicas serve the session no more. An ending session stays as it is."""
    if record.phase is Phase.ENDING:
        return record
    return replace(record, holders=record.holders - replicas)


def ended(record: SessionRecord) -> SessionRecord:
    return replace(record, phase=Phase.ENDING)


def with_table(record: SessionRecord, table: TemporaryTable) -> SessionRecord:
    """Adds a temporary table, or puts it in the place of the one of that name, regardless of letter case."""
    tables = _active(record).tables
    if table_named(record, table.name) is None:
        return replace(record, tables=(*tables, table))
    return replace(record, tables=tuple(table if _same_name(old.name, table.name) else old for old in tables))


def without_table(record: SessionRecord, name: str) -> SessionRecord:
    """Takes a temporary table out, regardless of letter case; one that is not there is no error."""
    tables = _active(record).tables
    return replace(record, tables=tuple(table for table in tables if not _same_name(table.name, name)))


def with_answer(record: SessionRecord, answer: Answer) -> SessionRecord:
    """Keeps what a statement was answered; of many, the last ones."""
    return replace(record, answers=(*record.answers, answer)[-_KEPT_ANSWERS:])


def without_writes(record: SessionRecord, replicas: Set[ReplicaId]) -> SessionRecord:
    """Takes out what these replicas were writing: tables that they were creating, and insertions.

    What is published already is kept: it must be completed, which only a gateway can.
    """
    kept = [replace(table, writes=_without(table.writes, replicas)) for table in _active(record).tables]
    tables = tuple(table for table in kept if table.state is not TableState.CREATING or table.writes)
    return replace(record, tables=tables, writes=_without(record.writes, replicas))


def answer_of(record: SessionRecord, operation_id: str) -> Answer | None:
    return next((answer for answer in record.answers if answer.operation_id == operation_id), None)


def table_named(record: SessionRecord, name: str) -> TemporaryTable | None:
    """The temporary table of that name, regardless of letter case."""
    return next((table for table in record.tables if _same_name(table.name, name)), None)


def update(
    records: SessionRecords,
    name: RecordName,
    change: Callable[[SessionRecord], SessionRecord],
    *,
    must_write: bool = False,
) -> StoredRecord:
    """Reads a record, changes it and writes it back, anew for as long as others change it in between.

    Args:
        records: Where the record is.
        name: Which record.
        change: A transition; may be called several times. What it raises is passed on, and nothing is
            written. If it returns an equal record, nothing is written either.
        must_write: Write an equal record too. It gets a new version, so that whoever decided by the former one finds
            out that the session is alive.

    Raises:
        RecordConflictError: Others were faster too often.
        RecordNotFoundError, RecordsUnavailableError: As the record store raises them.
    """

    @tenacity.retry(
        retry=tenacity.retry_if_exception_type(RecordConflictError),
        wait=tenacity.wait_random_exponential(multiplier=0.002, max=0.1),
        stop=tenacity.stop_after_attempt(_UPDATE_ATTEMPTS),
        reraise=True,
    )
    def attempt() -> StoredRecord:
        stored = records.read(name)
        changed = change(stored.record)
        if changed == stored.record and not must_write:
            return stored
        return records.replace(changed, stored.version)

    return attempt()


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
        ending = _marked_ending(records, stored)
    except RecordNotFoundError:
        return None
    release(ending.record)
    session_uuid = ending.record.session_uuid
    deleted = set[StoragePath](locations.set_aside(session_uuid))
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


def log_ended(log: structlog.typing.FilteringBoundLogger, ended_session: EndedSession) -> None:
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


def _marked_ending(records: SessionRecords, stored: StoredRecord) -> StoredRecord:
    if stored.record.phase is Phase.ENDING:
        now = records.read(stored.record.name)
        if now.record.session_uuid != stored.record.session_uuid:  # a later session of the same name
            raise RecordNotFoundError(stored.record.name, f"Session {stored.record.session_uuid} has ended.")
        return now
    return records.replace(ended(stored.record), stored.version)


def _purge(locations: SessionLocations, session_uuid: SessionUuid) -> OSError | None:
    try:
        for entry in locations.trash_of(session_uuid):
            locations.purge(entry)
    except OSError as error:
        return error
    return None


def _active(record: SessionRecord) -> SessionRecord:
    if record.phase is Phase.ENDING:
        raise SessionEndingError(record)
    return record


def _without(writes: tuple[PendingWrite, ...], replicas: Set[ReplicaId]) -> tuple[PendingWrite, ...]:
    return tuple(write for write in writes if write.is_published or write.replica not in replicas)


def _same_name(one: str, other: str) -> bool:
    return one.lower() == other.lower()
