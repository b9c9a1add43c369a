"""A root names the session records that name its contents (workspace.files.roots, guarantee 6)."""

import itertools
from functools import partial
from pathlib import Path

import pytest

from tests.fixture_types import KilledAt
from tests.records import a_record
from tests.workspace.in_memory_root_ids import InMemoryRootIds
from workspace.files.leases import FileLeases
from workspace.files.roots import home_of
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import ReplicaId, SessionUuid
from workspace.root_identities import RootTakenError

SESSION = SessionUuid("00000000-0000-4000-8000-000000000001")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "workspace"


@pytest.fixture
def moved(root: Path) -> Path:
    """Return the root that the workspace moves to."""
    return root.with_name("moved")


@pytest.fixture
def root_ids() -> InMemoryRootIds:
    return InMemoryRootIds()


def opened(root: Path, root_ids: InMemoryRootIds | None = None) -> FileSessionLocations:
    """Return the locations of a process that starts now."""
    found = FileSessionLocations(root, home_of(root), root_ids)
    found.initialise()
    return found


def mark(root: Path) -> Path:
    return root / ".lodge" / "records"


def test_records_file_is_private_and_names_the_records(root: Path, moved: Path, root_ids: InMemoryRootIds) -> None:
    opened(root, root_ids).set_current_root(moved)
    opened(root.with_name("embedded"))
    for each, content in ((root, root_ids.records), (moved, root_ids.records), (root.with_name("embedded"), "files")):
        assert mark(each).read_text() == content
        assert mark(each).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("sign", ["record", "lease"])
def test_embedded_lodge_continues_in_earlier_roots(root: Path, moved: Path, *, sign: str) -> None:
    locations = opened(root)
    locations.create(SESSION)
    locations.set_current_root(moved)
    locations.create(SESSION)
    if sign == "record":
        FileSessionRecords(root).create(a_record(session_uuid=SESSION))
    else:
        FileLeases(root).renew(ReplicaId("alive"))
    for start in (root, moved):
        for each in (root, moved):
            mark(each).unlink()
        assert opened(start).list() == {SESSION}
        assert [mark(each).read_text() for each in (root, moved)] == ["files", "files"]


@pytest.mark.parametrize("sign", ["location", "record", "lease"])
@pytest.mark.parametrize("is_of_before", [False, True])
def test_root_of_file_records_is_refused_for_kubernetes_records(
    root: Path, root_ids: InMemoryRootIds, *, sign: str, is_of_before: bool
) -> None:
    locations = opened(root)
    if sign == "location":
        locations.create(SESSION)
    elif sign == "record":
        FileSessionRecords(root).create(a_record(session_uuid=SESSION))
    else:
        FileLeases(root).renew(ReplicaId("alive"))
    if is_of_before:
        mark(root).unlink()
    for _ in range(2):
        with pytest.raises(RootTakenError, match=r"records of the root no longer exist, remove \["):
            opened(root, root_ids)
    assert not root_ids.ids
    assert mark(root).exists() != is_of_before


def test_earlier_home_is_not_empty_while_sessions_live_in_its_other_root(
    root: Path, moved: Path, root_ids: InMemoryRootIds
) -> None:
    locations = opened(root, root_ids)
    locations.set_current_root(moved)
    locations.create(SESSION)
    for each in (root, moved):
        mark(each).unlink()
    for start in (root, moved):
        with pytest.raises(RootTakenError, match="unknown session records"):
            opened(start)
        assert not mark(root).exists()
        assert not mark(moved).exists()
    assert opened(moved, root_ids).list() == {SESSION}
    assert mark(root).read_text() == mark(moved).read_text() == root_ids.records


@pytest.mark.parametrize("is_of_before", [False, True])
def test_workspace_cannot_move_to_a_root_of_other_records(
    root: Path, moved: Path, root_ids: InMemoryRootIds, *, is_of_before: bool
) -> None:
    other = opened(moved, root_ids)
    other.create(SESSION)
    if is_of_before:
        mark(moved).unlink()
    locations = opened(root)
    with pytest.raises(RootTakenError):
        locations.set_current_root(moved)
    assert home_of(moved) == moved
    assert locations.list() == set()
    assert other.list() == {SESSION}


@pytest.mark.slow
def test_root_is_free_for_any_lodge_after_a_killed_start(tmp_path: Path, killed_at: KilledAt) -> None:
    """Other Lodges start here. In `test_root_ids`, the same one starts again."""
    for step in itertools.count(1):
        root, root_ids, others = tmp_path / f"{step}", InMemoryRootIds(), InMemoryRootIds()
        was_killed = killed_at(step, partial(opened, root, root_ids))
        first, second = (root_ids, others) if mark(root).exists() else (others, root_ids)
        opened(root, first).create(SESSION)
        with pytest.raises(RootTakenError, match=first.records):
            opened(root, second)
        if not was_killed:
            break
    assert step > 10
