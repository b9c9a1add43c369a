"""The steps of a change of a table, as transitions of the session record.

A write begins, is published, and is completed; or it is undone. A drop begins and is completed, or is undone. Each
function takes a record and returns the next one. It checks its conditions within the compare-and-swap that stores the
result. A statement whose change another replica undid, took over or completed therefore gets an error at its next step.
"""

from collections.abc import Sequence
from dataclasses import replace

from gateway.errors import GatewayError, table_not_found
from workspace.identifiers import ReplicaId, TableUuid
from workspace.record_changes import find_table, put_table, remove_table
from workspace.records import (
    PendingChange,
    PendingDrop,
    PendingWrite,
    SessionRecord,
    TableState,
    TemporaryTable,
    WriteKind,
)

_MAX_PARTS = 1000
_DROPPED = "Another statement dropped it."
_DROPPED_WHILE_WRITING = "Another statement dropped it while this statement wrote to it."


def begin_write(record: SessionRecord, table: TemporaryTable, write: PendingWrite) -> SessionRecord:
    """Return the record with a new write to a table.

    Raises:
        GatewayError: The table was dropped, or has too many parts.
    """
    current = _require_ready(record, table)
    if len(current.parts) + len(current.writes) >= _MAX_PARTS and write.kind is not WriteKind.OVERWRITING:
        raise GatewayError(
            "LODGE_LIMIT_REACHED",
            "53400",
            f"Temporary table [{table.name}] already contains the rows of {_MAX_PARTS:,} insertions, which is the "
            "maximum. Merge them: run INSERT OVERWRITE with a query of all its rows.",
        )
    return put_table(record, replace(current, writes=(*current.writes, write)))


def begin_drop(record: SessionRecord, table: TemporaryTable, drop: PendingDrop) -> SessionRecord:
    """Return the record with a table that keeps its name, but cannot be read.

    Raises:
        GatewayError: The table was dropped.
    """
    current = _require_ready(record, table)
    return put_table(record, replace(current, state=TableState.DROPPING, drop=drop))


def publish(
    record: SessionRecord, table: TemporaryTable, write: PendingWrite, *, rows: int, size_bytes: int
) -> SessionRecord:
    """Return the record with the outcome of a write as the table's rows.

    Raises:
        GatewayError: The table was dropped, or another replica undid the write or took it over.
    """
    current = _require_same(record, table, _DROPPED_WHILE_WRITING)
    if current.state is TableState.DROPPING:
        raise table_not_found(table.name, _DROPPED_WHILE_WRITING)
    if write not in current.writes:
        raise table_not_found(
            table.name, "Its gateway seemed lost, so another process undid the statement. Run the statement again."
        )
    overwrites = write.kind is WriteKind.OVERWRITING
    published = replace(
        write,
        is_published=True,
        rows=rows,
        size_bytes=size_bytes,
        replaced=current.parts if overwrites else (),
        replaced_rows=current.rows,
        replaced_bytes=current.size_bytes,
    )
    return put_table(
        record,
        replace(
            current,
            state=TableState.READY,
            parts=(write.directory,) if overwrites else (*current.parts, write.directory),
            rows=rows if overwrites else current.rows + rows,
            size_bytes=size_bytes if overwrites else current.size_bytes + size_bytes,
            writes=tuple(published if each == write else each for each in current.writes),
        ),
    )


def take_over(record: SessionRecord, table: TemporaryTable, change: PendingChange, replica: ReplicaId) -> SessionRecord:
    """Return the record with a change that another replica follows from now on.

    Args:
        record: The record.
        table: The table.
        change: The change as the caller read it.
        replica: The replica that follows it from now on.

    Raises:
        GatewayError: The change is no longer as the caller read it.
    """
    current = _require_same(record, table, _DROPPED)
    if change not in current.pending_changes:
        raise table_not_found(
            table.name, "Another gateway completed the statement or undid it. Run the statement again."
        )
    mine = replace(change, replica=replica)
    if isinstance(mine, PendingDrop):
        return put_table(record, replace(current, drop=mine))
    return put_table(
        record, replace(current, writes=tuple(mine if each == change else each for each in current.writes))
    )


def complete(record: SessionRecord, table: TemporaryTable, change: PendingChange) -> SessionRecord:
    """Return the record without a change that is published and visible.

    Completing a drop removes the table. Completing a change again changes nothing.
    """
    current = same_table(record, table)
    if current is None or pending_change(current, change) is None:
        return record
    if isinstance(change, PendingDrop):
        return remove_table(record, table.name)
    writes = tuple(each for each in current.writes if each.directory != change.directory)
    return put_table(record, replace(current, writes=writes))


def undo(record: SessionRecord, table: TemporaryTable, change: PendingChange) -> SessionRecord:
    """Return the record as if the statement had not begun.

    Rows that other statements added stay. If the change is complete, undone or another replica's, the record stays
    as it is.
    """
    current = same_table(record, table)
    own = None if current is None else pending_change(current, change)
    if current is None or own is None or own.replica != change.replica:
        return record
    if isinstance(own, PendingDrop):
        return put_table(record, replace(current, state=TableState.READY, drop=None))
    if own.kind is WriteKind.CREATION:
        return remove_table(record, table.name)
    writes = tuple(each for each in current.writes if each != own)
    if not own.is_published:
        return put_table(record, replace(current, writes=writes))
    if own.directory not in current.parts:
        return put_table(record, replace(current, writes=_restore_into_later(writes, own)))
    added_rows, added_bytes = _added(own)
    return put_table(
        record,
        replace(
            current,
            parts=_restore_parts(current.parts, own),
            rows=current.rows - added_rows,
            size_bytes=current.size_bytes - added_bytes,
            writes=writes,
        ),
    )


def pending_change(table: TemporaryTable, change: PendingChange) -> PendingChange | None:
    """Return a change as a table has it now, regardless of its replica."""
    return next((each for each in table.pending_changes if _is_same_change(each, change)), None)


def same_table(record: SessionRecord, table: TemporaryTable) -> TemporaryTable | None:
    """Return a table as the record has it now; None if it is gone."""
    found = find_table(record, table.name)
    return found if found is not None and found.uuid == table.uuid else None


def _restore_into_later(writes: Sequence[PendingWrite], undone: PendingWrite) -> tuple[PendingWrite, ...]:
    """Return the remaining writes after one is undone that a later one replaced.

    The later write keeps what it replaced, to restore it if it is undone too. That must then be the state before both.
    """
    added_rows, added_bytes = _added(undone)
    return tuple(
        replace(
            each,
            replaced=_restore_parts(each.replaced, undone),
            replaced_rows=each.replaced_rows - added_rows,
            replaced_bytes=each.replaced_bytes - added_bytes,
        )
        if undone.directory in each.replaced
        else each
        for each in writes
    )


def _restore_parts(parts: Sequence[TableUuid], undone: PendingWrite) -> tuple[TableUuid, ...]:
    return (*undone.replaced, *(each for each in parts if each != undone.directory))


def _added(write: PendingWrite) -> tuple[int, int]:
    """Return how many rows and bytes a published write added to its table."""
    if write.kind is not WriteKind.OVERWRITING:
        return write.rows, write.size_bytes
    return write.rows - write.replaced_rows, write.size_bytes - write.replaced_bytes


def _is_same_change(one: PendingChange, other: PendingChange) -> bool:
    if isinstance(one, PendingDrop) or isinstance(other, PendingDrop):
        return type(one) is type(other) and one.operation_id == other.operation_id
    return (one.directory, one.kind, one.operation_id) == (other.directory, other.kind, other.operation_id)


def _require_same(record: SessionRecord, table: TemporaryTable, reason: str) -> TemporaryTable:
    found = same_table(record, table)
    if found is None:
        raise table_not_found(table.name, reason)
    return found


def _require_ready(record: SessionRecord, table: TemporaryTable) -> TemporaryTable:
    found = _require_same(record, table, _DROPPED)
    if found.state is not TableState.READY:
        raise table_not_found(table.name, _DROPPED)
    return found
