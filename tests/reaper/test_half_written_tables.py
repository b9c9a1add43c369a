"""Unfinished writes and leftover directories of dead gateways, in sessions that other gateways serve.

A lease lasts ten seconds, and the grace period five; see ``World``.
"""

import itertools
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import structlog

from reaper.table_directories import SETTLED_SECONDS, TableDirectories
from workspace.files.root_locations import RootLocations
from workspace.identifiers import ReplicaId, TableUuid
from workspace.record_changes import find_table, put_table, remove_table, update_record
from workspace.record_store import StoredRecord
from workspace.records import PendingWrite, TableState, TemporaryTable

LEASE_SECONDS, GRACE_SECONDS = 10, 5


def begin_writing(world: Any, stored: StoredRecord, name: str, writer: str) -> Path:
    """Claim a table and create the directory of its data, as a gateway does."""
    table_uuid = TableUuid(str(uuid.uuid4()))
    write = PendingWrite(table_uuid, "operation", ReplicaId(writer))
    table = TemporaryTable(name, table_uuid, TableState.CREATING, "parquet", writes=(write,))
    update_record(world.records, stored.record.name, lambda record: put_table(record, table))
    return directory_of(world, stored, table_uuid)


def directory_of(world: Any, stored: StoredRecord, table_uuid: str) -> Path:
    directory: Path = world.locations.path(stored.record.session_uuid) / table_uuid
    (directory / "_temporary").mkdir(parents=True)
    return directory


def tables_of(world: Any, stored: StoredRecord) -> list[str]:
    return [table.name for table in world.records.read(stored.record.name).record.tables]


def test_writes_of_dead_replica_are_undone_and_their_files_removed(world: Any) -> None:
    stored = world.start_session("dead", "alive")
    world.passes(1, "alive", "dead")
    directory = begin_writing(world, stored, "half", "dead")
    with structlog.testing.capture_logs() as logs:
        world.passes(LEASE_SECONDS + GRACE_SECONDS - 1, "alive")
        assert tables_of(world, stored) == ["t", "half"]
        world.passes(4, "alive")
        assert tables_of(world, stored) == ["t"]
        assert directory.exists()
        world.passes(GRACE_SECONDS + 3, "alive")
    assert not directory.exists()
    assert not world.locations.trash()
    assert world.is_there(stored)
    assert [log for log in logs if "table" in log["event"] or "writes" in log["event"]] == [
        {
            "event": "unfinished_writes_undone",
            "log_level": "warning",
            "session": stored.record.session_uuid,
            "tables": ["half"],
            "replicas": ["dead"],
        },
        {
            "event": "orphan_table_deleted",
            "log_level": "info",
            "session": stored.record.session_uuid,
            "table_uuid": directory.name,
        },
    ]


def test_insertion_of_dead_replica_leaves_the_table_unchanged(world: Any) -> None:
    stored = world.start_session("alive")
    part = TableUuid(str(uuid.uuid4()))
    table = find_table(stored.record, "t")
    assert table is not None
    writing = TemporaryTable(
        table.name,
        table.uuid,
        table.state,
        table.storage_format,
        table.parts,
        writes=(PendingWrite(part, "operation", ReplicaId("dead")),),
    )
    update_record(world.records, stored.record.name, lambda record: put_table(record, writing))
    directory = directory_of(world, stored, part)
    world.passes(LEASE_SECONDS + GRACE_SECONDS + 3 + GRACE_SECONDS + 2, "alive")
    assert world.records.read(stored.record.name).record.tables == (table,)
    assert not directory.exists()
    assert world.is_there(stored)


def test_writes_of_live_replica_are_never_touched(world: Any) -> None:
    stored = world.start_session("other")
    directory = begin_writing(world, stored, "slow", "alive")
    world.passes(200, "alive", "other")
    assert tables_of(world, stored) == ["t", "slow"]
    assert directory.exists()


def test_lease_of_writer_without_session_is_observed(world: Any) -> None:
    stored = world.start_session("alive")
    begin_writing(world, stored, "half", "dead")
    assert ReplicaId("dead") not in world.leases.list()
    world.passes(LEASE_SECONDS, "alive")
    assert tables_of(world, stored) == ["t", "half"]
    world.passes(GRACE_SECONDS + 3, "alive")
    assert tables_of(world, stored) == ["t"]


def test_leftover_files_of_dropped_table_are_removed(world: Any) -> None:
    stored = world.start_session("alive")
    world.passes(SETTLED_SECONDS + 2, "alive")
    update_record(world.records, stored.record.name, lambda record: remove_table(record, "t"))
    location = world.locations.path(stored.record.session_uuid)
    world.passes(GRACE_SECONDS, "alive")
    assert list(location.iterdir())
    world.passes(2, "alive")
    assert not list(location.iterdir())


def test_directory_recreated_by_late_writer_is_removed_again(world: Any) -> None:
    stored = world.start_session("alive")
    table_uuid = TableUuid(str(uuid.uuid4()))
    for pause_seconds in (0, 1, 30):
        world.passes(pause_seconds, "alive")
        directory = directory_of(world, stored, table_uuid)
        world.passes(GRACE_SECONDS + 3, "alive")
        assert not directory.exists()
    assert world.is_there(stored)


@pytest.mark.parametrize("looked_at", ["locations", "tables", "leases", "records"])
def test_table_created_during_a_snapshot_is_no_orphan(new_world: Callable[[], Any], looked_at: str) -> None:
    world = new_world()
    world.reaper = world.new_reaper(grace_period_seconds=0.0)
    stored = world.start_session("alive")
    target, name = {
        "locations": (world.locations, "list"),
        "tables": (RootLocations, "contents"),
        "leases": (world.leases, "list"),
        "records": (world.records, "list"),
    }[looked_at]
    looking, numbers = getattr(target, name), itertools.count()

    def look_and_create(*arguments: Any) -> Any:
        seen = looking(*arguments)
        begin_writing(world, stored, f"new{next(numbers)}", "alive")
        return seen

    for _ in range(3):
        with mock.patch.object(target, name, look_and_create):
            world.passes(1, "alive")
        world.passes(2, "alive")
    record = world.records.read(stored.record.name).record
    there = {path.name for path in world.locations.path(stored.record.session_uuid).iterdir()}
    assert there == {table.uuid for table in record.tables}
    assert len(there) >= 4


def test_foreign_directories_are_logged_once_and_stay_until_session_end(world: Any) -> None:
    stored = world.start_session("alive")
    location = world.locations.path(stored.record.session_uuid)
    (location / "scratch").mkdir()
    (location / str(uuid.uuid4())).write_text("a file")
    (location / str(uuid.uuid4())).symlink_to("scratch")
    with structlog.testing.capture_logs() as logs:
        world.passes(30, "alive")
    assert logs == [
        {
            "event": "foreign_directories_left",
            "log_level": "info",
            "session": stored.record.session_uuid,
            "directories": 1,
        }
    ]
    assert len(list(location.iterdir())) == 4
    world.passes(LEASE_SECONDS + GRACE_SECONDS + 4)
    world.assert_nothing_is_left()


@pytest.mark.parametrize("failing", ["stamp", "contents"])
def test_unlistable_location_does_not_stop_the_others(world: Any, failing: str) -> None:
    stuck, other = world.start_session("alive"), world.start_session("alive")
    directory = directory_of(world, other, str(uuid.uuid4()))
    kept = directory_of(world, stuck, str(uuid.uuid4()))
    inside = getattr(RootLocations, failing)

    def fail_for_one(root: RootLocations, session_uuid: Any) -> Any:
        if session_uuid == stuck.record.session_uuid:
            raise PermissionError(13, "Permission denied")
        return inside(root, session_uuid)

    with (
        structlog.testing.capture_logs() as logs,
        mock.patch.object(RootLocations, failing, fail_for_one),
    ):
        summaries = world.passes(GRACE_SECONDS + 3, "alive")
    assert not any(summary.held_back for summary in summaries)
    assert not directory.exists()
    assert kept.exists()
    assert [log["session"] for log in logs if log["event"] == "location_not_listed"] == [stuck.record.session_uuid]
    world.passes(GRACE_SECONDS + 3, "alive")
    assert not kept.exists()


def test_next_reaper_purges_after_death_of_the_first(world: Any) -> None:
    stored = world.start_session("alive")
    directory = directory_of(world, stored, str(uuid.uuid4()))
    with mock.patch.object(world.locations, "purge", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        world.passes(GRACE_SECONDS + 3, "alive")
    assert not directory.exists()
    assert world.locations.trash()
    world.reaper = world.new_reaper()
    world.passes(1, "alive")
    assert not world.locations.trash()


class Listings:
    """Counts the listings of locations."""

    def __init__(self) -> None:
        self.count = 0
        self._inside = RootLocations.contents

    def __call__(self, root: RootLocations, session_uuid: Any) -> Any:
        self.count += 1
        return self._inside(root, session_uuid)


def test_unchanged_location_is_not_listed_again(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stored, listings = world.start_session("alive"), Listings()
    monkeypatch.setattr(RootLocations, "contents", lambda root, session_uuid: listings(root, session_uuid))
    directories = TableDirectories(world.locations)
    sessions = {stored.record.session_uuid}
    for second in range(100):
        assert len(directories.read(sessions, float(second))[stored.record.session_uuid].tables) == 1
    assert listings.count == SETTLED_SECONDS + 1
    directory_of(world, stored, str(uuid.uuid4()))
    assert len(directories.read(sessions, 100.0)[stored.record.session_uuid].tables) == 2
    assert listings.count == SETTLED_SECONDS + 2


def test_reset_modification_time_does_not_hide_a_directory(world: Any) -> None:
    stored = world.start_session("alive")
    location = world.locations.path(stored.record.session_uuid)
    before = location.stat()
    directories, sessions = TableDirectories(world.locations), {stored.record.session_uuid}
    for second in range(10):
        directories.read(sessions, float(second))
    directory_of(world, stored, str(uuid.uuid4()))
    os.utime(location, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert location.stat().st_mtime_ns == before.st_mtime_ns
    assert len(directories.read(sessions, 10.0)[stored.record.session_uuid].tables) == 2


def test_two_changes_in_one_clock_tick_are_both_seen(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = world.start_session("alive")
    sessions = {stored.record.session_uuid}
    stamp = world.locations.roots()[0].stamp(stored.record.session_uuid)
    monkeypatch.setattr(RootLocations, "stamp", lambda *_: stamp)
    directories = TableDirectories(world.locations)
    directories.read(sessions, 0.0)
    directory_of(world, stored, str(uuid.uuid4()))
    assert len(directories.read(sessions, 0.2)[stored.record.session_uuid].tables) == 2
