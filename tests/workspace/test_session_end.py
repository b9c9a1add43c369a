"""The changes and the end of a session (guarantees: workspace.record_changes, workspace.session_end)."""

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import structlog

from tests.fixture_types import InProcesses, InterruptedAt, KilledAt, NewRoot
from tests.records import a_record
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import Principal, ReplicaId, TableUuid
from workspace.record_changes import (
    SessionEndingError,
    add_holder,
    find_table,
    mark_ending,
    put_table,
    remove_holders,
    remove_table,
    update_record,
)
from workspace.record_store import (
    RecordConflictError,
    RecordNotFoundError,
    RecordsUnavailableError,
    SessionRecords,
    StoredRecord,
    Version,
)
from workspace.records import Phase, SessionRecord, TableState, TemporaryTable
from workspace.session_end import EndedSession, begin_end, end_session, log_session_end

A, B = ReplicaId("a"), ReplicaId("b")


def a_table(name: str, number: int = 1, state: TableState = TableState.READY) -> TemporaryTable:
    return TemporaryTable(name, TableUuid(f"00000000-0000-4000-8000-{number:012}"), state, "parquet")


def test_add_and_remove_holders() -> None:
    both = add_holder(add_holder(a_record(), A), B)
    assert both.holders == {A, B}
    assert add_holder(both, A) == both
    assert remove_holders(both, {A}).holders == {B}
    assert remove_holders(both, {A, B, ReplicaId("c")}).holders == set()


def test_table_names_ignore_letter_case() -> None:
    record = put_table(put_table(a_record(), a_table("Sales", 1)), a_table("STRASSE", 2))
    assert find_table(record, "sALES") == a_table("Sales", 1)
    assert find_table(record, "straße") is None  # as for Spark
    assert find_table(record, "other") is None
    replaced = put_table(record, a_table("SALES", 3))
    assert replaced.tables == (a_table("SALES", 3), a_table("STRASSE", 2))
    assert remove_table(replaced, "sales").tables == (a_table("STRASSE", 2),)
    assert remove_table(replaced, "other") == replaced


def test_guarantee_1_ending_session_refuses_changes() -> None:
    ending = mark_ending(a_record(holders=frozenset({A})))
    assert ending.phase is Phase.ENDING
    assert mark_ending(ending) == ending
    assert remove_holders(ending, {A}) == ending
    for change in (
        lambda: add_holder(ending, B),
        lambda: put_table(ending, a_table("t")),
        lambda: remove_table(ending, "t"),
    ):
        with pytest.raises(SessionEndingError, match=ending.session_uuid):
            change()


def test_update_is_retried_while_others_change_the_record(records: SessionRecords) -> None:
    name = records.create(a_record()).record.name
    rivals = iter("bcd")

    def change(record: SessionRecord) -> SessionRecord:
        rival = next(rivals, None)
        if rival is not None:
            update_record(records, name, lambda other: add_holder(other, ReplicaId(rival)))
        return add_holder(record, A)

    assert update_record(records, name, change).record.holders == set("abcd")


def test_update_that_always_loses_raises_the_conflict(records: SessionRecords) -> None:
    stored = records.create(a_record())
    with (
        mock.patch.object(records, "replace", side_effect=RecordConflictError(stored.record.name, "late")),
        mock.patch("tenacity.nap.time.sleep"),
        pytest.raises(RecordConflictError),
    ):
        update_record(records, stored.record.name, lambda record: add_holder(record, A))


def test_update_without_change_writes_nothing(records: SessionRecords) -> None:
    stored = records.create(a_record(holders=frozenset({A})))
    assert update_record(records, stored.record.name, lambda record: add_holder(record, A)) == stored


def test_update_passes_on_errors_and_writes_nothing(records: SessionRecords) -> None:
    stored = records.create(a_record(phase=Phase.ENDING))
    with pytest.raises(SessionEndingError):
        update_record(records, stored.record.name, lambda record: add_holder(record, A))
    assert records.read(stored.record.name) == stored


def test_end_session_removes_record_location_and_trash(
    root: Path, records: SessionRecords, locations: FileSessionLocations
) -> None:
    stored = records.create(a_record())
    location = locations.create(stored.record.session_uuid)
    table = a_table("t").uuid
    (location / table).mkdir()
    locations.remove_table(stored.record.session_uuid, table)
    (location / table).mkdir()
    done = end_session(records, locations, stored)
    assert done == EndedSession(mark_ending(stored.record), (location,), None)
    assert not records.list()
    assert not locations.trash()
    assert [path.name for path in root.iterdir()] == [".lodge"]


def test_end_session_without_location(records: SessionRecords, locations: FileSessionLocations) -> None:
    stored = records.create(a_record())
    assert end_session(records, locations, stored) == EndedSession(mark_ending(stored.record), (), None)


def test_guarantee_4_changed_session_is_not_ended(records: SessionRecords, locations: FileSessionLocations) -> None:
    stored = records.create(a_record())
    locations.create(stored.record.session_uuid)
    changed = update_record(records, stored.record.name, lambda record: add_holder(record, A))
    with pytest.raises(RecordConflictError):
        end_session(records, locations, stored)
    assert records.read(stored.record.name) == changed
    assert locations.list() == {stored.record.session_uuid}


def test_end_of_an_ended_session_spares_its_successor(records: SessionRecords, locations: FileSessionLocations) -> None:
    first = records.create(a_record())
    marked = update_record(records, first.record.name, mark_ending)
    end_session(records, locations, marked)
    assert end_session(records, locations, first) is None
    assert end_session(records, locations, marked) is None
    successor = records.create(a_record())
    locations.create(successor.record.session_uuid)
    released: list[SessionRecord] = []
    assert begin_end(records, locations, marked, released.append) is None
    assert not released, "at the backend, the later session has the same name"
    assert records.read(first.record.name) == successor
    assert locations.list() == {successor.record.session_uuid}


class RecordsThatNeedTheLocationGone:
    """Records that fail the test when a record is deleted before its session location."""

    def __init__(self, records: SessionRecords, locations: FileSessionLocations) -> None:
        self._records = records
        self._locations = locations

    def __getattr__(self, name: str) -> Any:
        return getattr(self._records, name)

    def delete(self, name: Any, version: Version) -> None:
        stored = self._records.read(name)
        assert stored.record.session_uuid not in self._locations.list()
        self._records.delete(name, version)


def test_guarantee_2_record_outlives_the_location(records: SessionRecords, locations: FileSessionLocations) -> None:
    stored = records.create(a_record())
    locations.create(stored.record.session_uuid)
    watching: Any = RecordsThatNeedTheLocationGone(records, locations)
    assert end_session(watching, locations, stored) is not None


def test_guarantee_2_location_that_cannot_move_keeps_its_record(
    root: Path, records: SessionRecords, locations: FileSessionLocations
) -> None:
    stored = records.create(a_record())
    locations.create(stored.record.session_uuid)
    (root / ".lodge" / "trash").rmdir()
    with pytest.raises(OSError, match="trash"):
        end_session(records, locations, stored)
    assert records.read(stored.record.name).record == mark_ending(stored.record)
    locations.initialise()
    assert end_session(records, locations, records.read(stored.record.name)) is not None


def test_session_ends_even_if_its_files_cannot_be_purged(
    records: SessionRecords, locations: FileSessionLocations
) -> None:
    stored = records.create(a_record())
    locations.create(stored.record.session_uuid)
    failure = PermissionError(13, "Permission denied")
    with mock.patch.object(locations, "purge", side_effect=failure):
        done = end_session(records, locations, stored)
    assert done is not None
    assert done.purge_error is failure
    assert locations.trash_of(stored.record.session_uuid)
    assert not records.list()


@pytest.mark.slow
def test_guarantee_3_next_call_completes_a_killed_end(new_root: NewRoot, killed_at: KilledAt) -> None:
    for step in itertools.count(1):
        root = new_root()
        records, locations = FileSessionRecords(root), FileSessionLocations(root)
        stored = records.create(a_record())
        (locations.create(stored.record.session_uuid) / "table").mkdir()
        was_killed = killed_at(step, partial(end_session, records, locations, stored))
        remaining = records.list()
        assert remaining or not locations.list(), "the record is gone and the location is not"
        for found in remaining:
            done = end_session(records, locations, found)
            assert done is not None
            assert done.locations == (locations.path(stored.record.session_uuid),)
        for entry in locations.trash():
            locations.purge(entry)
        assert not records.list()
        assert not locations.list()
        if not was_killed:
            break
    assert step > 10


def test_guarantee_3_at_most_one_of_many_processes_ends_a_session(root: Path, in_processes: InProcesses) -> None:
    records, locations = FileSessionRecords(root), FileSessionLocations(root)
    for _ in range(5):
        records.create(a_record())
        stored = update_record(records, a_record().name, mark_ending)
        (locations.create(stored.record.session_uuid) / "table").mkdir()

        def end(stored: StoredRecord = stored) -> EndedSession | None:
            return end_session(FileSessionRecords(root), FileSessionLocations(root), stored)

        results = in_processes([end] * 4)
        assert [result for result in results if result is not None] == [
            EndedSession(stored.record, (locations.path(stored.record.session_uuid),), None)
        ]
        assert not records.list()
        assert not locations.list()
        assert not locations.trash()


def ended_now(records: SessionRecords, locations: FileSessionLocations, stored: StoredRecord) -> EndedSession | None:
    try:
        return end_session(records, locations, stored)
    except RecordConflictError:
        return None


def ended_by_name(
    records: SessionRecords, locations: FileSessionLocations, record: SessionRecord
) -> EndedSession | None:
    try:
        return end_session(records, locations, records.read(record.name))
    except RecordNotFoundError:
        return None


def test_guarantee_3_paused_end_and_concurrent_end_succeed_once(
    new_root: NewRoot, interrupted_at: InterruptedAt
) -> None:
    for step in itertools.count(1):
        root = new_root()
        records, locations = FileSessionRecords(root), FileSessionLocations(root)
        stored = records.create(a_record())
        locations.create(stored.record.session_uuid)
        results: list[EndedSession | None] = []
        rival = partial(append_result, results, partial(ended_by_name, records, locations, stored.record))
        was_interrupted, result = interrupted_at(step, partial(ended_now, records, locations, stored), rival)
        assert sum(done is not None for done in (result, *results)) == 1
        assert not records.list()
        assert not locations.list()
        if not was_interrupted:
            break
    assert step > 20


def append_result(results: list[Any], task: Callable[[], Any]) -> None:
    results.append(task())


def test_log_of_a_deleted_location(records: SessionRecords, locations: FileSessionLocations) -> None:
    stored = records.create(a_record(principal=Principal("ada")))
    location = locations.create(stored.record.session_uuid)
    done = end_session(records, locations, stored)
    assert done is not None
    with structlog.testing.capture_logs() as logs:
        log_session_end(structlog.get_logger(), done)
        log_session_end(structlog.get_logger(), EndedSession(stored.record, (), None))
        log_session_end(structlog.get_logger(), EndedSession(stored.record, (), OSError(39, "Directory not empty")))
    assert logs == [
        {
            "event": "session_location_deleted",
            "log_level": "info",
            "message": f"Deleted session temporary location [{location}] from file system [file:///]",
            "location": str(location),
            "file_system": "file:///",
            "session": stored.record.session_uuid,
            "principal": "ada",
        },
        {
            "event": "trash_purge_failed",
            "log_level": "warning",
            "session": stored.record.session_uuid,
            "reason": "[Errno 39] Directory not empty",
        },
    ]


def test_unavailable_records_keep_the_location(
    root: Path, records: SessionRecords, locations: FileSessionLocations
) -> None:
    stored = records.create(a_record())
    locations.create(stored.record.session_uuid)
    (root / ".lodge" / "sessions").rename(root / ".lodge" / "elsewhere")
    with pytest.raises(RecordsUnavailableError):
        end_session(records, locations, stored)
    assert locations.list() == {stored.record.session_uuid}
