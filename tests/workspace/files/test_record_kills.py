"""Records as files when processes are killed, at every step of every change and at random.

The guarantees are those of workspace.files.record_versions ("directory") and workspace.files.record_directories
("files").
"""

import itertools
import random
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.fixture_types import KilledAt, NewRoot, WaitUntil
from tests.forks import create_fork
from tests.records import a_record
from workspace.files.record_directories import LEFTOVER_SECONDS
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import ReplicaId
from workspace.record_changes import add_holder, update_record
from workspace.record_store import RecordExistsError, RecordNotFoundError, StoredRecord
from workspace.records import SessionRecord

A, B = ReplicaId("a"), ReplicaId("b")


@pytest.fixture(autouse=True)
def frequent_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the hint with every second change, so that the tests reach each step of its replacement."""
    monkeypatch.setattr("workspace.files.record_versions.HINT_INTERVAL", 2)


def assert_empty(root: Path) -> None:
    found = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.parent.name != "reserve")
    own = ("leases", "records", "reserve", "root", "roots", "sessions", "staging", "trash")
    assert found == [".lodge", *(f".lodge/{name}" for name in own)]


def sweep(root: Path) -> None:
    """Let lists see the left-overs of a dead process for long enough, and purge the trash."""
    times = iter([0.0, LEFTOVER_SECONDS])
    records = FileSessionRecords(root, lambda: next(times))
    assert not records.list()
    assert not records.list()
    locations = FileSessionLocations(root)
    for entry in locations.trash():
        locations.purge(entry)


def created_anyway(records: FileSessionRecords, record: SessionRecord) -> StoredRecord:
    try:
        return records.create(record)
    except RecordExistsError:
        return records.read(record.name)


def test_files_guarantee_2_killed_create_is_complete_or_not_and_repeatable(
    new_root: NewRoot, killed_at: KilledAt
) -> None:
    record = a_record()
    outcomes = set()
    for step in itertools.count(1):
        root = new_root()
        records = FileSessionRecords(root)
        was_killed = killed_at(step, partial(FileSessionRecords(root).create, record))
        found = [stored.record for stored in records.list()]
        assert found in ([], [record])
        outcomes.add(len(found))
        records.delete(record.name, created_anyway(records, record).version)
        sweep(root)
        assert_empty(root)
        if not was_killed:
            break
    assert outcomes == {0, 1}


def test_directory_guarantee_4_killed_replace_is_complete_or_not_and_repeatable(
    new_root: NewRoot, killed_at: KilledAt
) -> None:
    outcomes = set()
    for step in itertools.count(1):
        root = new_root()
        records = FileSessionRecords(root)
        first = records.create(a_record())
        changed = add_holder(first.record, A)
        was_killed = killed_at(step, partial(FileSessionRecords(root).replace, changed, first.version))
        now = records.read(first.record.name)
        assert now.record in (first.record, changed)
        assert (now.version == first.version) == (now.record == first.record)
        outcomes.add(now.record == changed)
        again = update_record(records, first.record.name, lambda record: add_holder(record, B))
        records.delete(first.record.name, again.version)
        assert_empty(root)
        if not was_killed:
            break
    assert outcomes == {False, True}


@pytest.mark.parametrize("next_visitor", ["list", "create", "delete"])
def test_files_guarantee_2_killed_delete_is_complete_or_not_and_cleaned_up(
    new_root: NewRoot, killed_at: KilledAt, next_visitor: str
) -> None:
    outcomes = set()
    for step in itertools.count(1):
        root = new_root()
        records = FileSessionRecords(root)
        first = records.create(a_record())
        name = first.record.name
        stored = records.replace(add_holder(first.record, A), first.version)
        was_killed = killed_at(step, partial(FileSessionRecords(root).delete, name, stored.version))
        try:
            assert records.read(name) == stored
            outcomes.add("not done")
            records.delete(name, stored.version)
        except RecordNotFoundError:
            outcomes.add("done")
            if next_visitor == "create":
                records.delete(name, records.create(a_record()).version)
            elif next_visitor == "delete":
                with pytest.raises(RecordNotFoundError):
                    records.delete(name, stored.version)
                sweep(root)
            else:
                assert not records.list()
                sweep(root)
        assert_empty(root)
        if not was_killed:
            break
    assert outcomes == {"done", "not done"}


def test_directory_guarantee_4_random_kills_lose_no_confirmed_change(root: Path, wait_until: WaitUntil) -> None:
    name = FileSessionRecords(root).create(a_record()).record.name
    confirmed = root / "confirmed"
    chance = random.Random(20)  # noqa: S311 - not for secrets

    def increment_for_ever() -> None:
        records = FileSessionRecords(root)
        with confirmed.open("ab", buffering=0) as file:
            while True:
                update_record(records, name, lambda r: replace(r, created_at=str(int(r.created_at) + 1)))
                file.write(b"+")

    confirmed.touch()
    kills = 0
    for _ in range(4):
        size = confirmed.stat().st_size
        workers = [create_fork(increment_for_ever) for _ in range(3)]
        for worker in workers:
            worker.start()
        wait_until(lambda size=size: confirmed.stat().st_size > size, "a change is confirmed")  # type: ignore[misc] # mypy cannot infer a lambda with a default
        time.sleep(chance.uniform(0.0, 0.08))  # any length will do
        for worker in workers:
            worker.kill()
            worker.join()
            kills += 1
    count = int(FileSessionRecords(root).read(name).record.created_at)
    assert confirmed.stat().st_size <= count <= confirmed.stat().st_size + kills
    assert count >= 4
