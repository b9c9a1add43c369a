"""The steps of a statement that changes a table, as they stand in its session's record: pure transitions.

A write is begun, then published, then completed; or it is undone. What each step demands of the record is checked in
the same compare-and-swap that makes it, so a statement whose write was undone, taken over or completed by another finds
that out here, and not later.
"""

from collections.abc import Sequence
from dataclasses import replace

from gateway.errors import GatewayError, table_not_found
from workspace.record_changes import find_table, put_table
from workspace.records import (
    PendingWrite,
    ReplicaId,
    SessionRecord,
    TableState,
    TableUuid,
    TemporaryTable,
    WriteKind,
)

_MOST_PARTS = 1000


def begun(record: SessionRecord, table: TemporaryTable, write: PendingWrite) -> SessionRecord:
    """A table that is being written to.

    Raises: GatewayError if it is not the same table any more, or has too many parts.
    """
    found = _ready(record, table, "It was dropped meanwhile.")
    if len(found.parts) + len(found.writes) >= _MOST_PARTS and write.kind is not WriteKind.OVERWRITING:
        raise GatewayError(
            "LODGE_LIMIT_REACHED",
            "53400",
            f"Temporary table [{table.name}] has the rows of {_MOST_PARTS:,} insertions, and takes no more. Put them "
            "together: INSERT OVERWRITE it with all of its own rows.",
        )
    return put_table(record, replace(found, writes=(*found.writes, write)))


def dropping(record: SessionRecord, table: TemporaryTable, write: PendingWrite) -> SessionRecord:
    """A table that is being dropped: it keeps its name, and is read no more. Raises: GatewayError."""
    found = _ready(record, table, "It was dropped meanwhile.")
    return put_table(record, replace(found, state=TableState.DROPPING, writes=(*found.writes, write)))


def published(
    record: SessionRecord, table: TemporaryTable, write: PendingWrite, *, rows: int, size_bytes: int
) -> SessionRecord:
    """The outcome of a write as the table's.

    Raises: GatewayError if the table was dropped, or the write undone or taken over.
    """
    found = _same(record, table, "It was dropped while it was written to.")
    if found.state is TableState.DROPPING:
        raise table_not_found(table.name, "It was dropped while it was written to.")
    if write not in found.writes:
        raise table_not_found(table.name, "Its gateway seemed lost, so its rows were undone. Try again.")
    overwrites = write.kind is WriteKind.OVERWRITING
    done = replace(
        write,
        is_published=True,
        rows=rows,
        size_bytes=size_bytes,
        replaced=found.parts if overwrites else (),
        replaced_rows=found.rows,
        replaced_bytes=found.size_bytes,
    )
    return put_table(
        record,
        replace(
            found,
            state=TableState.READY,
            parts=(write.directory,) if overwrites else (*found.parts, write.directory),
            rows=rows if overwrites else found.rows + rows,
            size_bytes=size_bytes if overwrites else found.size_bytes + size_bytes,
            writes=tuple(done if each == write else each for each in found.writes),
        ),
    )


def taken_over(record: SessionRecord, table: TemporaryTable, write: PendingWrite, replica: ReplicaId) -> SessionRecord:
    """A write that this replica follows from now on.

    Raises: GatewayError if it is not as the caller knows it any more.
    """
    found = _same(record, table, "It was dropped meanwhile.")
    if write not in found.writes:
        raise table_not_found(table.name, "Another gateway completes it, or it was undone. Try again.")
    writes = tuple(replace(each, replica=replica) if each == write else each for each in found.writes)
    return put_table(record, replace(found, writes=writes))


def completed(record: SessionRecord, table: TemporaryTable, write: PendingWrite) -> SessionRecord:
    """Without a write that is published and shown; a drop takes the table out. Repeated, it changes nothing."""
    found = same_table(record, table)
    if found is None or pending(found, write) is None:
        return record
    if write.kind is WriteKind.DROP:
        return replace(record, tables=tuple(each for each in record.tables if each.uuid != table.uuid))
    writes = tuple(each for each in found.writes if each.directory != write.directory)
    return put_table(record, replace(found, writes=writes))


def undone(record: SessionRecord, table: TemporaryTable, write: PendingWrite) -> SessionRecord:
    """As if the statement had not begun; unchanged if it is complete, undone or another replica's.

    Rows that others added meanwhile stay.
    """
    found = same_table(record, table)
    own = None if found is None else pending(found, write)
    if found is None or own is None or own.replica != write.replica:
        return record
    if own.kind is WriteKind.CREATION:
        return replace(record, tables=tuple(each for each in record.tables if each.uuid != table.uuid))
    writes = tuple(each for each in found.writes if each != own)
    if own.kind is WriteKind.DROP:
        return put_table(record, replace(found, state=TableState.READY, writes=writes))
    if not own.is_published:
        return put_table(record, replace(found, writes=writes))
    if own.directory not in found.parts:
        return put_table(record, replace(found, writes=_handed_on(writes, own)))
    added = own.kind is WriteKind.OVERWRITING
    return put_table(
        record,
        replace(
            found,
            parts=_without(found.parts, own.directory, own.replaced),
            rows=found.rows - own.rows + (own.replaced_rows if added else 0),
            size_bytes=found.size_bytes - own.size_bytes + (own.replaced_bytes if added else 0),
            writes=writes,
        ),
    )


def _handed_on(writes: Sequence[PendingWrite], own: PendingWrite) -> tuple[PendingWrite, ...]:
    """The writes after one is undone that a later one replaced: what that keeps is what there was before both."""
    overwrote = own.kind is WriteKind.OVERWRITING
    rows = own.rows - (own.replaced_rows if overwrote else 0)
    size_bytes = own.size_bytes - (own.replaced_bytes if overwrote else 0)
    return tuple(
        replace(
            each,
            replaced=_without(each.replaced, own.directory, own.replaced),
            replaced_rows=each.replaced_rows - rows,
            replaced_bytes=each.replaced_bytes - size_bytes,
        )
        if own.directory in each.replaced
        else each
        for each in writes
    )


def pending(table: TemporaryTable, write: PendingWrite) -> PendingWrite | None:
    """A write as the record has it now, whoever follows it."""
    return next((each for each in table.writes if _key(each) == _key(write)), None)


def same_table(record: SessionRecord, table: TemporaryTable) -> TemporaryTable | None:
    """The table as the record has it now; another one of its name does not count."""
    found = find_table(record, table.name)
    return found if found is not None and found.uuid == table.uuid else None


def _without(parts: Sequence[TableUuid], part: TableUuid, instead: Sequence[TableUuid]) -> tuple[TableUuid, ...]:
    return (*instead, *(each for each in parts if each != part))


def _key(write: PendingWrite) -> tuple[TableUuid, WriteKind, str]:
    return write.directory, write.kind, write.operation_id


def _same(record: SessionRecord, table: TemporaryTable, otherwise: str) -> TemporaryTable:
    found = same_table(record, table)
    if found is None:
        raise table_not_found(table.name, otherwise)
    return found


def _ready(record: SessionRecord, table: TemporaryTable, otherwise: str) -> TemporaryTable:
    found = _same(record, table, otherwise)
    if found.state is not TableState.READY:
        raise table_not_found(table.name, otherwise)
    return found
