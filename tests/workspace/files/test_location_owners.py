"""Session locations of other OS users who attack them (workspace.locations, guarantees 2 and 4)."""

import itertools
import multiprocessing
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.fixture_types import InProcesses, InterruptedAt, KilledAt, NewRoot
from tests.forks import create_fork
from workspace.files.session_locations import FileSessionLocations
from workspace.files.table_files import MAX_DEPTH
from workspace.identifiers import SessionUuid, TableUuid
from workspace.locations import Owner, OwnerError

SESSION = SessionUuid("00000000-0000-4000-8000-000000000001")
TABLE = TableUuid("00000000-0000-4000-8000-000000000002")
OTHER = Owner(65534, 65533)
ROUNDS = 4
DEADLINE_SECONDS = 60
as_root = pytest.mark.needs_root


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    directory = tmp_path / "outside"
    (directory / "inner").mkdir(parents=True)
    (directory / "precious").write_bytes(b"x" * 1_000_000)
    (directory / "inner" / "precious").write_bytes(b"x" * 1_000_000)
    return directory


def is_whole(outside: Path) -> bool:
    return (outside / "precious").exists() and (outside / "inner" / "precious").exists()


def a_tree(location: Path) -> None:
    for part in ("a/b", "c/d"):
        (location / TABLE / part).mkdir(parents=True)
        (location / TABLE / part / "data").write_text("data")


def all_owned_by(owner: Owner, tree: Path) -> None:
    for path in (tree, *tree.rglob("*")):
        os.chown(path, owner.uid, owner.gid)


def anyway(task: Callable[[], Any]) -> Any:
    with suppress(OSError):
        return task()


def remove_and_purge(locations: FileSessionLocations) -> None:
    anyway(lambda: locations.remove_table(SESSION, TABLE))
    for entry in locations.trash():
        anyway(lambda entry=entry: locations.purge(entry))


@as_root
@pytest.mark.parametrize("umask", [0, 0o077, 0o777])
def test_location_is_private_to_its_owner(locations: FileSessionLocations, umask: int) -> None:
    before = os.umask(umask)
    try:
        path = locations.create(SESSION, OTHER)
    finally:
        os.umask(before)
    status = path.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (OTHER.uid, OTHER.gid, 0o700)
    assert locations.list() == {SESSION}
    assert not locations.trash()


@as_root
def test_create_keeps_existing_files_and_repairs_the_mode(locations: FileSessionLocations) -> None:
    path = locations.create(SESSION, OTHER)
    (path / TABLE).mkdir()
    path.chmod(0o777)
    assert locations.create(SESSION, OTHER) == path
    assert path.stat().st_mode & 0o777 == 0o700
    assert (path / TABLE).is_dir()


@as_root
def test_create_refuses_location_of_another_user(locations: FileSessionLocations) -> None:
    path = locations.create(SESSION)
    with pytest.raises(OwnerError, match="uid 0, not 65534"):
        locations.create(SESSION, OTHER)
    assert path.stat().st_uid == 0


@as_root
def test_create_refuses_link_or_file_with_the_name_of_a_location(
    locations: FileSessionLocations, outside: Path
) -> None:
    path = locations.path(SESSION)
    path.symlink_to(outside)
    with pytest.raises(NotADirectoryError):
        locations.create(SESSION, OTHER)
    path.unlink()
    path.write_text("a file")
    with pytest.raises(NotADirectoryError):
        locations.create(SESSION, OTHER)
    assert outside.stat().st_uid == 0


@as_root
def test_location_is_visible_only_with_its_owner_and_mode(new_root: NewRoot, interrupted_at: InterruptedAt) -> None:
    for step in itertools.count(1):
        locations = FileSessionLocations(new_root())
        path, seen = locations.path(SESSION), list[tuple[int, int]]()

        def look(path: Path = path, seen: list[tuple[int, int]] = seen) -> None:
            with suppress(FileNotFoundError):
                status = path.lstat()
                seen.append((status.st_uid, status.st_mode & 0o7777))

        was_interrupted, _ = interrupted_at(step, partial(locations.create, SESSION, OTHER), look)
        assert seen in ([], [(OTHER.uid, 0o700)])
        if not was_interrupted:
            break
    assert step > 5


@as_root
def test_creation_killed_at_any_step_leaves_only_trash(new_root: NewRoot, killed_at: KilledAt) -> None:
    for step in itertools.count(1):
        locations = FileSessionLocations(new_root())
        was_killed = killed_at(step, partial(locations.create, SESSION, OTHER))
        for entry in locations.trash():
            locations.purge(entry)
        assert locations.create(SESSION, OTHER).stat().st_uid == OTHER.uid
        if not was_killed:
            break
    assert step > 3


@as_root
def test_location_purged_during_its_creation_is_created_again(new_root: NewRoot, interrupted_at: InterruptedAt) -> None:
    for step in itertools.count(1):
        locations = FileSessionLocations(new_root())

        def purge_all(locations: FileSessionLocations = locations) -> None:
            for entry in locations.trash():
                locations.purge(entry)

        was_interrupted, path = interrupted_at(step, partial(locations.create, SESSION, OTHER), purge_all)
        assert path.stat().st_uid == OTHER.uid
        if not was_interrupted:
            break
    assert step > 5


@as_root
def test_many_processes_create_one_location_concurrently(
    locations: FileSessionLocations, in_processes: InProcesses
) -> None:
    path = locations.path(SESSION)
    assert in_processes([partial(locations.create, SESSION, OTHER)] * 4) == [path] * 4
    assert path.stat().st_uid == OTHER.uid


@contextmanager
def held_open(tree: Path) -> Iterator[list[int]]:
    """Open all directories of a tree, which their owner may then use wherever they move."""
    found = [os.open(path, os.O_RDONLY) for path in (tree, *tree.rglob("*")) if path.is_dir()]
    try:
        yield found
    finally:
        for descriptor in found:
            os.close(descriptor)


def exchange(descriptors: list[int], outside: Path, kind: str) -> None:
    """Replace all directories and files with links to elsewhere, or with FIFOs."""
    for descriptor in descriptors:
        with suppress(OSError):
            for name in [entry.name for entry in os.scandir(descriptor)]:
                moved = f"moved-{uuid.uuid4().hex}"
                os.rename(name, moved, src_dir_fd=descriptor, dst_dir_fd=descriptor)
                if kind == "fifo":
                    os.mkfifo(name, dir_fd=descriptor)
                else:
                    os.symlink(outside, name, dir_fd=descriptor)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["link", "fifo"])
@pytest.mark.parametrize("task", ["remove", "set aside", "size"])
def test_link_that_an_owner_places_at_any_step_is_not_followed(
    new_root: NewRoot, outside: Path, interrupted_at: InterruptedAt, *, task: str, kind: str
) -> None:
    def set_aside_and_purge(locations: FileSessionLocations) -> None:
        anyway(lambda: locations.move_to_trash(SESSION))
        remove_and_purge(locations)

    def size(locations: FileSessionLocations) -> Any:
        return anyway(lambda: locations.size_bytes(SESSION, TABLE))

    run: Any = {"remove": remove_and_purge, "set aside": set_aside_and_purge, "size": size}[task]
    for step in itertools.count(1):
        locations = FileSessionLocations(new_root())
        location = locations.create(SESSION)
        a_tree(location)
        with held_open(location) as descriptors:
            hostile = partial(exchange, descriptors, outside, kind)
            was_interrupted, result = interrupted_at(step, partial(run, locations), hostile)
        assert is_whole(outside)
        assert task != "size" or result is None or result <= 1000, "a link was counted"
        anyway(lambda locations=locations: locations.move_to_trash(SESSION))
        for entry in locations.trash():
            locations.purge(entry)
        assert not locations.trash()
        assert is_whole(outside)
        if not was_interrupted:
            break
    assert step > 10


def exchanging_as_another_user(descriptors: list[int], outside: Path, ready: Any) -> None:
    """Run an owner who replaces everything as fast as possible, until it is killed."""
    os.setgroups([])
    os.setresgid(OTHER.gid, OTHER.gid, OTHER.gid)
    os.setresuid(OTHER.uid, OTHER.uid, OTHER.uid)
    ready.set()
    for number in itertools.count():
        for descriptor in descriptors:
            with suppress(OSError):
                for name in ("a", "b", "c", "d"):
                    with suppress(OSError):
                        os.rename(name, f"{name}{number % 3}", src_dir_fd=descriptor, dst_dir_fd=descriptor)
                    with suppress(OSError):
                        os.symlink(outside, name, dir_fd=descriptor)
                    with suppress(OSError):
                        os.mkdir(f"new{number % 50}", dir_fd=descriptor)


@as_root
def test_owner_who_keeps_replacing_directories_with_links_reaches_nothing(
    locations: FileSessionLocations, outside: Path
) -> None:
    context = multiprocessing.get_context("fork")
    for _ in range(ROUNDS):
        location = locations.create(SESSION, OTHER)
        a_tree(location)
        all_owned_by(OTHER, location)
        with held_open(location) as descriptors:
            ready = context.Event()
            process = create_fork(exchanging_as_another_user, descriptors, outside, ready)
            process.start()
            assert ready.wait(DEADLINE_SECONDS)
            for _ in range(3):
                size = anyway(lambda: locations.size_bytes(SESSION, TABLE))
                assert size is None or size < 1000
            anyway(lambda: locations.remove_table(SESSION, TABLE))
            anyway(lambda: locations.move_to_trash(SESSION))
            for _ in range(3):
                remove_and_purge(locations)
            assert process.is_alive()
            process.kill()
            process.join()
        assert is_whole(outside)
        anyway(lambda: locations.move_to_trash(SESSION))
        for entry in locations.trash():
            locations.purge(entry)
        assert not locations.trash()
        assert not locations.list()
    assert is_whole(outside)


def test_size_counts_regular_files_only(locations: FileSessionLocations, outside: Path) -> None:
    location = locations.create(SESSION)
    a_tree(location)
    (location / TABLE / "link").symlink_to(outside)
    (location / TABLE / "a" / "file").symlink_to(outside / "precious")
    os.mkfifo(location / TABLE / "fifo")
    assert locations.size_bytes(SESSION, TABLE) == 8
    (location / "second").mkdir()
    other = TableUuid(str(uuid.uuid4()))
    (location / other).symlink_to(outside)
    with pytest.raises(NotADirectoryError):
        locations.size_bytes(SESSION, other)


def test_data_files_are_those_that_spark_reads(locations: FileSessionLocations, outside: Path) -> None:
    table = Path(locations.create(SESSION)) / TABLE
    ignored = ("_SUCCESS", ".part-0.crc", "_temporary/0/part-3", ".hidden/part-4", "k=2._COPYING_/part-5")
    for name in ("part-0", "k=1/part-1", "_k=1/part-2", *ignored):
        (table / name).parent.mkdir(parents=True, exist_ok=True)
        (table / name).write_bytes(b"four")
    (table / "link").symlink_to(outside)
    (table / "directory-link").symlink_to(outside.parent, target_is_directory=True)
    os.mkfifo(table / "fifo")
    assert locations.sum_data_files(SESSION, TABLE, lambda file: len(file.read())) == 12
    with pytest.raises(FileNotFoundError):
        locations.sum_data_files(SESSION, TableUuid(str(uuid.uuid4())), lambda file: len(file.read()))


def test_tree_deeper_than_a_table_is_an_error_and_uses_few_descriptors(locations: FileSessionLocations) -> None:
    directory = locations.create(SESSION) / TABLE
    (directory / "/".join(["d"] * MAX_DEPTH)).mkdir(parents=True)
    (directory / "/".join(["d"] * MAX_DEPTH) / "data").write_text("data")
    assert locations.size_bytes(SESSION, TABLE) == 4
    (directory / "/".join(["d"] * (MAX_DEPTH + 1))).mkdir()
    with pytest.raises(OSError, match="deeper"):
        locations.size_bytes(SESSION, TABLE)


def test_size_ignores_files_that_vanish(locations: FileSessionLocations) -> None:
    a_tree(locations.create(SESSION))
    gone = locations.path(SESSION) / TABLE / "a" / "b" / "data"
    listing = os.scandir

    def list_and_remove(directory: Any) -> Any:
        found = listing(directory)
        gone.unlink(missing_ok=True)
        return found

    with mock.patch("os.scandir", list_and_remove):
        assert locations.size_bytes(SESSION, TABLE) == 4
