"""Changes of session records."""

from collections.abc import Callable, Set
from dataclasses import replace
from typing import ParamSpec, TypeVar

import tenacity

from workspace.records import (
    Answer,
    PendingWrite,
    Phase,
    RecordConflictError,
    RecordError,
    RecordName,
    ReplicaId,
    SessionRecord,
    SessionRecords,
    StoredRecord,
    TableState,
    TemporaryTable,
)

_ATTEMPTS = 50
_KEPT_ANSWERS = 32

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class SessionEndingError(RecordError):
    """The session is ending and takes no more changes."""

    def __init__(self, record: SessionRecord) -> None:
        super().__init__(record.name, f"Session {record.session_uuid} is ending; start a new session.")
        self.session_uuid = record.session_uuid


def add_holder(record: SessionRecord, replica: ReplicaId) -> SessionRecord:
    """The replica serves the session from now on."""
    return replace(_require_active(record), holders=record.holders | {replica})


def remove_holders(record: SessionRecord, replicas: Set[ReplicaId]) -> SessionRecord:
    """The replicas serve the session no more. An ending session stays as it is."""
    if record.phase is Phase.ENDING:
        return record
    return replace(record, holders=record.holders - replicas)


def mark_ending(record: SessionRecord) -> SessionRecord:
    return replace(record, phase=Phase.ENDING)


def put_table(record: SessionRecord, table: TemporaryTable) -> SessionRecord:
    """Adds a temporary table, or puts it in the place of the one of that name, regardless of letter case."""
    tables = _require_active(record).tables
    if find_table(record, table.name) is None:
        return replace(record, tables=(*tables, table))
    return replace(record, tables=tuple(table if _same_name(old.name, table.name) else old for old in tables))


def remove_table(record: SessionRecord, name: str) -> SessionRecord:
    """Takes a temporary table out, regardless of letter case; one that is not there is no error."""
    tables = _require_active(record).tables
    return replace(record, tables=tuple(table for table in tables if not _same_name(table.name, name)))


def add_answer(record: SessionRecord, answer: Answer) -> SessionRecord:
    """Keeps what a statement was answered; of many, the last ones."""
    return replace(record, answers=(*record.answers, answer)[-_KEPT_ANSWERS:])


def remove_writes(record: SessionRecord, replicas: Set[ReplicaId]) -> SessionRecord:
    """Takes out what these replicas were writing: tables that they were creating, and insertions.

    What is published already is kept: it must be completed, which only a gateway can.
    """
    kept = [replace(table, writes=_without(table.writes, replicas)) for table in _require_active(record).tables]
    tables = tuple(table for table in kept if table.state is not TableState.CREATING or table.writes)
    return replace(record, tables=tables, writes=_without(record.writes, replicas))


def find_answer(record: SessionRecord, operation_id: str) -> Answer | None:
    return next((answer for answer in record.answers if answer.operation_id == operation_id), None)


def find_table(record: SessionRecord, name: str) -> TemporaryTable | None:
    """The temporary table of that name, regardless of letter case."""
    return next((table for table in record.tables if _same_name(table.name, name)), None)


def retry_on(error: type[RecordError]) -> Callable[[Callable[_Parameters, _Result]], Callable[_Parameters, _Result]]:
    """Return a decorator that retries a blocking function, with random pauses, when it raises an error."""
    return tenacity.retry(
        retry=tenacity.retry_if_exception_type(error),
        wait=tenacity.wait_random_exponential(multiplier=0.002, max=0.1),
        stop=tenacity.stop_after_attempt(_ATTEMPTS),
        reraise=True,
    )


def update_record(
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
    return one.lower() == other.lower()
