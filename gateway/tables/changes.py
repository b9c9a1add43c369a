"""The steps of a table change, as transitions of the session record.

A write is begun, published and completed. A drop is begun and completed. Both can be undone instead. Each function
takes a session record and returns the changed record. The function runs within the compare-and-swap that stores its
result, so its checks and its result apply to the same version of the record. If another replica has undone, taken over
or completed a change, the original statement therefore fails at its next step.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gateway.errors import GatewayError, table_not_found
from gateway.stored_tables.partitions import overlap
from gateway.tables.answers import answer_to
from gateway.tables.table_errors import ChangeTakenError, StatementStartedError, statement_lost, table_changed
from workspace.identifiers import ReplicaId, TableUuid
from workspace.name_comparison import comparable_name
from workspace.record_changes import (
    add_answer,
    add_relation,
    add_suspect,
    find_change,
    is_known,
    put_table,
    remove_table,
)
from workspace.records import (
    NO_REPLICA,
    Answer,
    PendingChange,
    PendingDrop,
    PendingWrite,
    Refusal,
    Replacement,
    SessionRecord,
    SuspectedRequest,
    TableDefinition,
    TableState,
    TemporaryTable,
    WriteKind,
)

_OF_KNOWN_PARTS = frozenset({WriteKind.REWRITING, WriteKind.MERGING})
"""The kinds of writes whose rows replace those of parts that are known when the write begins."""
_LOST = (("lost", True),)
_UNKNOWN = (("unknown", True),)
_UNDONE = (("undone", True),)
_DROPPED = "Another statement dropped the table."
_DROPPED_WHILE_WRITING = "Another statement dropped the table while this statement was writing to it."


def begin_write(record: SessionRecord, table: TemporaryTable, write: PendingWrite) -> SessionRecord:
    """Return the session record with a new write to a table.

    Raises:
        GatewayError: If the table was dropped, or has other rows than those that the write rewrites, or if the write
            renames the table to a name that is taken.
    """
    current = _require_ready(record, table)
    if write.kind in _OF_KNOWN_PARTS:
        _parts_around(current, write, write.partitions)
    if write.other_name and is_name_taken(record, write.other_name):
        raise table_changed(f"Another statement uses the name [{write.other_name}] by now.")
    return put_table(record, replace(current, writes=(*current.writes, write)))


def begin_drop(record: SessionRecord, table: TemporaryTable, drop: PendingDrop) -> SessionRecord:
    """Return the session record with a table in state ``DROPPING``.

    The table keeps its name until the drop is complete, but it can no longer be read.

    Raises:
        GatewayError: If the table was already dropped.
    """
    current = _require_ready(record, table)
    return put_table(record, replace(current, state=TableState.DROPPING, drop=drop))


def begin_copy(table: TemporaryTable, writes: Sequence[PendingWrite]) -> TemporaryTable:
    """Return the entry for a copy of a table in the record of a cloned session.

    The entry describes the copy while the parts of the table are being copied.

    The copy does not inherit pending changes of the original, such as a drop.

    Args:
        table: The table of the parent session.
        writes: One write for each part of the copy. The first part's directory is the UUID of the copy.
    """
    copies = dict(zip(table.parts, (write.directory for write in writes), strict=True))
    return replace(
        table,
        uuid=writes[0].directory,
        state=TableState.CREATING,
        parts=(),
        writes=tuple(writes),
        drop=None,
        replacements=tuple(
            Replacement(copies[each.part], each.partitions) for each in table.replacements if each.part in copies
        ),
    )


def reserve(record: SessionRecord, table: TemporaryTable, write: PendingWrite, *, size_bytes: int) -> SessionRecord:
    """Return the session record with the size of a write that is not published yet.

    Concurrent statements count this size against the quotas.

    Raises:
        GatewayError: If the table was dropped, or another replica has undone or taken over the write.
    """
    current, begun = _require_begun(record, table, write)
    reserved = replace(begun, size_bytes=size_bytes)
    return put_table(
        record, replace(current, writes=tuple(reserved if each == begun else each for each in current.writes))
    )


@dataclass(frozen=True, slots=True)
class Written:
    """What a write has written.

    Attributes:
        rows: The number of rows.
        size_bytes: The size of the files.
        partitions: The partitions whose rows are replaced. Empty if the write does not replace single partitions.
        hidden_rows: The number of visible rows in these partitions.
    """

    rows: int
    size_bytes: int
    partitions: tuple[str, ...] = ()
    hidden_rows: int = 0


def publish(record: SessionRecord, table: TemporaryTable, write: PendingWrite, written: Written) -> SessionRecord:
    """Return the session record with the result of a write as rows of the table.

    Raises:
        GatewayError: If the table was dropped, another replica has undone or taken over the write, or another statement
            has replaced the rows that the write rewrites.
    """
    current, begun = _require_begun(record, table, write)
    published = replace(
        write,
        is_published=True,
        rows=written.rows,
        size_bytes=written.size_bytes,
        partitions=written.partitions,
        replaced_rows=_replaced_rows(write, written),
        replaced_bytes=0 if written.partitions else write.replaced_bytes,
    )
    before, after = current.parts, tuple[TableUuid, ...]()
    former = current
    if write.definition is not None:
        former_schema = current.schema or write.former_schema
        published = replace(published, definition=replace(current.definition, schema=former_schema))
        current = replace(current.defined_as(write.definition), writes=_overtaken(current.writes, begun))
    if write.kind in _OF_KNOWN_PARTS:
        before, after = _parts_around(current, write, written.partitions)
        if written.partitions:
            before = (*before, *write.replaced)
    elif write.replaces_all:
        published = replace(published, replaced=before, replaced_rows=former.rows, replaced_bytes=former.size_bytes)
        before = ()
    replacements = current.replacements
    if written.partitions:
        replacements = (*replacements, Replacement(write.directory, written.partitions))
    if write.other_name:
        published = replace(published, other_name=current.name)
        current = replace(current, name=write.other_name)
    schema = current.schema
    if write.kind is WriteKind.ALTERATION:
        if schema not in {"", write.former_schema}:
            raise _changed(current)
        schema = write.schema
    added_rows, added_bytes = _added(published)
    return put_table(
        record,
        replace(
            current,
            schema=schema,
            state=TableState.READY,
            parts=(*before, write.directory, *after),
            rows=current.rows + added_rows,
            size_bytes=current.size_bytes + added_bytes,
            writes=tuple(published if each == begun else each for each in current.writes),
            replacements=replacements,
        ),
    )


def _overtaken(writes: Sequence[PendingWrite], own: PendingWrite) -> tuple[PendingWrite, ...]:
    """Return the writes to a table after its replacement. Those that write parts of the former table must fail."""
    return tuple(
        each if each == own or each.is_published or each.definition is not None else replace(each, is_overtaken=True)
        for each in writes
    )


def _replaced_rows(write: PendingWrite, written: Written) -> int:
    """Return how many rows a write replaces, as far as it is known before it is published."""
    if write.kind is WriteKind.MERGING:
        return written.rows
    return written.hidden_rows if written.partitions else write.replaced_rows


def _parts_around(
    table: TemporaryTable, write: PendingWrite, partitions: Sequence[str]
) -> tuple[tuple[TableUuid, ...], tuple[TableUuid, ...]]:
    """Return the parts before and after those that a write rewrites or merges.

    Raises:
        GatewayError: If other statements have replaced rows that the write rewrites.
    """
    start = next((n for n, part in enumerate(table.parts) if part in write.replaced), 0)
    end = start + len(write.replaced)
    after = table.parts[end:]
    others = {path for each in table.replacements if each.part in after for path in each.partitions}
    is_changed = any(overlap(one, other) for one in partitions for other in others)
    if write.kind is WriteKind.MERGING:  # it must not make a statement of a client fail
        is_changed = any(each.kind is WriteKind.REWRITING for each in table.writes)
    if table.parts[start:end] != write.replaced or is_changed:
        raise _changed(table)
    return table.parts[:start], after


def _changed(table: TemporaryTable) -> GatewayError:
    return table_changed(
        f"Another statement replaced rows or columns of temporary table [{table.name}] while this statement changed "
        "them."
    )


def begin_once(
    change: PendingChange, begin: Callable[[SessionRecord], SessionRecord], *, is_relation: bool
) -> Callable[[SessionRecord], SessionRecord]:
    """Return a transition that begins a change, unless the record shows that its operation has begun before.

    The transition raises StatementStartedError in that case.

    Args:
        change: The change.
        begin: The transition that adds the change to the record.
        is_relation: Whether the statement is the root relation of a plan.
    """

    def transition(record: SessionRecord) -> SessionRecord:
        found = find_change(record, change.operation_id)
        if found is not None and found[1] == change:
            return record  # the answer to an earlier attempt to store the record was lost
        if is_known(record, change.operation_id):
            raise StatementStartedError
        begun = begin(record)
        return add_relation(begun, change.operation_id) if is_relation else begun

    return transition


def mark_lost(operation_id: str) -> Callable[[SessionRecord], SessionRecord]:
    """Return a transition after which an operation cannot begin.

    The transition raises StatementStartedError if the record shows that the operation has begun, or is lost already.
    """

    def transition(record: SessionRecord) -> SessionRecord:
        if is_known(record, operation_id):
            raise StatementStartedError
        return add_answer(record, Answer(operation_id, _LOST))

    return transition


def is_lost(answer: Answer) -> bool:
    """Return whether an answer says that its operation is lost; see :func:`mark_lost`."""
    return answer.values == _LOST


def take_over(record: SessionRecord, table: TemporaryTable, change: PendingChange, replica: ReplicaId) -> SessionRecord:
    """Return the session record with a change assigned to another replica.

    Args:
        record: The session record.
        table: The table.
        change: The change, as the caller read it from the session record.
        replica: The replica that executes the change from now on.

    Raises:
        ChangeTakenError: If the change is different from what the caller read.
    """
    current = same_table(record, table)
    if current is None or change not in current.pending_changes:
        raise ChangeTakenError
    mine = replace(change, replica=replica)
    if isinstance(mine, PendingDrop):
        return put_table(record, replace(current, drop=mine))
    return put_table(
        record, replace(current, writes=tuple(mine if each == change else each for each in current.writes))
    )


def hand_over(record: SessionRecord, table: TemporaryTable, change: PendingChange) -> SessionRecord:
    """Return the session record with a change that no replica executes, so that any replica can take it over.

    If the change is already complete, undone or taken over, the record is returned unchanged.
    """
    current = same_table(record, table)
    own = None if current is None else pending_change(current, change)
    if own is None or own.replica != change.replica:
        return record
    return take_over(record, table, own, NO_REPLICA)


def complete(record: SessionRecord, table: TemporaryTable, change: PendingChange) -> SessionRecord:
    """Return the session record without a change that is published and visible.

    Completing a drop removes the table from the record. Completing a change a second time has no effect. If the table
    is being dropped, its drop receives the schema of the change, because the undo of the drop then creates the view.
    """
    current = same_table(record, table)
    if current is None or pending_change(current, change) is None:
        return record
    if isinstance(change, PendingDrop):
        return remove_table(record, current.name)
    drop = current.drop
    if drop is not None and not drop.schema:
        drop = replace(drop, schema=change.schema)
    after = replace(
        current, writes=tuple(each for each in current.writes if each.directory != change.directory), drop=drop
    )
    return put_table(record, _without_hidden(after))


def complete_with_answer(record: SessionRecord, table: TemporaryTable, change: PendingChange) -> SessionRecord:
    """Return the session record without a change that is pending, published and visible, and with its answer.

    The answer names the table as the argument does, in the spelling that Spark uses.
    """
    after = complete(record, table, change)
    if isinstance(change, PendingWrite) and change.kind is WriteKind.MERGING:
        return after  # no client asks
    return add_answer(after, Answer(change.operation_id, tuple(answer_to(change, table.name).items())))


def undo(record: SessionRecord, table: TemporaryTable, change: PendingChange) -> SessionRecord:
    """Return the session record without the effects of a change.

    Rows that other statements added are kept, so a creation or replacement is completed instead if others changed its
    table. If the change is already complete, already undone or taken over by another replica, the record is returned
    unchanged.
    """
    current = same_table(record, table)
    own = None if current is None else pending_change(current, change)
    if current is None or own is None or own.replica != change.replica:
        return record
    if isinstance(own, PendingDrop):
        return put_table(record, replace(current, state=TableState.READY, drop=None))
    writes = tuple(each for each in current.writes if each != own)
    is_used = any(part != own.directory for part in current.parts) or any(not each.is_overtaken for each in writes)
    is_creation = own.kind is WriteKind.CREATION
    if is_used and (is_creation or (own.kind is WriteKind.REPLACEMENT and own.is_published)):
        return complete_with_answer(record, table, own)
    if is_creation:
        return remove_table(record, current.name)
    if not own.is_published or own.directory not in current.parts:
        remaining = _restore_into_later(writes, own) if own.is_published else writes
        return put_table(record, replace(current, writes=remaining))
    added_rows, added_bytes = _added(own)
    restored = replace(
        current,
        parts=_restore_parts(current.parts, own),
        rows=current.rows - added_rows,
        size_bytes=current.size_bytes - added_bytes,
        writes=writes,
        schema=own.former_schema or current.schema,
    )
    if own.definition is not None:
        restored = restored.defined_as(own.definition)
    if own.other_name:
        restored = replace(restored, name=own.other_name)
    return put_table(record, _without_hidden(restored))


def suspect_request(record: SessionRecord, suspect: SuspectedRequest) -> SessionRecord:
    """Return the session record with a request that may be the reason why a replica was lost.

    A statement that is refused has no effect, so its unpublished write is undone. If its effect is published, the
    client that reattaches receives the answer. Then only equal requests are refused.
    """
    after = add_suspect(record, suspect)
    added = next((each for each in after.suspects if each.digest == suspect.digest), None)
    if after is record or added is None or added.refusal is Refusal.NOTHING or not added.operation_id:
        return after
    found = find_change(record, added.operation_id)
    if found is not None and not found[1].is_published:
        table, change = found
        return remove_write(after, change) if table is None else undo(after, table, change)
    if not is_known(record, added.operation_id):
        return after
    known = replace(added, operation_id="")
    return replace(after, suspects=tuple(known if each is added else each for each in after.suspects))


def publish_permanent(record: SessionRecord, write: PendingWrite) -> SessionRecord:
    """Return the session record with the write of a permanent table that is about to appear in its workspace.

    Raises:
        GatewayError: If another replica has undone the write.
    """
    current = _find_permanent(record, write)
    if current is None or current.replica != write.replica:
        raise statement_lost()
    published = replace(current, is_published=True)
    return replace(record, writes=tuple(published if each == current else each for each in record.writes))


def give_up(record: SessionRecord, write: PendingWrite) -> SessionRecord:
    """Return the session record without the write of a permanent table whose replica is lost.

    If the write is not published, the replica cannot make the table appear any more. Otherwise, nobody knows whether
    the table exists, and the answer of the statement says so; see :func:`is_unknown`.

    Raises:
        ChangeTakenError: If the write is different from what the caller read.
    """
    if write not in record.writes:
        raise ChangeTakenError
    without = remove_write(record, write)
    return add_answer(without, Answer(write.operation_id, _UNKNOWN)) if write.is_published else without


def is_unknown(answer: Answer) -> bool:
    """Return whether an answer says that nobody knows how its operation ended; see :func:`give_up`."""
    return answer.values == _UNKNOWN


def undo_after_response(record: SessionRecord, write: PendingWrite) -> SessionRecord:
    """Return the session record without the write of a permanent table whose client has received a response.

    Such a client does not send its statement again. If it follows the statement at another replica, the answer of the
    statement says that it was undone; see :func:`is_undone`.
    """
    return add_answer(remove_write(record, write), Answer(write.operation_id, _UNDONE))


def is_undone(answer: Answer) -> bool:
    """Return whether an answer says that its operation was undone; see :func:`undo_after_response`."""
    return answer.values == _UNDONE


def remove_write(record: SessionRecord, write: PendingChange) -> SessionRecord:
    """Return the session record without the write of a permanent table."""
    return replace(record, writes=tuple(each for each in record.writes if not _is_same_change(each, write)))


def pending_change(table: TemporaryTable, change: PendingChange) -> PendingChange | None:
    """Return the current version of a change, even if another replica executes it."""
    return next((each for each in table.pending_changes if _is_same_change(each, change)), None)


def find_pending(record: SessionRecord, table: TemporaryTable, change: PendingChange) -> PendingChange | None:
    """Return the current version of a change in a session record. None if it is no longer pending."""
    current = same_table(record, table)
    return None if current is None else pending_change(current, change)


def same_table(record: SessionRecord, table: TemporaryTable) -> TemporaryTable | None:
    """Return the current version of a table. None if the table no longer exists."""
    return next((each for each in record.tables if each.uuid == table.uuid), None)


def named(record: SessionRecord, table: TemporaryTable) -> TemporaryTable:
    """Return a table with the name that it has in a record, if that differs from its own by more than its spelling."""
    current = same_table(record, table)
    if current is None or comparable_name(current.name) == comparable_name(table.name):
        return table
    return replace(table, name=current.name)


def is_name_taken(record: SessionRecord, name: str) -> bool:
    """Return whether a table has a name, gets it from a running statement, or had it before one."""
    names = (each for table in record.tables for each in (table.name, *table.other_names))
    return comparable_name(name) in map(comparable_name, names)


def _find_permanent(record: SessionRecord, write: PendingWrite) -> PendingWrite | None:
    """Return the current version of the write of a permanent table."""
    return next((each for each in record.writes if _is_same_change(each, write)), None)


def _restore_into_later(writes: Sequence[PendingWrite], undone: PendingWrite) -> tuple[PendingWrite, ...]:
    """Return the remaining writes after undoing a write that a later write replaced.

    The later write contains the parts that it replaced, so that they can be restored if it is undone too. These parts
    must then be the parts from before both writes.
    """
    added_rows, added_bytes = _added(undone)
    return tuple(
        replace(
            each,
            replaced=_restore_parts(each.replaced, undone),
            replaced_rows=each.replaced_rows - added_rows,
            replaced_bytes=each.replaced_bytes - added_bytes,
            definition=_restore_schema(each.definition, undone),
        )
        if undone.directory in each.replaced
        else each
        for each in writes
    )


def _restore_schema(definition: TableDefinition | None, undone: PendingWrite) -> TableDefinition | None:
    """Return the definition of a replaced table after undoing a write that altered its columns."""
    if definition is None or not undone.former_schema:
        return definition
    return replace(definition, schema=undone.former_schema)


def _without_hidden(table: TemporaryTable) -> TemporaryTable:
    """Return a table without parts that have no visible rows, and without replacements of parts that are gone."""
    hidden = table.hidden_parts
    shown = replace(table, parts=tuple(each for each in table.parts if each not in hidden))
    kept = shown.directories
    return replace(shown, replacements=tuple(each for each in table.replacements if each.part in kept))


def _restore_parts(parts: Sequence[TableUuid], undone: PendingWrite) -> tuple[TableUuid, ...]:
    """Return the parts before a write was published."""
    restored = () if undone.partitions else undone.replaced
    return tuple(old for each in parts for old in (restored if each == undone.directory else (each,)))


def _added(write: PendingWrite) -> tuple[int, int]:
    """Return how many rows and bytes a published write added to its table."""
    if write.kind in {WriteKind.CREATION, WriteKind.INSERTION, WriteKind.ALTERATION, WriteKind.RENAMING}:
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


def _require_begun(
    record: SessionRecord, table: TemporaryTable, write: PendingWrite
) -> tuple[TemporaryTable, PendingWrite]:
    """Return a table and its write, which is the same as when it began, except for its size."""
    current = _require_same(record, table, _DROPPED_WHILE_WRITING)
    if current.state is TableState.DROPPING:
        raise table_not_found(table.name, _DROPPED_WHILE_WRITING)
    for each in current.writes:
        if replace(each, size_bytes=write.size_bytes) == write:
            return current, each
        if each.is_overtaken and _is_same_change(each, write):
            raise _changed(current)
    raise table_not_found(
        table.name,
        "Another process considered this gateway lost and undid the statement. Run the statement again.",
    )


def _require_ready(record: SessionRecord, table: TemporaryTable) -> TemporaryTable:
    found = _require_same(record, table, _DROPPED)
    if found.state is not TableState.READY:
        raise table_not_found(table.name, _DROPPED)
    if found.other_names:
        raise table_changed(f"Another statement renames temporary table [{table.name}].")
    return found
