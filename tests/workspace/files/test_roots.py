"""The default temporary workspace moves during sessions (workspace.files.roots; [temporary-tables §5.1.5])."""

import itertools
import shutil
import uuid
from functools import partial
from pathlib import Path

import pytest
import structlog

from tests.fixture_types import InProcesses, KilledAt
from tests.own_mounts import fill_disk, mount_small_disk, with_own_mounts
from tests.records import a_record
from workspace.files.leases import FileLeases
from workspace.files.roots import Roots, home_of
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import ReplicaId, SessionUuid, TableUuid
from workspace.root_identities import HomeMovedError, RootError, RootTakenError, RootUnavailableError
from workspace.session_end import end_session, log_session_end
from workspace.trash_entries import is_whole_location, location_of

SESSION = SessionUuid("00000000-0000-4000-8000-000000000001")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "first"


@pytest.fixture
def moved(tmp_path: Path) -> Path:
    """Return the root that the workspace moves to."""
    path = tmp_path / "second"
    path.mkdir()
    return path


@pytest.fixture
def locations(home: Path) -> FileSessionLocations:
    """Return the locations of a gateway that started in the first root."""
    found = FileSessionLocations(home)
    found.initialise()
    return found


def opened(root: Path) -> FileSessionLocations:
    """Return the locations of a process that knows only this root."""
    found = FileSessionLocations(root, home_of(root))
    found.initialise()
    return found


def a_table(locations: FileSessionLocations, content: str = "data") -> TableUuid:
    table = TableUuid(str(uuid.uuid4()))
    directory = locations.create(SESSION) / table
    directory.mkdir()
    (directory / "part").write_text(content)
    return table


def test_root_is_its_own_home_until_it_joins_another(home: Path, moved: Path, locations: FileSessionLocations) -> None:
    assert (home_of(home), home_of(moved)) == (home, moved)
    locations.set_current_root(moved)
    assert (home_of(home), home_of(moved)) == (home, home)


def test_new_locations_are_created_in_the_new_root_and_old_ones_found(
    home: Path, moved: Path, locations: FileSessionLocations
) -> None:
    old = a_table(locations, "old data")
    locations.set_current_root(moved)
    new = a_table(locations, "new")
    for known in (locations, opened(home), opened(moved)):
        assert known.home == home
        assert known.list() == {SESSION}
        assert sorted(known.paths(SESSION)) == [home / SESSION, moved / SESSION]
        assert known.table_paths(SESSION, [old])[0] == home / SESSION / old
        assert known.table_paths(SESSION, [new])[0] == moved / SESSION / new
        assert known.size_bytes(SESSION, old) == 8
        assert known.size_bytes(SESSION, new) == 3
    other = TableUuid(str(uuid.uuid4()))
    assert locations.table_paths(SESSION, [other])[0] == moved / SESSION / other
    assert opened(home).table_paths(SESSION, [other])[0] == home / SESSION / other
    with pytest.raises(FileNotFoundError):
        locations.size_bytes(SESSION, other)


def test_table_is_removed_from_the_root_that_contains_it(
    home: Path, moved: Path, locations: FileSessionLocations
) -> None:
    old = a_table(locations)
    locations.set_current_root(moved)
    new = a_table(locations)
    assert locations.remove_table(SESSION, old)
    assert locations.remove_table(SESSION, new)
    assert not locations.remove_table(SESSION, new)
    roots = [Path(entry).parents[2] for entry in locations.trash_of(SESSION)]
    assert sorted(roots) == [home, moved]
    for entry in locations.trash():
        locations.purge(entry)
    assert not locations.trash()


@pytest.mark.parametrize("known_root", ["first", "second"])
def test_end_of_a_session_deletes_and_logs_its_locations_in_both_roots(
    tmp_path: Path, home: Path, moved: Path, locations: FileSessionLocations, *, known_root: str
) -> None:
    stored = FileSessionRecords(home).create(a_record(session_uuid=SESSION))
    a_table(locations)
    locations.set_current_root(moved)
    a_table(locations)
    ending = opened(tmp_path / known_root)
    done = end_session(FileSessionRecords(ending.home), ending, stored)
    assert done is not None
    assert done.locations == (home / SESSION, moved / SESSION)
    with structlog.testing.capture_logs() as logs:
        log_session_end(structlog.get_logger(), done)
    assert [log["message"] for log in logs] == [
        f"Deleted session temporary location [{path}] from file system [file:///]" for path in done.locations
    ]
    assert [path.name for root in (home, moved) for path in root.iterdir()] == [".lodge", ".lodge"]
    assert not ending.trash()
    assert not FileSessionRecords(home).list()


@pytest.mark.slow
def test_killed_end_is_completed_in_both_roots_by_a_process_that_knows_one(tmp_path: Path, killed_at: KilledAt) -> None:
    for step in itertools.count(1):
        home, moved = tmp_path / f"{step}-first", tmp_path / f"{step}-second"
        locations = FileSessionLocations(home)
        locations.initialise()
        stored = FileSessionRecords(home).create(a_record(session_uuid=SESSION))
        a_table(locations)
        locations.set_current_root(moved)
        a_table(locations)
        was_killed = killed_at(step, partial(end_session, FileSessionRecords(home), locations, stored))
        after = opened(moved)
        for found in FileSessionRecords(after.home).list():
            done = end_session(FileSessionRecords(after.home), after, found)
            assert done is not None
            assert done.locations == (home / SESSION, moved / SESSION)
        for entry in after.trash():
            after.purge(entry)
        assert [path.name for root in (home, moved) for path in root.iterdir()] == [".lodge", ".lodge"]
        if not was_killed:
            break
    assert step > 10


def test_trash_entry_names_its_former_location(home: Path, moved: Path, locations: FileSessionLocations) -> None:
    a_table(locations)
    locations.set_current_root(moved)
    a_table(locations)
    assert sorted(locations.move_to_trash(SESSION)) == [home / SESSION, moved / SESSION]
    entries = locations.trash_of(SESSION)
    assert all(is_whole_location(entry) for entry in entries)
    assert sorted(location_of(entry) for entry in entries) == [home / SESSION, moved / SESSION]


def test_workspace_can_move_on_and_back(tmp_path: Path, home: Path, locations: FileSessionLocations) -> None:
    third = tmp_path / "third"
    for root in (tmp_path / "second", third, home, third):
        locations.set_current_root(root)
        assert locations.create(SESSION) == root / SESSION
    assert len(locations.paths(SESSION)) == 3
    assert home_of(third) == home
    assert locations.known_roots()[0] == third


@pytest.mark.needs_root
def test_moved_workspace_is_opened_on_a_full_disk(tmp_path: Path, in_processes: InProcesses) -> None:
    disk = tmp_path / "mounted"
    disk.mkdir()
    home, moved = disk / "first", disk / "second"

    def task() -> str:
        mount_small_disk(disk, "2m")
        opened(home).set_current_root(moved)
        fill_disk(disk)
        assert opened(moved).home == home
        return "ok"

    assert in_processes([lambda: with_own_mounts(task)]) == ["ok"]


def test_workspace_on_files_cannot_move_to_an_object_store(home: Path, locations: FileSessionLocations) -> None:
    with pytest.raises(RootError, match=r"cannot move from .* to \[s3://bucket/lodge\]"):
        locations.set_current_root("s3://bucket/lodge")
    assert locations.known_roots() == [home]


@pytest.mark.slow
def test_guarantee_1_move_killed_at_any_step_can_be_repeated(tmp_path: Path, killed_at: KilledAt) -> None:
    for step in itertools.count(1):
        home, moved = tmp_path / f"{step}-first", tmp_path / f"{step}-second"
        locations = FileSessionLocations(home)
        locations.initialise()
        was_killed = killed_at(step, partial(locations.set_current_root, moved))
        if moved in Roots(home).registered():
            assert home_of(moved) == home
        assert locations.list() == set()
        again = opened(home)
        again.set_current_root(moved)
        assert opened(moved).home == home
        assert again.create(SESSION) == moved / SESSION
        if not was_killed:
            break
    assert step > 10


def test_many_processes_move_concurrently(
    home: Path, moved: Path, locations: FileSessionLocations, in_processes: InProcesses
) -> None:
    assert in_processes([partial(locations.set_current_root, moved)] * 4) == [None] * 4
    assert Roots(home).all() == [home, moved]


@pytest.mark.parametrize("kind", ["record", "lease", "root"])
def test_guarantee_2_root_of_another_lodge_is_refused_and_unchanged(
    tmp_path: Path, home: Path, moved: Path, locations: FileSessionLocations, *, kind: str
) -> None:
    other = FileSessionLocations(moved)
    other.initialise()
    if kind == "record":
        FileSessionRecords(moved).create(a_record())
    elif kind == "lease":
        FileLeases(moved).renew(ReplicaId("other"))
    else:
        other.set_current_root(tmp_path / "third")
    with pytest.raises(RootTakenError, match="another Lodge installation"):
        locations.set_current_root(moved)
    assert home_of(moved) == moved
    assert locations.create(SESSION) == home / SESSION
    assert other.list() == set()
    assert opened(home).known_roots() == [home]


def test_guarantee_2_root_of_another_home_is_refused(
    tmp_path: Path, moved: Path, locations: FileSessionLocations
) -> None:
    third = tmp_path / "third"
    locations.set_current_root(moved)
    other = FileSessionLocations(third)
    other.initialise()
    with pytest.raises(RootTakenError, match="first"):
        other.set_current_root(moved)


@pytest.mark.parametrize("fault", ["missing", "not mounted", "not readable"])
def test_guarantee_3_missing_root_is_an_error_with_a_remedy(
    tmp_path: Path, home: Path, moved: Path, locations: FileSessionLocations, *, fault: str
) -> None:
    stored = FileSessionRecords(home).create(a_record(session_uuid=SESSION))
    locations.set_current_root(moved)
    table = a_table(locations)
    locations.set_current_root(home)
    aside = tmp_path / "aside"
    moved.rename(aside)
    if fault == "not mounted":
        moved.mkdir()
    elif fault == "not readable":
        moved.write_text("not a directory")
    for ask in (
        locations.list,
        locations.trash,
        lambda: locations.move_to_trash(SESSION),
        lambda: locations.remove_table(SESSION, table),
        lambda: locations.table_paths(SESSION, [table])[0],
        lambda: end_session(FileSessionRecords(home), locations, stored),
        lambda: locations.set_current_root(moved),
    ):
        with pytest.raises(RootUnavailableError) as failed:
            ask()
        assert str(moved) in str(failed.value)
    (entry,) = (home / ".lodge" / "roots").iterdir()
    assert str(entry) in str(failed.value)
    assert locations.create(SESSION) == home / SESSION
    entry.unlink()
    assert locations.list() == {SESSION}
    if moved.is_dir():
        shutil.rmtree(moved)
    moved.unlink(missing_ok=True)
    aside.rename(moved)
    locations.set_current_root(moved)
    assert locations.table_paths(SESSION, [table])[0].exists()


def test_guarantee_3_missing_home_is_not_created_again(
    home: Path, moved: Path, locations: FileSessionLocations
) -> None:
    locations.set_current_root(moved)
    home.rename(home.with_name("aside"))
    with pytest.raises(FileNotFoundError):
        opened(moved)
    with pytest.raises(FileNotFoundError):
        FileSessionLocations(home.with_name("third"), home).initialise()
    assert not home.exists()
    assert not home.with_name("third").exists()


def test_guarantee_4_process_learns_that_its_home_has_moved(
    home: Path, moved: Path, locations: FileSessionLocations
) -> None:
    stale = opened(moved)
    locations.set_current_root(moved)
    locations.create(SESSION)
    for ask in (stale.list, stale.known_roots, lambda: stale.create(SESSION), lambda: stale.move_to_trash(SESSION)):
        with pytest.raises(HomeMovedError, match=str(home)):
            ask()


def test_pointer_and_register_are_private_and_never_links(
    tmp_path: Path, home: Path, moved: Path, locations: FileSessionLocations
) -> None:
    locations.set_current_root(moved)
    for path in (moved / ".lodge" / "home", *(home / ".lodge" / "roots").iterdir()):
        assert path.stat().st_mode & 0o777 == 0o600
    pointer = moved / ".lodge" / "home"
    elsewhere = tmp_path / "elsewhere"
    pointer.rename(elsewhere)
    pointer.symlink_to(elsewhere)
    with pytest.raises(OSError, match="symbolic links"):
        home_of(moved)
    with pytest.raises(RootError, match="symbolic links"):
        locations.list()


def test_root_path_may_contain_any_bytes(tmp_path: Path, home: Path, locations: FileSessionLocations) -> None:
    awkward = tmp_path / "a\nb \udcff ü"
    locations.set_current_root(awkward)
    assert home_of(awkward) == home
    assert opened(awkward).known_roots() == [awkward, home]
