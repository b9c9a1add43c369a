"""The steps of statements that change tables, in any order that several statements and replicas can take."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import GatewayError
from gateway.tables.changes import begun, completed, dropping, pending, published, taken_over, undone
from workspace.record_changes import remove_writes
from workspace.records import (
    ClientSessionId,
    PendingWrite,
    Phase,
    Principal,
    ReplicaId,
    SessionRecord,
    SessionUuid,
    TableState,
    TableUuid,
    TemporaryTable,
    WriteKind,
)

A, B = ReplicaId("a"), ReplicaId("b")


def directory(number):
    return TableUuid(f"00000000-0000-4000-8000-{number:012}")


def write(number, kind, replica=A):
    return PendingWrite(directory(number), f"operation {number}", replica, "{}", kind)


TABLE = TemporaryTable("t", directory(0), TableState.READY, "parquet", parts=(directory(0),), rows=1, size_bytes=10)


def a_record(*tables):
    return SessionRecord(
        SessionUuid(directory(99)),
        Principal("ada"),
        ClientSessionId(directory(98)),
        "sc://backend:1",
        Phase.ACTIVE,
        "2026-01-01",
        frozenset({A}),
        tables,
    )


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["publish", "complete", "undo"])), max_size=12), st.data())
def test_whatever_order_insertions_take_rows_and_parts_are_those_of_the_published_ones(steps, data):
    kinds = {n: data.draw(st.sampled_from([WriteKind.INSERTION, WriteKind.OVERWRITING])) for n in range(1, 5)}
    record = a_record(TABLE)
    for number, kind in kinds.items():
        record = begun(record, TABLE, write(number, kind))
    published_writes, ended = set(), set()
    for number, step in steps:
        own = write(number, kinds[number])
        if number in ended:
            assert undone(record, TABLE, own) == record
            continue
        if step == "publish" and number not in published_writes:
            record = published(record, TABLE, own, rows=number * 100, size_bytes=number)
            published_writes.add(number)
        elif step == "complete" and number in published_writes:
            record = completed(record, TABLE, own)
            ended.add(number)
        elif step == "undo":
            before = record
            record = undone(record, TABLE, own)
            published_writes.discard(number)
            ended.add(number)
            assert pending(record.tables[0], own) is None
            assert before != record
    (table,) = record.tables
    assert len(set(table.parts)) == len(table.parts)
    assert set(table.parts) <= table.directories
    if all(kind is WriteKind.INSERTION for kind in kinds.values()):
        assert set(table.parts) == {directory(0), *(directory(n) for n in published_writes)}
        assert table.rows == 1 + sum(n * 100 for n in published_writes)
        assert table.size_bytes == 10 + sum(published_writes)


def test_overwriting_keeps_what_it_replaces_until_it_is_complete_and_gives_it_back_when_undone():
    own = write(1, WriteKind.OVERWRITING)
    there = published(begun(a_record(TABLE), TABLE, own), TABLE, own, rows=5, size_bytes=50)
    assert there.tables[0].parts == (directory(1),)
    assert directory(0) in there.directories
    assert directory(0) not in completed(there, TABLE, own).directories
    (back,) = undone(there, TABLE, own).tables
    assert (back.parts, back.rows, back.size_bytes, back.writes) == ((directory(0),), 1, 10, ())


def test_rows_that_others_added_stay_when_overwriting_is_undone():
    own, other = write(1, WriteKind.OVERWRITING), write(2, WriteKind.INSERTION, B)
    record = begun(begun(a_record(TABLE), TABLE, own), TABLE, other)
    record = published(record, TABLE, own, rows=5, size_bytes=50)
    record = published(record, TABLE, other, rows=7, size_bytes=70)
    (table,) = undone(record, TABLE, own).tables
    assert (table.parts, table.rows, table.size_bytes) == ((directory(0), directory(2)), 8, 80)


def test_what_another_replica_took_over_is_not_undone_by_the_first():
    own = write(1, WriteKind.CREATION)
    claimed = a_record(replace(TABLE, uuid=directory(1), state=TableState.CREATING, parts=(), writes=(own,)))
    table = claimed.tables[0]
    record, mine = taken_over(claimed, table, own, B), replace(own, replica=B)
    assert undone(record, table, own) == record
    with pytest.raises(GatewayError, match="seemed lost"):
        published(record, table, own, rows=1, size_bytes=1)
    with pytest.raises(GatewayError, match="Another gateway"):
        taken_over(record, table, own, A)
    assert published(record, table, mine, rows=1, size_bytes=1).tables[0].state is TableState.READY
    assert undone(record, table, mine).tables == ()


def test_a_table_that_is_dropped_takes_no_rows_and_is_whole_again_if_the_drop_is_undone():
    rows, drop = write(1, WriteKind.INSERTION), replace(write(0, WriteKind.DROP), is_published=True)
    record = dropping(begun(a_record(TABLE), TABLE, rows), TABLE, drop)
    with pytest.raises(GatewayError, match="dropped while it was written"):
        published(record, TABLE, rows, rows=1, size_bytes=1)
    with pytest.raises(GatewayError, match="dropped meanwhile"):
        begun(record, TABLE, write(2, WriteKind.INSERTION))
    assert undone(record, TABLE, drop).tables[0].state is TableState.READY
    assert completed(record, TABLE, drop).tables == ()


def test_the_reaper_undoes_what_is_begun_and_leaves_what_is_published_to_a_gateway():
    begun_one, done = write(1, WriteKind.INSERTION), write(2, WriteKind.OVERWRITING)
    record = begun(begun(a_record(TABLE), TABLE, begun_one), TABLE, done)
    record = published(record, TABLE, done, rows=5, size_bytes=50)
    (table,) = remove_writes(record, {A}).tables
    assert [each.directory for each in table.writes] == [directory(2)]
    assert directory(0) in table.directories


def test_a_table_takes_a_thousand_insertions_and_then_says_what_to_do():
    full = replace(TABLE, parts=tuple(directory(n) for n in range(1000)))
    with pytest.raises(GatewayError, match="INSERT OVERWRITE") as raised:
        begun(a_record(full), full, write(1001, WriteKind.INSERTION))
    assert raised.value.error_class == "LODGE_LIMIT_REACHED"
    begun(a_record(full), full, write(1001, WriteKind.OVERWRITING))


def test_what_is_undone_before_a_later_overwriting_does_not_come_back_with_it():
    first, second = write(1, WriteKind.OVERWRITING), write(2, WriteKind.OVERWRITING)
    record = begun(begun(a_record(TABLE), TABLE, first), TABLE, second)
    record = published(record, TABLE, first, rows=5, size_bytes=50)
    record = published(record, TABLE, second, rows=7, size_bytes=70)
    record = undone(record, TABLE, first)
    assert directory(0) in record.directories
    (table,) = undone(record, TABLE, second).tables
    assert (table.parts, table.rows, table.size_bytes) == ((directory(0),), 1, 10)
