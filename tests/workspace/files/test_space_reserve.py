"""Changes of session records on a full disk. Numbers in names are the guarantees of the module."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fixture_types import InProcesses
from tests.own_mounts import fill_disk, mount_small_disk, with_own_mounts
from tests.records import a_record
from workspace.files.private_files import open_directory
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.files.space_reserve import COUNT, FILE_BYTES, SpaceReserve
from workspace.record_store import RecordNotFoundError, RecordsUnavailableError


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "reserve"
    path.mkdir()
    return path


@pytest.fixture
def target(tmp_path: Path) -> Iterator[int]:
    """The descriptor of the directory into which files are moved."""
    with open_directory(tmp_path) as descriptor:
        yield descriptor


def test_guarantee_1_each_file_is_taken_once(directory, tmp_path, target):
    reserve = SpaceReserve(directory)
    assert not reserve.take("none", b"x", target)
    reserve.fill()
    names = [str(number) for number in range(COUNT)]
    assert sorted(path.name for path in directory.iterdir()) == sorted(names)
    for name in names:
        assert reserve.take(f"new-{name}", name.encode(), target)
    assert not reserve.take("one-more", b"x", target)
    assert [(tmp_path / f"new-{name}").read_text() for name in names] == names
    reserve.fill()
    assert len(list(directory.iterdir())) == COUNT


def test_guarantee_2_file_with_too_little_space_is_not_used(directory, tmp_path, target):
    (directory / "0").touch()  # the process died while it created the file
    reserve = SpaceReserve(directory)
    assert not reserve.take("new", b"x", target)
    assert not (tmp_path / "new").exists()
    (directory / "1").touch()
    reserve.fill()
    assert all(path.stat().st_size == FILE_BYTES for path in directory.iterdir())
    assert not reserve.take("large", b"x" * (FILE_BYTES + 1), target)


@pytest.mark.needs_root
def test_records_change_on_a_full_disk_and_new_ones_are_refused(tmp_path: Path, in_processes: InProcesses) -> None:
    root = tmp_path / "mounted"
    root.mkdir()

    def task() -> str:
        mount_small_disk(root, "2m")
        FileSessionLocations(root).initialise()
        records = FileSessionRecords(root)
        first, second = records.create(a_record(1)), records.create(a_record(2))
        fill_disk(root)
        for number in range(COUNT - 4):
            first = records.replace(replace(first.record, backend=f"sc://{number}"), first.version)
            others = root / str(number)
            others.mkdir()
            fill_disk(others)  # others take what the change has freed
        records.delete(second.record.name, second.version)
        last = root / "last"
        last.mkdir()
        fill_disk(last)
        with pytest.raises(RecordsUnavailableError, match="No space left on device"):
            records.create(a_record(3))
        assert [stored.record for stored in records.list()] == [first.record]
        (root / "filler").unlink()
        records.create(a_record(3))
        assert len(list((root / ".lodge" / "reserve").iterdir())) == COUNT
        with pytest.raises(RecordNotFoundError):
            records.read(second.record.name)
        return "ok"

    assert in_processes([lambda: with_own_mounts(task)]) == ["ok"]
