"""Purging the trash despite its owner or a failing disk (workspace.files.removal, workspace.files.trash)."""

import errno
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock
from weakref import WeakSet

import pytest

from tests.fixture_types import InProcesses
from tests.own_mounts import run, with_own_mounts
from workspace.files.removal import FILES_BETWEEN_CHECKS, MAX_DEPTH, THREADS
from workspace.files.session_locations import FileSessionLocations
from workspace.identifiers import SessionUuid, TableUuid

SESSION = SessionUuid("00000000-0000-4000-8000-000000000001")
TABLE = TableUuid("00000000-0000-4000-8000-000000000002")
NOBODY = 65534
DEADLINE_SECONDS = 60

as_root = pytest.mark.needs_root


class BrokenDiskError(OSError):
    """An error that a test can count."""

    alive: ClassVar[WeakSet["BrokenDiskError"]] = WeakSet()

    def __init__(self, name: str) -> None:
        super().__init__(errno.EIO, "Input/output error", name)
        self.alive.add(self)


def fill(directory: Path, files: int) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        (directory / f"part-{number}").write_text("data")


def purge_all(locations: FileSessionLocations) -> None:
    for entry in locations.trash():
        assert locations.purge(entry)
    assert not locations.trash()


def count(locations: FileSessionLocations) -> int:
    return sum(len(files) for entry in locations.trash() for _, _, files in os.walk(entry))


def as_nobody(task: Callable[[], Any]) -> Any:
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    return task()


@pytest.fixture
def others_root(tmp_path: Path) -> Path:
    """Return an initialised root of another user, in a directory that this user can enter."""
    for parent in tmp_path.parents:
        if parent.stat().st_uid == os.geteuid() and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    tmp_path.chmod(0o711)
    root = tmp_path / "others"
    FileSessionLocations(root).initialise()
    for path in (root, *root.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    return root


@as_root
@pytest.mark.parametrize("mode", [0o000, 0o300, 0o500, 0o600])
def test_guarantee_2_directory_with_forbidding_mode_is_removed(
    others_root: Path, in_processes: InProcesses, mode: int
) -> None:
    def task() -> str:
        locations = FileSessionLocations(others_root)
        location = locations.create(SESSION)
        inner = location / TABLE / "forbidden"
        for directory in (inner, inner / "below", location / "beside"):
            fill(directory, 2)
        for directory in (inner / "below", inner, location / TABLE):
            directory.chmod(mode)
        assert locations.remove_table(SESSION, TABLE)
        purge_all(locations)
        (location / "beside").chmod(mode)
        location.chmod(mode)
        assert locations.move_to_trash(SESSION)
        purge_all(locations)
        return "ok"

    assert in_processes([lambda: as_nobody(task)]) == ["ok"]


@as_root
def test_guarantee_2_link_to_a_forbidden_directory_keeps_the_mode_of_its_target(
    others_root: Path, in_processes: InProcesses, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o500)
    os.chown(outside, NOBODY, NOBODY)

    def task() -> str:
        locations = FileSessionLocations(others_root)
        location = locations.create(SESSION)
        fill(location / TABLE / "forbidden", 1)
        (location / TABLE / "forbidden").chmod(0o000)
        locations.move_to_trash(SESSION)
        (entry,) = locations.trash()
        opening, is_done = os.open, False

        def exchange(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            nonlocal is_done
            if flags & os.O_PATH and not is_done:
                is_done = True
                os.rename(path, "moved", src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
                os.symlink(outside, path, dir_fd=dir_fd)
            return opening(path, flags, mode, dir_fd=dir_fd)

        with mock.patch("os.open", exchange):
            locations.purge(entry)
        assert is_done
        purge_all(locations)
        return "ok"

    assert in_processes([lambda: as_nobody(task)]) == ["ok"]
    assert outside.stat().st_mode & 0o777 == 0o500


@as_root
def test_guarantee_3_error_does_not_prevent_removal_of_the_rest(others_root: Path, in_processes: InProcesses) -> None:
    location = others_root / SESSION
    for n in range(5):
        fill(location / f"t{n}" / "p", 50)
    for path in (location, *location.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    of_root = location / "t2" / "p"
    os.chown(of_root, 0, 0)
    of_root.chmod(0o755)

    def task() -> tuple[str, int]:
        locations = FileSessionLocations(others_root)
        locations.move_to_trash(SESSION)
        (entry,) = locations.trash()
        with pytest.raises(PermissionError) as failed:
            locations.purge(entry)
        return str(failed.value.filename), count(locations)

    ((name, left),) = in_processes([lambda: as_nobody(task)])
    assert name.startswith("part-") or name == "p"
    assert left == 50
    (kept,) = (others_root / ".lodge" / "trash").glob("*/*/*")
    os.chown(kept, NOBODY, NOBODY)
    assert in_processes([lambda: as_nobody(lambda: purge_all(FileSessionLocations(others_root)))]) == [None]


def test_only_the_first_of_many_failures_is_kept(locations: FileSessionLocations) -> None:
    fill(locations.create(SESSION) / TABLE, 1000)
    locations.move_to_trash(SESSION)
    (entry,) = locations.trash()
    most = 0

    def unlink(name: str, **_: object) -> None:
        nonlocal most
        most = max(most, len(BrokenDiskError.alive))
        raise BrokenDiskError(name)

    with mock.patch("os.unlink", unlink), pytest.raises(OSError, match=r"Input/output error: 'part-\d+'") as failed:
        locations.purge(entry)
    assert failed.value.errno == errno.EIO
    assert most <= THREADS
    purge_all(locations)


@as_root
def test_guarantee_1_mounted_file_system_is_not_entered(root: Path, in_processes: InProcesses) -> None:
    def task() -> str:
        locations = FileSessionLocations(root)
        inside = locations.create(SESSION) / TABLE / "mounted"
        fill(inside, 0)
        fill(locations.path(SESSION) / "beside", 10)
        run("mount", "-t", "tmpfs", "tmpfs", inside)
        fill(inside, 3)
        locations.move_to_trash(SESSION)
        (entry,) = locations.trash()
        with pytest.raises(OSError, match="mounted") as failed:
            locations.purge(entry)
        assert failed.value.errno == errno.EXDEV
        assert count(locations) == 3
        run("umount", Path(entry) / TABLE / "mounted")
        purge_all(locations)
        return "ok"

    assert in_processes([lambda: with_own_mounts(task)]) == ["ok"]


def test_guarantee_4_deep_tree_uses_few_descriptors(locations: FileSessionLocations) -> None:
    deep = locations.create(SESSION)
    for n in range(MAX_DEPTH * 3):
        deep = deep / "d"
        fill(deep, 1)
        if n % 20 == 0:
            fill(deep / "beside", 1)
    locations.move_to_trash(SESSION)
    opened, most = os.open, 0

    def counting(*args: Any, **kwargs: Any) -> int:
        nonlocal most
        most = max(most, len(list(Path("/proc/self/fd").iterdir())))
        return opened(*args, **kwargs)

    before = len(list(Path("/proc/self/fd").iterdir()))
    with mock.patch("os.open", counting):
        purge_all(locations)
    assert most - before < 2 * MAX_DEPTH


@pytest.mark.parametrize(("shape", "looks"), [("one directory", 5), ("many tables", 10), ("deep", 100)])
def test_guarantee_5_purge_stops_soon_and_another_purge_completes_it(
    locations: FileSessionLocations, *, shape: str, looks: int
) -> None:
    files = 20 * FILES_BETWEEN_CHECKS
    location = locations.create(SESSION)
    if shape == "one directory":
        fill(location / TABLE, files)
    elif shape == "many tables":
        for n in range(20):
            fill(location / f"t{n}", files // 20)
    else:
        deep = location / TABLE
        for _ in range(2 * MAX_DEPTH):
            deep = deep / "d"
            fill(deep, files // (2 * MAX_DEPTH))
    locations.move_to_trash(SESSION)
    (entry,) = locations.trash()
    allowed = threading.Semaphore(looks)
    assert not locations.purge(entry, lambda: not allowed.acquire(blocking=False))
    left = count(locations)
    assert files - (looks + 2 * THREADS) * FILES_BETWEEN_CHECKS <= left < files
    assert locations.trash()
    assert not locations.purge(entry, lambda: True)
    assert count(locations) == left
    purge_all(locations)


def test_purge_fails_while_someone_keeps_writing_and_succeeds_later(locations: FileSessionLocations) -> None:
    table = locations.create(SESSION) / TABLE
    fill(table, 100)
    directory = os.open(table, os.O_RDONLY)
    locations.move_to_trash(SESSION)
    (entry,) = locations.trash()
    stop, begun = threading.Event(), threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            try:
                os.close(os.open(f"late-{number}", os.O_CREAT | os.O_WRONLY, dir_fd=directory))
            except FileNotFoundError:  # the directory is gone, so late files can be no more
                return
            begun.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert begun.wait(DEADLINE_SECONDS)
        for _ in range(3):
            try:
                locations.purge(entry)
            except OSError as error:
                assert error.errno == errno.ENOTEMPTY
    finally:
        stop.set()
        writer.join()
        os.close(directory)
    purge_all(locations)


@as_root
def test_purge_succeeds_on_a_full_disk(tmp_path: Path, in_processes: InProcesses) -> None:
    root = tmp_path / "small"
    root.mkdir()

    def task() -> str:
        run("mount", "-t", "tmpfs", "-o", "size=2m,nr_inodes=200", "tmpfs", root)
        locations = FileSessionLocations(root)
        locations.initialise()
        table = locations.create(SESSION) / TABLE
        table.mkdir()
        with pytest.raises(OSError) as full:
            (table / "data").write_bytes(b"x" * 3_000_000)
        assert full.value.errno == errno.ENOSPC
        (table / "data").unlink()
        with pytest.raises(OSError) as full:
            fill(table, 1000)
        assert full.value.errno == errno.ENOSPC
        with pytest.raises(OSError) as full:
            locations.create(SessionUuid("00000000-0000-4000-8000-00000000000f"))
        assert full.value.errno == errno.ENOSPC
        assert locations.list() == {SESSION}
        assert locations.remove_table(SESSION, TABLE)
        assert locations.move_to_trash(SESSION)
        purge_all(locations)
        locations.create(SESSION)
        return "ok"

    assert in_processes([lambda: with_own_mounts(task)]) == ["ok"]


@as_root
def test_read_only_disk_is_a_transient_error_without_changes(tmp_path: Path, in_processes: InProcesses) -> None:
    root = tmp_path / "mounted"
    root.mkdir()

    def task() -> str:
        run("mount", "-t", "tmpfs", "tmpfs", root)
        locations = FileSessionLocations(root)
        locations.initialise()
        other = SessionUuid("00000000-0000-4000-8000-00000000000f")
        for session in (SESSION, other):
            fill(locations.create(session) / TABLE, 10)
        locations.move_to_trash(other)
        (entry,) = locations.trash()
        run("mount", "-o", "remount,ro", root)
        for change in (
            lambda: locations.create(SessionUuid("00000000-0000-4000-8000-00000000000e")),
            lambda: locations.move_to_trash(SESSION),
            lambda: locations.remove_table(SESSION, TABLE),
            lambda: locations.purge(entry),
        ):
            with pytest.raises(OSError) as failed:
                change()
            assert failed.value.errno == errno.EROFS
        assert locations.list() == {SESSION}
        assert locations.size_bytes(SESSION, TABLE) == 40
        assert count(locations) == 10
        run("mount", "-o", "remount,rw", root)
        locations.move_to_trash(SESSION)
        purge_all(locations)
        return "ok"

    assert in_processes([lambda: with_own_mounts(task)]) == ["ok"]


def test_purge_of_many_files_does_not_delay_another_purge(locations: FileSessionLocations) -> None:
    other = SessionUuid("00000000-0000-4000-8000-00000000000f")
    fill(locations.create(SESSION) / TABLE, 2 * FILES_BETWEEN_CHECKS)
    fill(locations.create(other) / TABLE, 1)
    for session in (SESSION, other):
        locations.move_to_trash(session)
    (large,), (small,) = locations.trash_of(SESSION), locations.trash_of(other)
    begun, proceed = threading.Event(), threading.Event()

    def wait_in_the_middle() -> bool:
        begun.set()
        assert proceed.wait(DEADLINE_SECONDS), "the other purge ends"
        return False

    with ThreadPoolExecutor(2) as threads:
        purging = threads.submit(locations.purge, large, wait_in_the_middle)
        assert begun.wait(DEADLINE_SECONDS)
        assert threads.submit(locations.purge, small).result(DEADLINE_SECONDS)
        assert locations.trash() == [large]
        proceed.set()
        assert purging.result(DEADLINE_SECONDS)
    assert not locations.trash()


def test_tables_are_removed_concurrently_up_to_the_limit(locations: FileSessionLocations) -> None:
    for n in range(3 * THREADS):
        fill(locations.create(SESSION) / f"t{n}", 3)
    locations.move_to_trash(SESSION)
    removing, lock, now, most = os.unlink, threading.Lock(), 0, 0
    all_there = threading.Event()

    def counting(*args: Any, **kwargs: Any) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
            if now == THREADS:
                all_there.set()
        assert all_there.wait(DEADLINE_SECONDS)
        removing(*args, **kwargs)
        with lock:
            now -= 1

    with mock.patch("os.unlink", counting):
        purge_all(locations)
    assert most == THREADS
