"""Changes of session records, as pure functions that return the changed record.

Gateway replicas and the reaper change the same records, so each change is defined only once, in this module.
:func:`update_record` applies a change to a stored record by compare-and-swap.

Guarantee: A session never returns to an earlier phase. When the phase of a record is ``ENDING``, the only remaining
step is its deletion. All changes raise SessionEndingError in this phase, except for :func:`mark_ending`,
:func:`remove_holders`, :func:`add_answer` and :func:`add_suspect`.

Source: [architecture "Session records, leases and the reaper"].
"""

from collections.abc import Callable, Set
from dataclasses import replace

from workspace.identifiers import RecordName, ReplicaId
from workspace.name_comparison import comparable_name
from workspace.record_store import RecordConflictError, RecordError, SessionRecords, StoredRecord
from workspace.records import (
    Answer,
    PendingChange,
    PendingWrite,
    Phase,
    Refusal,
    SessionRecord,
    SuspectedRequest,
    TableState,
    TemporaryTable,
)
from workspace.retries import retry_on

_MAX_ANSWERS = 32
_MAX_SUSPECTS = 16


class SessionEndingError(RecordError):
    """Raised if a session cannot be changed because it is ending.

    Attributes:
        session_uuid: The UUID of the session.
    """

    def __init__(self, record: SessionRecord) -> None:
        super().__init__(record.name, f"The session {record.session_uuid} is ending. Start a new session.")
        self.session_uuid = record.session_uuid


def add_holder(record: SessionRecord, replica: ReplicaId) -> SessionRecord:
    """Add a replica to the holders of the session.

    Raises:
        SessionEndingError: If the session is ending.
    """
    return replace(_require_active(record), holders=record.holders | {replica})


def remove_holders(record: SessionRecord, replicas: Set[ReplicaId]) -> SessionRecord:
    """Remove replicas from the holders of the session.

    The record of an ending session is returned unchanged.
    """
    if record.phase is Phase.ENDING:
        return record
    return replace(record, holders=record.holders - replicas)


def mark_ending(record: SessionRecord) -> SessionRecord:
    """Set the phase of the session to ``ENDING``."""
    return replace(record, phase=Phase.ENDING)


def put_table(record: SessionRecord, table: TemporaryTable) -> SessionRecord:
    """Add a temporary table, or replace the existing table with the same UUID or the same name.

    Raises:
        SessionEndingError: If the session is ending.
    """
    tables = _require_active(record).tables
    kept = [table if old.uuid == table.uuid or _same_name(old.name, table.name) else old for old in tables]
    return replace(record, tables=tuple(kept) if table in kept else (*tables, table))


def remove_table(record: SessionRecord, name: str) -> SessionRecord:
    """Remove the temporary table with the given name, if it exists.

    Raises:
        SessionEndingError: If the session is ending.
    """
    tables = _require_active(record).tables
    return replace(record, tables=tuple(table for table in tables if not _same_name(table.name, name)))


def add_answer(record: SessionRecord, answer: Answer) -> SessionRecord:
    """Add the answer to a statement.

    The record keeps only the last 32 answers.
    """
    return replace(record, answers=(*record.answers, answer)[-_MAX_ANSWERS:])


def add_relation(record: SessionRecord, operation_id: str) -> SessionRecord:
    """Note that the statement of an operation is the root relation of a plan.

    The record forgets this for each operation of which it contains neither a change nor an answer.
    """
    known = {answer.operation_id for answer in record.answers}
    known.update(write.operation_id for write in record.writes)
    known.update(change.operation_id for table in record.tables for change in table.pending_changes)
    return replace(record, relations=(*(each for each in record.relations if each in known), operation_id))


def add_suspect(record: SessionRecord, suspect: SuspectedRequest) -> SessionRecord:
    """Add a request on which a gateway worked when it was lost. Each loss counts once.

    From the second time on, the request is refused in each form, unless nothing was refused before. The record keeps
    only the last 16 requests.
    """
    before = next((each for each in record.suspects if each.digest == suspect.digest), None)
    if before is not None:
        if before.last_loss == suspect.last_loss:
            return record
        is_refused = {before.refusal, suspect.refusal} != {Refusal.NOTHING}
        refusal = Refusal.REQUEST if is_refused else Refusal.NOTHING
        suspect = replace(suspect, losses=before.losses + suspect.losses, refusal=refusal)
    others = tuple(each for each in record.suspects if each is not before)
    return replace(record, suspects=(*others, suspect)[-_MAX_SUSPECTS:])


def remove_writes(record: SessionRecord, replicas: Set[ReplicaId]) -> SessionRecord:
    """Remove the unfinished writes of the given replicas.

    Unfinished writes are insertions that are not published, and the creations of tables. For a creation, the table is
    removed, too. Published writes are not removed, because only a gateway can complete them.

    Raises:
        SessionEndingError: If the session is ending.
    """
    kept = [replace(table, writes=_without(table.writes, replicas)) for table in _require_active(record).tables]
    tables = tuple(table for table in kept if table.state is not TableState.CREATING or table.writes)
    return replace(record, tables=tables, writes=_without(record.writes, replicas))


def find_answer(record: SessionRecord, operation_id: str) -> Answer | None:
    """Return the stored answer to an operation, or None if there is no answer."""
    return next((answer for answer in record.answers if answer.operation_id == operation_id), None)


def find_change(record: SessionRecord, operation_id: str) -> tuple[TemporaryTable | None, PendingChange] | None:
    """Return the pending change of an operation, together with its temporary table.

    The table is None if the change creates a permanent table. The result is None if no change is pending.
    """
    for table in record.tables:
        for change in table.pending_changes:
            if change.operation_id == operation_id:
                return table, change
    return next(((None, write) for write in record.writes if write.operation_id == operation_id), None)


def is_known(record: SessionRecord, operation_id: str) -> bool:
    """Return whether a session record shows that an operation has begun: by its pending change or by its answer."""
    return find_answer(record, operation_id) is not None or find_change(record, operation_id) is not None


def find_table(record: SessionRecord, name: str) -> TemporaryTable | None:
    """Return the temporary table with the given name, or None if it does not exist."""
    return next((table for table in record.tables if _same_name(table.name, name)), None)


def update_record(
    records: SessionRecords,
    name: RecordName,
    change: Callable[[SessionRecord], SessionRecord],
    *,
    must_write: bool = False,
) -> StoredRecord:
    """Apply a change to a stored record, with retries after conflicts.

    Args:
        records: The storage of the record.
        name: The name of the record.
        change: A function that returns the changed record. It may be called several times. If it raises an exception,
            nothing is written and the exception is propagated. If it returns an equal record, nothing is written.
        must_write: Whether to write the record even if it is equal. The record then gets a new version. As a result, a
            process that acts on the earlier version gets a conflict and notices that the session is alive.

    Returns:
        The stored record after the change.

    Raises:
        RecordConflictError: If other processes changed the record first at every attempt.
        RecordNotFoundError: If the record does not exist.
        RecordsUnavailableError: If the storage cannot answer now.
    """

    @retry_on(RecordConflictError)
    def attempt() -> StoredRecord:
        stored = records.read(name)
        changed = change(stored.record)
        if changed == stored.record and not must_write:
            return stored
        return records.replace(changed, stored.version)

    return attempt()


def _require_active(record: SessionRecord) -> SessionRecord:
    if record.phase is Phase.ENDING:
        raise SessionEndingError(record)
    return record


def _without(writes: tuple[PendingWrite, ...], replicas: Set[ReplicaId]) -> tuple[PendingWrite, ...]:
    return tuple(write for write in writes if write.is_published or write.replica not in replicas)


def _same_name(one: str, other: str) -> bool:
    return comparable_name(one) == comparable_name(other)
