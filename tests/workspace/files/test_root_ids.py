"""Roots are distinguished from anything else in their place (workspace.files.roots, guarantees 3 and 5)."""

import itertools
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.fixture_types import InProcesses, KilledAt
from tests.own_mounts import run, with_own_mounts
from tests.records import a_record
from tests.workspace.in_memory_root_ids import InMemoryRootIds
from workspace.files.roots import home_of
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import SessionUuid, TableUuid
from workspace.root_identities import RootUnavailableError
from workspace.session_end import end_session

SESSION = SessionUuid("00000000-0000-4000-8000-000000000001")
TABLE = TableUuid("00000000-0000-4000-8000-000000000002")

as_root = pytest.mark.needs_root


@pytest.fixture
def root_ids() -> InMemoryRootIds:
    return InMemoryRootIds()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "workspace"


def opened(root: Path, root_ids: InMemoryRootIds | None = None) -> FileSessionLocations:
    """Return the locations of a process that starts now."""
    found = FileSessionLocations(root, home_of(root), root_ids)
    found.initialise()
    return found


def marker(root: Path) -> Path:
    return root / ".lodge" / "root"


def without_marks(root: Path) -> None:
    """Return a root in the state of releases without root ids."""
    marker(root).unlink()
    (root / ".lodge" / "records").unlink()


def everything_that_looks(locations: FileSessionLocations) -> Sequence[Callable[[], Any]]:
    return (
        locations.list,
        locations.roots,
        locations.known_roots,
        locations.trash,
        lambda: locations.paths(SESSION),
        lambda: locations.create(SESSION),
        lambda: locations.move_to_trash(SESSION),
        lambda: locations.remove_table(SESSION, TABLE),
        lambda: locations.table_paths(SESSION, [TABLE])[0],
        lambda: locations.size_bytes(SESSION, TABLE),
        lambda: locations.sum_data_files(SESSION, TABLE, lambda file: 1),
        lambda: locations.trash_of(SESSION),
        lambda: locations.copy_table((SESSION, TABLE), (SESSION, TABLE)),
        locations.initialise,
    )


def refused(task: Callable[[], Any]) -> str:
    with pytest.raises(RootUnavailableError) as failed:
        task()
    return str(failed.value)


def test_root_keeps_one_private_id(root: Path, in_processes: InProcesses) -> None:
    in_processes([lambda: opened(root).home] * 4)
    first = marker(root).read_text()
    assert len(first) == 32
    assert marker(root).stat().st_mode & 0o777 == 0o600
    opened(root)
    assert marker(root).read_text() == first
    opened(root).set_current_root(root.with_name("second"))
    assert marker(root.with_name("second")).read_text() != first


@pytest.mark.parametrize("instead", ["nothing", "an empty directory", "another Lodge's root", "a root without an id"])
@pytest.mark.parametrize("is_recorded", [True, False])
def test_guarantee_3_replaced_root_is_an_error_and_stays_unchanged(
    root: Path, root_ids: InMemoryRootIds, *, instead: str, is_recorded: bool
) -> None:
    locations = opened(root, root_ids if is_recorded else None)
    locations.create(SESSION)
    root.rename(root.with_name("true"))
    if instead == "an empty directory":
        root.mkdir()
    elif instead == "another Lodge's root":
        opened(root).create(SessionUuid("00000000-0000-4000-8000-00000000000f"))
    elif instead == "a root without an id":
        opened(root)
        marker(root).unlink()
    before = sorted(root.rglob("*")) if root.exists() else None
    for look in everything_that_looks(locations):
        assert str(root) in refused(look)
    assert (sorted(root.rglob("*")) if root.exists() else None) == before
    shutil.rmtree(root, ignore_errors=True)
    root.with_name("true").rename(root)
    assert locations.list() == {SESSION}


def test_guarantee_3_earlier_root_is_distinguished_from_another_root(tmp_path: Path, root: Path) -> None:
    locations = opened(root)
    locations.create(SESSION)
    moved = tmp_path / "second"
    locations.set_current_root(moved)
    root.rename(tmp_path / "true")
    opened(root)
    refused(locations.list)


def test_guarantee_5_start_does_not_recreate_a_recorded_root(root: Path, root_ids: InMemoryRootIds) -> None:
    opened(root, root_ids).create(SESSION)
    assert root_ids.ids == {str(root): marker(root).read_text()}
    root.rename(root.with_name("true"))
    root.mkdir()
    assert "no id" in refused(lambda: opened(root, root_ids))
    assert not list(root.iterdir())
    opened(root)
    assert root_ids.ids[str(root)] in refused(lambda: opened(root, root_ids))
    shutil.rmtree(root)
    refused(lambda: opened(root, root_ids))
    assert not root.exists()
    root.with_name("true").rename(root)
    assert opened(root, root_ids).list() == {SESSION}


def test_root_without_id_gets_one_unless_another_is_recorded(root: Path, root_ids: InMemoryRootIds) -> None:
    moved = root.with_name("second")
    opened(root).set_current_root(moved)
    for each in (root, moved):
        without_marks(each)
    locations = opened(root, root_ids)
    assert locations.list() == set()
    assert root_ids.ids == {str(each): marker(each).read_text() for each in (root, moved)}
    for each in (root, moved):
        marker(each).unlink()
        refused(locations.list)
        refused(lambda: opened(root, root_ids).list())
        assert not marker(each).exists()
        marker(each).write_text(root_ids.ids[str(each)])
    assert opened(root, root_ids).list() == set()


def test_first_recorded_id_wins(root: Path, root_ids: InMemoryRootIds) -> None:
    class Late(InMemoryRootIds):
        def expected(self, root: str) -> str | None:
            return None

    root_ids.record(str(root), "f" * 32)
    assert "f" * 32 in refused(lambda: opened(root, Late(root_ids.ids)))


def test_operations_fail_while_the_recorded_id_cannot_be_read(root: Path, root_ids: InMemoryRootIds) -> None:
    root_ids.is_reachable = False
    assert "API server" in refused(lambda: opened(root, root_ids))
    assert not root.exists()
    root_ids.is_reachable = True
    known = opened(root, root_ids)
    late = FileSessionLocations(root, home_of(root), root_ids)
    root_ids.is_reachable = False
    assert known.list() == set()
    assert "API server" in refused(late.list)


@pytest.mark.slow
def test_start_killed_at_any_step_can_be_repeated(tmp_path: Path, killed_at: KilledAt) -> None:
    for step in itertools.count(1):
        root, root_ids = tmp_path / f"{step}", InMemoryRootIds()
        was_killed = killed_at(step, partial(opened, root, root_ids))
        assert opened(root, root_ids).list() == set()
        assert root_ids.ids == {str(root): marker(root).read_text()}
        if not was_killed:
            break
    assert step > 8


@as_root
@pytest.mark.parametrize("kind", ["empty", "another root", "unmounted"])
def test_guarantee_3_file_system_mounted_over_the_root_is_an_error(
    root: Path, in_processes: InProcesses, *, kind: str
) -> None:
    root.mkdir()
    records = FileSessionRecords(opened(root.with_name("elsewhere")).home)

    def remounted() -> str:
        if kind == "unmounted":
            run("mount", "-t", "tmpfs", "tmpfs", root)
        root_ids = InMemoryRootIds()
        locations = opened(root, root_ids)
        (locations.create(SESSION) / TABLE).mkdir()
        stored = records.create(a_record(session_uuid=SESSION))
        if kind == "unmounted":
            run("umount", root)
        else:
            run("mount", "-t", "tmpfs", "tmpfs", root)
        if kind == "another root":
            opened(root).create(SESSION)
            (root / SESSION / TABLE).mkdir()
        for look in everything_that_looks(locations):
            refused(look)
        refused(lambda: opened(root, root_ids))
        refused(lambda: end_session(records, locations, stored))
        assert len(records.list()) == 1
        if kind == "another root":
            assert (root / SESSION / TABLE).is_dir()
        if kind != "unmounted":
            run("umount", root)
            assert locations.list() == {SESSION}
            assert (root / SESSION / TABLE).is_dir()
        return "ok"

    assert in_processes([lambda: with_own_mounts(remounted)]) == ["ok"]
