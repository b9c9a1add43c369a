"""Changes of a table in every order that statements and replicas can take."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import GatewayError
from gateway.tables.changes import (
    Written,
    begin_copy,
    begin_drop,
    begin_once,
    begin_write,
    complete,
    find_pending,
    pending_change,
    publish,
    suspect_request,
    take_over,
    undo,
)
from gateway.tables.part_merging import choose_parts
from gateway.tables.table_errors import ChangeTakenError, StatementStartedError
from tests.records import a_record
from workspace.identifiers import ReplicaId, TableUuid
from workspace.record_changes import add_answer, find_answer, put_table, remove_writes
from workspace.records import (
    Answer,
    PendingDrop,
    PendingWrite,
    Refusal,
    Replacement,
    SuspectedRequest,
    TableState,
    TemporaryTable,
    WriteKind,
)

A, B = ReplicaId("a"), ReplicaId("b")


def directory(number):
    return TableUuid(f"00000000-0000-4000-8000-{number:012}")


def write(number, kind, replica=A):
    return PendingWrite(directory(number), f"operation {number}", replica, "{}", kind)


TABLE = TemporaryTable("t", directory(0), TableState.READY, "parquet", parts=(directory(0),), rows=1, size_bytes=10)


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["publish", "complete", "undo"])), max_size=12), st.data())
def test_rows_and_parts_are_those_of_published_writes_in_any_order(steps, data):
    kinds = {n: data.draw(st.sampled_from([WriteKind.INSERTION, WriteKind.OVERWRITING])) for n in range(1, 5)}
    record = a_record(tables=(TABLE,))
    for number, kind in kinds.items():
        record = begin_write(record, TABLE, write(number, kind))
    published_writes, ended = set(), set()
    for number, step in steps:
        own = write(number, kinds[number])
        if number in ended:
            assert undo(record, TABLE, own) == record
            continue
        if step == "publish" and number not in published_writes:
            record = publish(record, TABLE, own, Written(number * 100, number))
            published_writes.add(number)
        elif step == "complete" and number in published_writes:
            record = complete(record, TABLE, own)
            ended.add(number)
        elif step == "undo":
            before = record
            record = undo(record, TABLE, own)
            published_writes.discard(number)
            ended.add(number)
            assert pending_change(record.tables[0], own) is None
            assert before != record
    (table,) = record.tables
    assert len(set(table.parts)) == len(table.parts)
    assert set(table.parts) <= table.directories
    if all(kind is WriteKind.INSERTION for kind in kinds.values()):
        assert set(table.parts) == {directory(0), *(directory(n) for n in published_writes)}
        assert table.rows == 1 + sum(n * 100 for n in published_writes)
        assert table.size_bytes == 10 + sum(published_writes)


def test_overwrite_keeps_replaced_parts_until_complete_and_restores_them_on_undo():
    own = write(1, WriteKind.OVERWRITING)
    there = publish(begin_write(a_record(tables=(TABLE,)), TABLE, own), TABLE, own, Written(5, 50))
    assert there.tables[0].parts == (directory(1),)
    assert directory(0) in there.directories
    assert directory(0) not in complete(there, TABLE, own).directories
    (back,) = undo(there, TABLE, own).tables
    assert (back.parts, back.rows, back.size_bytes, back.writes) == ((directory(0),), 1, 10, ())


def test_undo_of_overwrite_keeps_rows_of_other_statements():
    own, other = write(1, WriteKind.OVERWRITING), write(2, WriteKind.INSERTION, B)
    record = begin_write(begin_write(a_record(tables=(TABLE,)), TABLE, own), TABLE, other)
    record = publish(record, TABLE, own, Written(5, 50))
    record = publish(record, TABLE, other, Written(7, 70))
    (table,) = undo(record, TABLE, own).tables
    assert (table.parts, table.rows, table.size_bytes) == ((directory(0), directory(2)), 8, 80)


@pytest.mark.parametrize("is_complete", [False, True])
def test_undo_of_a_creation_completes_it_if_others_use_its_table(is_complete):
    """A client may have read the table, and added rows, before the undo is repeated."""
    own, added = write(1, WriteKind.CREATION), write(2, WriteKind.INSERTION)
    new = TemporaryTable("t", directory(1), TableState.CREATING, "parquet", writes=(own,))
    record = publish(a_record(tables=(new,)), new, own, Written(1, 10))
    assert undo(record, new, own).tables == ()
    record = begin_write(record, new, added)
    if is_complete:
        record = complete(publish(record, new, added, Written(2, 20)), new, added)
    undone = undo(record, new, own)
    (table,) = undone.tables
    assert (table.state, directory(1) in table.parts, own in table.writes) == (TableState.READY, True, False)
    assert find_answer(undone, own.operation_id) is not None


def test_first_replica_does_not_undo_write_after_take_over():
    own = write(1, WriteKind.CREATION)
    table = replace(TABLE, uuid=directory(1), state=TableState.CREATING, parts=(), writes=(own,))
    claimed = a_record(tables=(table,))
    table = claimed.tables[0]
    record, mine = take_over(claimed, table, own, B), replace(own, replica=B)
    assert undo(record, table, own) == record
    with pytest.raises(GatewayError, match="considered this gateway lost"):
        publish(record, table, own, Written(1, 1))
    with pytest.raises(ChangeTakenError):
        take_over(record, table, own, A)
    assert publish(record, table, mine, Written(1, 1)).tables[0].state is TableState.READY
    assert undo(record, table, mine).tables == ()


def test_statement_begins_once():
    own, drop = write(1, WriteKind.INSERTION), PendingDrop("operation 9", A, "{}")
    steps = [
        (own, lambda change: lambda record: begin_write(record, TABLE, change)),
        (drop, lambda change: lambda record: begin_drop(record, TABLE, change)),
    ]
    for change, begin in steps:
        begun = begin_once(change, begin(change), is_relation=False)(a_record(tables=(TABLE,)))
        again = begin_once(change, begin(change), is_relation=False)(begun)
        assert again == begun, "an attempt whose answer was lost is not repeated"
        other_write = replace(own, directory=directory(2), operation_id=change.operation_id)
        for other in (replace(change, replica=B), other_write):
            with pytest.raises(StatementStartedError):
                begin_once(other, begin(change), is_relation=False)(begun)
        answered = add_answer(complete(begun, TABLE, change), Answer(change.operation_id, ()))
        with pytest.raises(StatementStartedError):
            begin_once(change, begin(change), is_relation=False)(answered)


def test_record_forgets_the_form_of_a_statement_with_its_answer():
    record = a_record()
    for number in range(40):
        drop = PendingDrop(f"operation {number}", A)
        dropping = replace(TABLE, drop=drop)
        record = begin_once(drop, lambda each, put=dropping: put_table(each, put), is_relation=True)(record)
        assert record.relations[-1] == drop.operation_id
        record = add_answer(put_table(record, TABLE), Answer(drop.operation_id, ()))
    assert record.relations == tuple(f"operation {number}" for number in range(7, 40))
    assert {answer.operation_id for answer in record.answers} < set(record.relations)


def test_dropping_table_takes_no_rows_and_undo_makes_it_ready():
    rows, drop = write(1, WriteKind.INSERTION), PendingDrop("operation 0", A, "{}")
    record = begin_drop(begin_write(a_record(tables=(TABLE,)), TABLE, rows), TABLE, drop)
    with pytest.raises(GatewayError, match="dropped the table while this statement was writing"):
        publish(record, TABLE, rows, Written(1, 1))
    with pytest.raises(GatewayError, match="Another statement dropped the table"):
        begin_write(record, TABLE, write(2, WriteKind.INSERTION))
    assert undo(record, TABLE, drop).tables[0].state is TableState.READY
    assert complete(record, TABLE, drop).tables == ()


def test_drop_of_a_table_without_view_learns_the_schema_from_its_creation():
    creation, drop = write(0, WriteKind.CREATION), PendingDrop("operation 1", A)
    begun = replace(TABLE, state=TableState.CREATING, parts=(), writes=(creation,))
    published = publish(a_record(tables=(begun,)), TABLE, creation, Written(1, 10))
    created = complete(begin_drop(published, TABLE, drop), TABLE, replace(creation, is_published=True))
    assert find_pending(created, TABLE, drop).schema == creation.schema
    assert undo(created, TABLE, drop).tables[0].pending_changes == ()


def test_reaper_removes_begun_writes_and_keeps_published_ones():
    begun_one, done = write(1, WriteKind.INSERTION), write(2, WriteKind.OVERWRITING)
    record = begin_write(begin_write(a_record(tables=(TABLE,)), TABLE, begun_one), TABLE, done)
    record = publish(record, TABLE, done, Written(5, 50))
    (table,) = remove_writes(record, {A}).tables
    assert [each.directory for each in table.writes] == [directory(2)]
    assert directory(0) in table.directories


def test_undo_of_later_overwrite_does_not_restore_undone_write():
    first, second = write(1, WriteKind.OVERWRITING), write(2, WriteKind.OVERWRITING)
    record = begin_write(begin_write(a_record(tables=(TABLE,)), TABLE, first), TABLE, second)
    record = publish(record, TABLE, first, Written(5, 50))
    record = publish(record, TABLE, second, Written(7, 70))
    record = undo(record, TABLE, first)
    assert directory(0) in record.directories
    (table,) = undo(record, TABLE, second).tables
    assert (table.parts, table.rows, table.size_bytes) == ((directory(0),), 1, 10)


def test_copy_for_a_clone_inherits_no_pending_change():
    drop = PendingDrop("operation 9", A)
    (parent,) = begin_drop(a_record(tables=(TABLE,)), TABLE, drop).tables
    copy = begin_copy(parent, [write(5, WriteKind.CREATION)])
    assert (copy.state, copy.uuid, copy.parts, copy.drop) == (TableState.CREATING, directory(5), (), None)
    assert pending_change(copy, drop) is None


@pytest.mark.parametrize("kind", list(WriteKind))
def test_unpublished_write_of_a_refused_statement_is_undone(kind):
    own, other = write(1, kind), write(2, WriteKind.INSERTION)
    if kind is WriteKind.CREATION:
        begun = a_record(tables=(replace(TABLE, state=TableState.CREATING, parts=(), writes=(own,)),))
    else:
        begun = begin_write(begin_write(a_record(tables=(TABLE,)), TABLE, own), TABLE, other)
    after = suspect_request(begun, SuspectedRequest(own.operation_id, "digest", 1, Refusal.OPERATION, "loss"))
    assert after.tables == undo(begun, begun.tables[0], own).tables
    assert after.suspects == (SuspectedRequest(own.operation_id, "digest", 1, Refusal.OPERATION, "loss"),)


def test_unpublished_write_of_a_permanent_table_is_undone():
    begun = a_record(writes=(write(1, WriteKind.CREATION), write(2, WriteKind.CREATION)))
    after = suspect_request(begun, SuspectedRequest("operation 1", "digest", 1, Refusal.REQUEST, "loss"))
    assert after.writes == (write(2, WriteKind.CREATION),)


def test_client_of_a_statement_that_has_taken_effect_receives_its_answer():
    own = write(1, WriteKind.INSERTION)
    published = publish(begin_write(a_record(tables=(TABLE,)), TABLE, own), TABLE, own, Written(1, 1))
    answered = add_answer(complete(published, TABLE, own), Answer(own.operation_id, ()))
    dropping = begin_drop(a_record(tables=(TABLE,)), TABLE, PendingDrop(own.operation_id, A))
    for record in (published, answered, dropping):
        after = suspect_request(record, SuspectedRequest(own.operation_id, "digest", 1, Refusal.REQUEST, "loss"))
        assert after.tables == record.tables
        assert after.suspects == (SuspectedRequest("", "digest", 1, Refusal.REQUEST, "loss"),)


def test_statement_that_is_not_refused_is_completed():
    begun = begin_write(a_record(tables=(TABLE,)), TABLE, write(1, WriteKind.INSERTION))
    after = suspect_request(begun, SuspectedRequest("operation 1", "digest", 1, Refusal.NOTHING, "loss"))
    assert after.tables == begun.tables


def rewriting(number, *, partitions=()):
    own = write(number, WriteKind.REWRITING)
    return replace(own, replaced=TABLE.parts, replaced_rows=1, replaced_bytes=10, partitions=partitions)


def test_rewriting_keeps_rows_that_were_added_after_it_began():
    own, added = rewriting(1), write(2, WriteKind.INSERTION)
    record = begin_write(begin_write(a_record(tables=(TABLE,)), TABLE, own), TABLE, added)
    record = publish(record, TABLE, added, Written(5, 50))
    record = publish(record, TABLE, own, Written(7, 70))
    (table,) = record.tables
    assert (table.parts, table.rows, table.size_bytes) == ((directory(1), directory(2)), 12, 120)
    (back,) = undo(record, TABLE, own).tables
    assert (back.parts, back.rows, back.size_bytes) == ((directory(0), directory(2)), 6, 60)


@pytest.mark.parametrize("kind", [WriteKind.OVERWRITING, WriteKind.REWRITING])
def test_rewriting_fails_if_others_have_replaced_its_rows(kind):
    own, other = rewriting(1), rewriting(2) if kind is WriteKind.REWRITING else write(2, kind)
    record = begin_write(begin_write(a_record(tables=(TABLE,)), TABLE, own), TABLE, other)
    record = publish(record, TABLE, other, Written(5, 50))
    with pytest.raises(GatewayError, match="LODGE_TABLE_CHANGED"):
        publish(record, TABLE, own, Written(7, 70))


def test_rewritings_of_different_partitions_do_not_disturb_each_other():
    one, other, same = (rewriting(n, partitions=(p,)) for n, p in ((1, "a=1"), (2, "a=2/b=1"), (3, "a=1/b=2")))
    record = a_record(tables=(TABLE,))
    for each in (one, other, same):
        record = begin_write(record, TABLE, each)
    for each in (one, other):
        record = publish(record, TABLE, each, Written(1, 5, each.partitions, hidden_rows=1))
    with pytest.raises(GatewayError, match="LODGE_TABLE_CHANGED"):
        publish(record, TABLE, same, Written(1, 5, same.partitions, hidden_rows=1))
    (table,) = record.tables
    assert dict(table.visible_parts)[directory(0)] == ("a=1", "a=2/b=1")
    (back,) = undo(record, TABLE, one).tables
    assert dict(back.visible_parts) == {directory(0): ("a=2/b=1",), directory(2): ()}


def test_part_without_visible_rows_is_removed_when_it_is_replaced_for_good():
    first, second = (replace(write(n, WriteKind.PARTITION_OVERWRITING), partitions=("a=1",)) for n in (1, 2))
    record = a_record(tables=(TABLE,))
    for each in (first, second):
        record = publish(begin_write(record, TABLE, each), TABLE, each, Written(1, 5, each.partitions, hidden_rows=1))
    record = complete(record, TABLE, first)
    assert record.tables[0].parts == (directory(0), directory(1), directory(2))
    assert [part for part, _ in record.tables[0].visible_parts] == [directory(0), directory(2)]
    (back,) = undo(record, TABLE, second).tables
    assert [part for part, _ in back.visible_parts] == [directory(0), directory(1)]
    (done,) = complete(record, TABLE, second).tables
    assert (done.parts, [each.part for each in done.replacements]) == ((directory(0), directory(2)), [directory(2)])


MANY = replace(TABLE, parts=tuple(directory(n) for n in range(10, 14)), rows=4, size_bytes=40)


def merging(parts):
    return replace(write(1, WriteKind.MERGING), replaced=parts, replaced_bytes=20)


def test_merged_parts_are_replaced_in_their_place():
    own = merging(MANY.parts[1:3])
    begun = begin_write(a_record(tables=(MANY,)), MANY, own)
    record = publish(begun, MANY, own, Written(2, 15))
    (table,) = record.tables
    assert (table.parts, table.rows, table.size_bytes) == ((directory(10), directory(1), directory(13)), 4, 35)
    (back,) = undo(record, MANY, own).tables
    assert (back.parts, back.rows, back.size_bytes) == (MANY.parts, 4, 40)
    assert complete(record, MANY, own).tables[0].directories == set(table.parts)


def test_merging_does_not_disturb_a_statement_that_rewrites_rows():
    own = merging(MANY.parts[1:3])
    other = replace(write(2, WriteKind.REWRITING), replaced=MANY.parts, replaced_rows=4)
    record = begin_write(begin_write(a_record(tables=(MANY,)), MANY, own), MANY, other)
    with pytest.raises(GatewayError, match="LODGE_TABLE_CHANGED"):
        publish(record, MANY, own, Written(2, 15))
    record = publish(undo(record, MANY, own), MANY, other, Written(3, 30))
    assert (record.tables[0].parts, record.tables[0].rows) == ((directory(2),), 3)


def test_longest_sequence_of_small_parts_is_merged():
    many = replace(TABLE, parts=tuple(directory(n) for n in range(200)))
    sizes = dict.fromkeys(many.parts, 1000) | {directory(20): 2**30}
    assert choose_parts(many, sizes) == many.parts[21:]
    assert choose_parts(many, dict.fromkeys(many.parts, 2**30)) == ()
    replaced = replace(many, replacements=(Replacement(directory(110), ("a=1",)),))
    assert choose_parts(replaced, sizes) == many.parts[111:]
