"""The contract of SessionRecords, held by every implementation (guarantees: workspace.records)."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from workspace.records import (
    ClientSessionId,
    Phase,
    Principal,
    RecordConflictError,
    RecordExistsError,
    RecordName,
    RecordNotFoundError,
    ReplicaId,
    SessionRecord,
    SessionRecords,
    StoredRecord,
    TableState,
    TableUuid,
    TemporaryTable,
    Version,
    record_name,
)
from workspace.sessions import joined, update

Builder = Callable[..., SessionRecord]
Opener = Callable[[], SessionRecords]
InProcesses = Callable[[Sequence[Callable[[], Any]]], list[Any]]

DEADLINE_SECONDS = 30
ABSENT = record_name(Principal("nobody"), ClientSessionId("none"))


def counted(record: SessionRecord) -> SessionRecord:
    return replace(record, created_at=str(int(record.created_at) + 1))


def test_a_created_record_reads_back_whole(open_records: Opener, a_record: Builder) -> None:
    table = TemporaryTable(
        "Größe; 'x'\n", TableUuid("00000000-0000-4000-8000-000000000001"), TableState.READY, "parquet"
    )
    record = a_record(principal=Principal("ada\0\u2028"), holders=frozenset({ReplicaId("a")}), tables=(table,))
    created = open_records().create(record)
    assert created.record == record
    assert open_records().read(record.name) == created
    assert list(open_records().list()) == [created]


def test_a_replaced_record_has_a_new_version_and_the_new_parts(records: SessionRecords, a_record: Builder) -> None:
    first = records.create(a_record())
    second = records.replace(joined(first.record, ReplicaId("a")), first.version)
    assert second.version != first.version
    assert records.read(first.record.name) == second
    assert second.record.holders == {"a"}


def test_a_name_can_be_created_once_until_it_is_deleted(records: SessionRecords, a_record: Builder) -> None:
    first = records.create(a_record())
    with pytest.raises(RecordExistsError):
        records.create(a_record())
    records.delete(first.record.name, first.version)
    again = records.create(a_record())
    assert records.read(first.record.name) == again
    assert again.version != first.version


def test_what_is_not_there_is_not_found(records: SessionRecords, a_record: Builder) -> None:
    record = a_record()
    version = records.create(a_record(client_session_id=ClientSessionId("other"))).version
    with pytest.raises(RecordNotFoundError):
        records.read(ABSENT)
    with pytest.raises(RecordNotFoundError):
        records.replace(record, version)
    with pytest.raises(RecordNotFoundError):
        records.delete(ABSENT, version)


def test_guarantee_2_an_old_version_can_neither_replace_nor_delete(records: SessionRecords, a_record: Builder) -> None:
    first = records.create(a_record())
    second = records.replace(counted(first.record), first.version)
    with pytest.raises(RecordConflictError):
        records.replace(first.record, first.version)
    with pytest.raises(RecordConflictError):
        records.delete(first.record.name, first.version)
    assert records.read(first.record.name) == second


@pytest.mark.parametrize("changes", [0, 1, 5])
def test_guarantee_2_a_version_of_a_deleted_record_is_none_of_its_successor(
    records: SessionRecords, a_record: Builder, changes: int
) -> None:
    first = records.create(a_record())
    records.delete(first.record.name, first.version)
    second = records.create(a_record())
    for _ in range(changes):
        second = records.replace(counted(second.record), second.version)
    with pytest.raises(RecordConflictError):
        records.replace(first.record, first.version)
    with pytest.raises(RecordConflictError):
        records.delete(first.record.name, first.version)
    assert records.read(first.record.name) == second


@pytest.mark.parametrize("version", ["", "1", "../../x", "0000000001", "0000000001.zz"])
def test_guarantee_2_a_version_that_never_was_is_a_conflict(
    records: SessionRecords, a_record: Builder, version: str
) -> None:
    stored = records.create(a_record())
    with pytest.raises(RecordConflictError):
        records.replace(stored.record, Version(version))
    with pytest.raises(RecordConflictError):
        records.delete(stored.record.name, Version(version))


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "A" * 40, "a" * 39, "a" * 39 + "/", "a" * 40 + "\n"])
def test_only_names_that_record_name_makes_are_taken(records: SessionRecords, name: str) -> None:
    with pytest.raises(ValueError, match="name of a session record"):
        records.read(RecordName(name))
    with pytest.raises(ValueError, match="name of a session record"):
        records.delete(RecordName(name), Version("1"))


def test_a_record_that_could_not_be_read_again_is_not_stored(records: SessionRecords, a_record: Builder) -> None:
    for bad in (a_record(session_uuid="../escape"), a_record(principal=Principal("half a pair: \ud800"))):
        with pytest.raises(ValueError, match=r"."):
            records.create(bad)
    assert not records.list()


def test_the_list_has_every_record_and_no_deleted_one(records: SessionRecords, a_record: Builder) -> None:
    stored = [records.create(a_record(client_session_id=ClientSessionId(str(n)))) for n in range(5)]
    records.delete(stored[2].record.name, stored[2].version)
    ended = records.replace(replace(stored[3].record, phase=Phase.ENDING), stored[3].version)
    expected = {s.record.name: s for s in (stored[0], stored[1], ended, stored[4])}
    assert {s.record.name: s for s in records.list()} == expected


def test_guarantee_1_of_many_creating_processes_one_wins(
    open_records: Opener, a_record: Builder, in_processes: InProcesses
) -> None:
    for round_number in range(5):
        rivals = [a_record(client_session_id=ClientSessionId(str(round_number))) for _ in range(6)]
        results = in_processes([partial(open_records().create, rival) for rival in rivals])
        winners = [result for result in results if isinstance(result, StoredRecord)]
        assert len(winners) == 1
        assert sum(str(result).startswith("RecordExistsError") for result in results) == len(rivals) - 1
        assert open_records().read(rivals[0].name) == winners[0]


@pytest.mark.parametrize("operation", ["replace", "delete"])
def test_guarantee_2_of_many_processes_with_one_version_one_wins(
    open_records: Opener, a_record: Builder, in_processes: InProcesses, operation: str
) -> None:
    for round_number in range(5):
        stored = open_records().create(a_record(client_session_id=ClientSessionId(str(round_number))))

        def rival(stored: StoredRecord = stored) -> str:
            if operation == "replace":
                open_records().replace(counted(stored.record), stored.version)
            else:
                open_records().delete(stored.record.name, stored.version)
            return "won"

        results = in_processes([rival] * 6)
        assert results.count("won") == 1
        losses = [result for result in results if result != "won"]
        assert all(loss.startswith(("RecordConflictError", "RecordNotFoundError")) for loss in losses), losses


def test_guarantee_2_no_increment_of_many_processes_is_lost(
    open_records: Opener, a_record: Builder, in_processes: InProcesses
) -> None:
    name = open_records().create(a_record()).record.name

    def increment() -> None:
        for _ in range(20):
            update(open_records(), name, counted)

    assert in_processes([increment] * 5) == [None] * 5
    assert open_records().read(name).record.created_at == "100"


def test_guarantee_3_readers_see_whole_records_while_others_change_create_and_delete(
    open_records: Opener, a_record: Builder, in_processes: InProcesses
) -> None:
    tables = tuple(
        TemporaryTable(f"t{n}", TableUuid(f"00000000-0000-4000-8000-{n:012}"), TableState.READY, "parquet" * 20)
        for n in range(100)
    )
    changing = a_record(tables=tables)
    passing = a_record(client_session_id=ClientSessionId("passing"))
    open_records().create(changing)

    def change() -> None:
        records = open_records()
        for _ in range(40):
            update(records, changing.name, counted)
            stored = records.create(passing)
            records.delete(passing.name, stored.version)

    def look() -> list[int]:
        records, seen = open_records(), [0]
        deadline_seconds = time.monotonic() + DEADLINE_SECONDS
        while seen[-1] < 40 and time.monotonic() < deadline_seconds:
            listed = {stored.record.name: stored.record for stored in records.list()}
            assert listed.keys() <= {changing.name, passing.name}
            assert listed[changing.name].tables == tables
            seen.append(int(records.read(changing.name).record.created_at))
        return seen

    changed, *looks = in_processes([change, look, look])
    assert changed is None
    for seen in looks:
        assert isinstance(seen, list), seen
        assert seen[-1] == 40
        assert seen == sorted(seen), "a later read found an older version"
