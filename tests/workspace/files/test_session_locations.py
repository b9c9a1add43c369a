"""Session locations on a file system (guarantees: workspace.locations)."""

import itertools
import os
import tracemalloc
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.fixture_types import InProcesses, InterruptedAt, KilledAt, NewRoot
from workspace.files.layout import Layout
from workspace.files.session_locations import FileSessionLocations
from workspace.files.trash import Trash
from workspace.identifiers import SessionUuid, TableUuid
from workspace.root_identities import RootUnavailableError
from workspace.trash_entries import TrashEntry

BAD_UUIDS = [
    "",
    ".",
    "..",
    ".lodge",
    "../00000000-0000-4000-8000-000000000000",
    "00000000-0000-4000-8000-00000000000A",
    "{00000000-0000-4000-8000-000000000000}",
    "00000000000040008000000000000000",
    "00000000-0000-4000-8000-000000000000\n",
    "00000000-0000-4000-8000-000000000000/x",
]


@pytest.fixture
def session_uuid() -> SessionUuid:
    return SessionUuid(str(uuid.uuid4()))


@pytest.fixture
def table_uuid() -> TableUuid:
    return TableUuid(str(uuid.uuid4()))


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return a directory outside the workspace, with a file that must survive."""
    directory = tmp_path / "outside"
    directory.mkdir()
    (directory / "precious").write_text("precious")
    return directory


def purge_all(locations: FileSessionLocations) -> None:
    for entry in locations.trash():
        locations.purge(entry)


def purged_anyway(locations: FileSessionLocations, entry: TrashEntry) -> None:
    with suppress(OSError):
        locations.purge(entry)


def test_initialise_can_be_repeated_and_run_concurrently(tmp_path: Path, in_processes: InProcesses) -> None:
    root = tmp_path / "deep" / "root"
    assert in_processes([FileSessionLocations(root).initialise] * 4) == [None] * 4
    (root / ".lodge").chmod(0o755)
    FileSessionLocations(root).initialise()
    assert (root / ".lodge").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("place", [".lodge", ".lodge/trash", ".lodge/sessions"])
def test_initialise_refuses_a_link_with_the_name_of_an_own_directory(tmp_path: Path, outside: Path, place: str) -> None:
    link = tmp_path / "root" / place
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    with pytest.raises(NotADirectoryError):
        FileSessionLocations(tmp_path / "root").initialise()
    assert [path.name for path in outside.iterdir()] == ["precious"]


@pytest.mark.parametrize("bad", BAD_UUIDS)
def test_guarantee_1_only_uuids_become_paths(locations: FileSessionLocations, table_uuid: TableUuid, bad: str) -> None:
    good = SessionUuid(str(table_uuid))
    for operation in (
        lambda: locations.path(SessionUuid(bad)),
        lambda: locations.create(SessionUuid(bad)),
        lambda: locations.move_to_trash(SessionUuid(bad)),
        lambda: locations.trash_of(SessionUuid(bad)),
        lambda: locations.remove_table(SessionUuid(bad), table_uuid),
        lambda: locations.remove_table(good, TableUuid(bad)),
    ):
        with pytest.raises(ValueError, match=r"The UUID .* is not valid"):
            operation()


@pytest.mark.parametrize("bad", ["", ".", "..", "../x", "a/b", "/etc", "a/"])
def test_guarantee_1_only_trash_entries_are_purged(locations: FileSessionLocations, bad: str) -> None:
    with pytest.raises(ValueError, match="trash"):
        locations.purge(TrashEntry(bad))


@pytest.mark.parametrize("umask", [0, 0o077, 0o277])
def test_guarantee_4_location_is_private_with_any_umask(
    locations: FileSessionLocations, session_uuid: SessionUuid, umask: int
) -> None:
    before = os.umask(umask)
    try:
        path = locations.create(session_uuid)
    finally:
        os.umask(before)
    assert path.is_absolute()
    assert path.stat().st_mode & 0o777 == 0o700


def test_guarantee_5_create_keeps_existing_files(locations: FileSessionLocations, session_uuid: SessionUuid) -> None:
    (locations.create(session_uuid) / "table").mkdir()
    locations.create(session_uuid).chmod(0o755)
    assert locations.create(session_uuid).stat().st_mode & 0o777 == 0o700
    assert (locations.path(session_uuid) / "table").is_dir()


def test_list_returns_only_directories_named_by_a_uuid(
    root: Path, locations: FileSessionLocations, session_uuid: SessionUuid, outside: Path
) -> None:
    locations.create(session_uuid)
    (root / str(uuid.uuid4())).symlink_to(outside)
    (root / str(uuid.uuid4())).write_text("a file")
    (root / str(uuid.uuid4()).upper()).mkdir()
    (root / "other").mkdir()
    assert locations.list() == {session_uuid}


def test_missing_storage_is_an_error_for_locations(root: Path, locations: FileSessionLocations) -> None:
    root.rename(root.with_name("elsewhere"))
    with pytest.raises(RootUnavailableError):
        locations.list()


def test_entry_of_unknown_type_does_not_hide_the_others(
    locations: FileSessionLocations, session_uuid: SessionUuid
) -> None:
    other = SessionUuid(str(uuid.uuid4()))
    unreadable = mock.Mock(is_dir=mock.Mock(side_effect=PermissionError(13, "Permission denied")))
    unreadable.name = other
    locations.create(session_uuid)
    scandir = os.scandir

    @contextmanager
    def add_unreadable(path: Path) -> Iterator[Iterator[Any]]:
        with scandir(path) as entries:
            yield itertools.chain([unreadable], entries)

    with mock.patch("os.scandir", add_unreadable):
        assert locations.list() == {session_uuid, other}


def test_guarantee_3_location_in_the_trash_is_gone_and_can_be_purged(
    root: Path, locations: FileSessionLocations, session_uuid: SessionUuid
) -> None:
    location = locations.create(session_uuid)
    (location / "table" / "part=1").mkdir(parents=True)
    (location / "table" / "part=1" / "data").write_text("data")
    assert locations.move_to_trash(session_uuid)
    assert not location.exists()
    assert not locations.move_to_trash(session_uuid)
    (entry,) = locations.trash_of(session_uuid)
    locations.purge(entry)
    locations.purge(entry)
    assert not locations.trash()
    assert [path.name for path in root.iterdir()] == [".lodge"]


def test_recreated_location_can_move_to_the_trash_again(
    locations: FileSessionLocations, session_uuid: SessionUuid
) -> None:
    for _ in range(3):
        locations.create(session_uuid)
        assert locations.move_to_trash(session_uuid)
    assert len(locations.trash_of(session_uuid)) == 3


def test_missing_trash_is_an_error(
    root: Path, locations: FileSessionLocations, session_uuid: SessionUuid, table_uuid: TableUuid
) -> None:
    (locations.create(session_uuid) / table_uuid).mkdir()
    (root / ".lodge" / "trash").rmdir()
    with pytest.raises(FileNotFoundError):
        locations.move_to_trash(session_uuid)
    with pytest.raises(FileNotFoundError):
        locations.remove_table(session_uuid, table_uuid)
    assert locations.list() == {session_uuid}


def test_remove_table_keeps_other_tables(
    locations: FileSessionLocations, session_uuid: SessionUuid, table_uuid: TableUuid
) -> None:
    other = TableUuid(str(uuid.uuid4()))
    assert not locations.remove_table(session_uuid, table_uuid)
    for table in (table_uuid, other):
        (locations.create(session_uuid) / table / "data").mkdir(parents=True)
    assert locations.remove_table(session_uuid, table_uuid)
    assert not locations.remove_table(session_uuid, table_uuid)
    assert [path.name for path in locations.path(session_uuid).iterdir()] == [other]
    (entry,) = locations.trash_of(session_uuid)
    locations.purge(entry)
    assert not locations.trash()


def test_guarantee_2_link_with_the_name_of_a_location_is_never_followed(
    locations: FileSessionLocations, session_uuid: SessionUuid, table_uuid: TableUuid, outside: Path
) -> None:
    (outside / table_uuid).mkdir()
    link = locations.path(session_uuid)
    link.symlink_to(outside)
    with pytest.raises(NotADirectoryError):
        locations.create(session_uuid)
    with pytest.raises(NotADirectoryError):
        locations.remove_table(session_uuid, table_uuid)
    assert locations.move_to_trash(session_uuid)
    assert not link.is_symlink()
    assert not locations.trash()
    assert {path.name for path in outside.iterdir()} == {"precious", table_uuid}


def test_guarantee_2_link_with_the_name_of_a_table_is_never_followed(
    locations: FileSessionLocations, session_uuid: SessionUuid, table_uuid: TableUuid, outside: Path
) -> None:
    (locations.create(session_uuid) / table_uuid).symlink_to(outside)
    assert locations.remove_table(session_uuid, table_uuid)
    assert not list(locations.path(session_uuid).iterdir())
    assert (outside / "precious").exists()


def test_guarantee_2_links_in_a_location_are_purged_and_not_followed(
    locations: FileSessionLocations, session_uuid: SessionUuid, outside: Path
) -> None:
    location = locations.create(session_uuid)
    (location / "to-directory").symlink_to(outside)
    (location / "to-file").symlink_to(outside / "precious")
    (location / "to-nothing").symlink_to("nowhere")
    (location / "table").mkdir()
    (location / "table" / "up").symlink_to("..")
    os.link(outside / "precious", location / "hard")
    locations.move_to_trash(session_uuid)
    purge_all(locations)
    assert not locations.trash()
    assert (outside / "precious").read_text() == "precious"


def test_guarantee_2_link_placed_during_a_purge_is_not_followed(
    locations: FileSessionLocations, session_uuid: SessionUuid, outside: Path, interrupted_at: Callable[..., bool]
) -> None:
    for step in itertools.count(1):
        (locations.create(session_uuid) / "table" / "part").mkdir(parents=True)
        locations.move_to_trash(session_uuid)
        (entry,) = locations.trash()
        trash = locations.path(session_uuid).parent / ".lodge" / "trash"

        def swap(trash: Path = trash) -> None:
            for directory in sorted(trash.rglob("*")):
                if directory.is_dir() and not directory.is_symlink():
                    directory.rename(trash / f"moved-{uuid.uuid4().hex}")
                    directory.symlink_to(outside)

        was_interrupted, _ = interrupted_at(step, partial(purged_anyway, locations, entry), swap)
        assert (outside / "precious").exists()
        purge_all(locations)
        assert not locations.trash()
        if not was_interrupted:
            break
    assert step > 5


def test_location_completed_during_its_purge_keeps_its_files(root: Path, interrupted_at: InterruptedAt) -> None:
    locations, trash = FileSessionLocations(root), Trash(Layout(root))
    for step in itertools.count(1):
        session_uuid = SessionUuid(str(uuid.uuid4()))
        made, location = Path(trash.new_location(session_uuid)), locations.path(session_uuid)
        made.mkdir()
        (entry,) = locations.trash()

        def finish(made: Path = made, location: Path = location) -> None:
            with suppress(FileNotFoundError):
                made.rename(location)
                (location / "table").mkdir()
                (location / "table" / "part-0").write_text("data")

        was_interrupted, _ = interrupted_at(step, partial(purged_anyway, locations, entry), finish)
        assert not made.exists()
        if location.exists():
            assert (location / "table" / "part-0").read_text() == "data"
        if not was_interrupted:
            break
    assert step > 3


def test_trash_of_one_session_is_found_quickly_among_many_entries(
    root: Path, locations: FileSessionLocations, session_uuid: SessionUuid, table_uuid: TableUuid
) -> None:
    (locations.create(session_uuid) / table_uuid).mkdir()
    locations.remove_table(session_uuid, table_uuid)
    locations.move_to_trash(session_uuid)
    expected = locations.trash()
    for number in range(3000):
        (root / ".lodge" / "trash" / f"{uuid.UUID(int=number)}.{number:016x}").mkdir()
    tracemalloc.start()
    try:
        found = locations.trash_of(session_uuid)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == expected
    assert len(expected) == 2
    assert peak_bytes < 100_000


def test_purge_removes_a_tree_deeper_than_any_path_or_stack(
    locations: FileSessionLocations, session_uuid: SessionUuid
) -> None:
    descriptor = os.open(locations.create(session_uuid), os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("directory-with-a-long-name", dir_fd=descriptor)
        deeper = os.open("directory-with-a-long-name", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = deeper
    os.close(descriptor)
    locations.move_to_trash(session_uuid)
    purge_all(locations)
    assert not locations.trash()


def test_guarantee_5_many_processes_purge_the_same_entry_concurrently(
    locations: FileSessionLocations, session_uuid: SessionUuid, in_processes: InProcesses
) -> None:
    location = locations.create(session_uuid)
    for n in range(20):
        (location / str(n) / "part").mkdir(parents=True)
        for m in range(10):
            (location / str(n) / "part" / str(m)).write_text("data")
    locations.move_to_trash(session_uuid)
    assert in_processes([lambda: purge_all(locations)] * 4) == [None] * 4
    purge_all(locations)
    assert not locations.trash()


def test_guarantee_5_one_of_many_processes_moves_a_location_to_the_trash(
    locations: FileSessionLocations, session_uuid: SessionUuid, in_processes: InProcesses
) -> None:
    locations.create(session_uuid)
    results = in_processes([lambda: locations.move_to_trash(session_uuid)] * 4)
    assert sorted(results) == [[], [], [], [locations.path(session_uuid)]]


def test_next_purge_completes_one_killed_at_any_step(
    new_root: NewRoot, session_uuid: SessionUuid, killed_at: KilledAt
) -> None:
    for step in itertools.count(1):
        locations = FileSessionLocations(new_root())
        location = locations.create(session_uuid)
        (location / "a" / "b").mkdir(parents=True)
        (location / "a" / "data").write_text("data")
        locations.move_to_trash(session_uuid)
        was_killed = killed_at(step, partial(purge_all, locations))
        purge_all(locations)
        assert not locations.trash()
        if not was_killed:
            break
    assert step > 3
