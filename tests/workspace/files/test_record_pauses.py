"""Records as files when a process is paused at any step while another completes an operation.

The guarantees are those of workspace.files.record_versions ("directory") and workspace.files.record_directories
("files").
"""

import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.fixture_types import InterruptedAt, NewRoot
from tests.records import a_record
from workspace.files.record_directories import LEFTOVER_SECONDS
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import ReplicaId
from workspace.record_changes import add_holder
from workspace.record_store import (
    RecordConflictError,
    RecordError,
    RecordExistsError,
    RecordNotFoundError,
    StoredRecord,
)
from workspace.records import SessionRecord

MINE = ReplicaId("mine")
LEFTOVERS = ["tombstone", "no anchor", "late name", "empty directory"]


@pytest.fixture(autouse=True)
def frequent_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the hint with every second change, so that the tests reach each step of its replacement."""
    monkeypatch.setattr("workspace.files.record_versions.HINT_INTERVAL", 2)


class Intruder:
    """The operation of another process during a pause; it knows the record before and after."""

    def __init__(self, root: Path, action: str, fresh: SessionRecord) -> None:
        self.records = FileSessionRecords(root)
        self.fresh = fresh
        self.found: StoredRecord | None = None
        self.left: StoredRecord | None = None
        self._action = action

    def __call__(self) -> None:
        with suppress(RecordNotFoundError):
            self.found = self.left = self.records.read(self.fresh.name)
        getattr(self, self._action)()

    def looks(self) -> None:
        self.records.list()

    def creates(self) -> None:
        if self.left is None:
            self.left = self.records.create(self.fresh)

    def changes(self) -> None:
        if self.left is not None:
            changed = add_holder(self.left.record, ReplicaId(f"intruder-{len(self.left.record.holders)}"))
            self.left = self.records.replace(changed, self.left.version)

    def changes_often(self) -> None:
        for _ in range(4):
            self.changes()

    def deletes(self) -> None:
        if self.left is not None:
            self.records.delete(self.fresh.name, self.left.version)
            self.left = None

    def changes_and_deletes(self) -> None:
        self.changes()
        self.deletes()

    def deletes_and_dies_before_it_clears(self) -> None:
        with mock.patch("workspace.files.record_versions.VersionDirectory.clear"):
            self.deletes()

    def deletes_and_dies_before_it_removes_the_directory(self) -> None:
        with mock.patch("pathlib.Path.rmdir"):
            self.deletes()

    def creates_again(self) -> None:
        self.deletes()
        self.creates()

    def creates_again_and_changes_often(self) -> None:
        self.creates_again()
        self.changes_often()

    def creates_again_and_deletes(self) -> None:
        self.creates_again()
        self.deletes()


INTRUSIONS = [name for name in vars(Intruder) if not name.startswith("_")]


class Scene:
    """A record with some changes, and an intruder for each operation on it."""

    def __init__(self, root: Path, intrusion: str, changes: Sequence[str] = "ab") -> None:
        self.records = FileSessionRecords(root)
        stored = self.records.create(a_record())
        for holder in changes:
            stored = self.records.replace(add_holder(stored.record, ReplicaId(holder)), stored.version)
        self.stored = stored
        self.name = stored.record.name
        self.root = root
        self.directories = root / ".lodge" / "sessions"
        self.intruder = Intruder(root, intrusion, a_record())

    def now(self) -> StoredRecord | None:
        try:
            return self.records.read(self.name)
        except RecordNotFoundError:
            return None

    def leave(self, leftover: str) -> None:
        """Delete the record up to a state in which the delete, or a change that it overtook, may die."""
        files = self._files()
        content = files[-1].read_bytes()
        if leftover == "nothing":
            self.records.delete(self.name, self.stored.version)
            return
        with mock.patch("workspace.files.record_versions.VersionDirectory.clear"):
            self.records.delete(self.name, self.stored.version)
        files = self._files()
        for path in {"tombstone": [], "no anchor": files[:1]}.get(leftover, files):
            path.unlink()
        if leftover == "late name":
            files[-2].write_bytes(content)

    def assert_nothing_stays_dead(self) -> None:
        stored = self.now()
        times = iter([0.0, LEFTOVER_SECONDS])
        later = FileSessionRecords(self.root, lambda: next(times))
        for _ in range(2):
            assert list(later.list()) == ([] if stored is None else [stored])
        names = [path.name for path in self.directories.iterdir()]
        assert names == ([] if stored is None else [self.name])

    def _files(self) -> list[Path]:
        return sorted((self.directories / self.name).glob("*.json"))


def attempted(operation: Callable[[], Any]) -> RecordError | None:
    """Return the error of an operation; None if it succeeded."""
    try:
        operation()
    except RecordError as error:
        return error
    return None


@pytest.mark.parametrize("changes", ["", "ab"])
@pytest.mark.parametrize("intrusion", INTRUSIONS)
def test_directory_guarantees_1_and_2_paused_replace_never_revives_a_record(
    new_root: NewRoot, interrupted_at: InterruptedAt, intrusion: str, changes: str
) -> None:
    for step in itertools.count(1):
        scene = Scene(new_root(), intrusion, changes)
        changed = add_holder(scene.stored.record, MINE)
        replacing = partial(attempted, partial(scene.records.replace, changed, scene.stored.version))
        was_interrupted, loss = interrupted_at(step, replacing, scene.intruder)
        if not was_interrupted:
            break
        found_mine = scene.intruder.found is not None and MINE in scene.intruder.found.record.holders
        if loss is None and not found_mine:
            assert scene.intruder.left == scene.stored, "it won although the intruder had changed the record"
            assert [stored.record for stored in scene.records.list()] == [changed]
        else:
            assert scene.now() == scene.intruder.left
        if loss is not None:
            assert isinstance(loss, RecordNotFoundError if found_mine else RecordConflictError | RecordNotFoundError)
        scene.assert_nothing_stays_dead()
    assert step > 5


@pytest.mark.parametrize("intrusion", INTRUSIONS)
def test_files_guarantee_1_paused_delete_never_harms_a_later_record(
    new_root: NewRoot, interrupted_at: InterruptedAt, intrusion: str
) -> None:
    for step in itertools.count(1):
        scene = Scene(new_root(), intrusion)
        deleting = partial(attempted, partial(scene.records.delete, scene.name, scene.stored.version))
        was_interrupted, loss = interrupted_at(step, deleting, scene.intruder)
        if not was_interrupted:
            break
        if scene.intruder.left == scene.stored:
            assert (scene.now(), loss) == (None, None)
        else:
            assert scene.now() == scene.intruder.left
            if scene.intruder.found is not None:
                assert isinstance(loss, RecordConflictError | RecordNotFoundError)
        scene.assert_nothing_stays_dead()
    assert step > 5


@pytest.mark.parametrize("intrusion", INTRUSIONS)
def test_directory_guarantee_3_paused_read_sees_a_complete_record(
    new_root: NewRoot, interrupted_at: InterruptedAt, intrusion: str
) -> None:
    for step in itertools.count(1):
        scene = Scene(new_root(), intrusion)
        was_interrupted, seen = interrupted_at(step, scene.now, scene.intruder)
        if not was_interrupted:
            break
        assert seen in (None, scene.stored, scene.intruder.left)
        if scene.intruder.left is not None and "again" not in intrusion:
            assert seen is not None
    assert step > 3


@pytest.mark.parametrize("intrusion", INTRUSIONS)
def test_directory_guarantee_3_paused_list_contains_unchanged_records(
    new_root: NewRoot, interrupted_at: InterruptedAt, intrusion: str
) -> None:
    for step in itertools.count(1):
        scene = Scene(new_root(), intrusion)
        was_interrupted, listed = interrupted_at(step, scene.records.list, scene.intruder)
        if not was_interrupted:
            break
        assert set(listed) <= {scene.stored, scene.intruder.left}
        if scene.intruder.left is not None and "again" not in intrusion:
            assert listed
        scene.assert_nothing_stays_dead()
    assert step > 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("leftover", "intrusion"),
    [
        *(("nothing", intrusion) for intrusion in INTRUSIONS),
        *itertools.product(LEFTOVERS, ["looks", "creates", "creates_again_and_deletes"]),
    ],
)
def test_files_guarantee_1_paused_create_is_the_only_one_that_succeeds(
    new_root: NewRoot, interrupted_at: InterruptedAt, leftover: str, intrusion: str
) -> None:
    for step in itertools.count(1):
        scene = Scene(new_root(), intrusion)
        scene.leave(leftover)
        mine = a_record()
        creating = partial(attempted, partial(scene.records.create, mine))
        was_interrupted, loss = interrupted_at(step, creating, scene.intruder)
        if not was_interrupted:
            break
        if scene.intruder.left is not None:
            assert scene.now() == scene.intruder.left
        elif loss is None and scene.intruder.found is None:
            assert [stored.record for stored in scene.records.list()] == [mine]
        if loss is not None:
            assert isinstance(loss, RecordExistsError)
            assert scene.intruder.found is None
        scene.assert_nothing_stays_dead()
    assert step > 5


@pytest.mark.parametrize("leftover", ["nothing", *LEFTOVERS])
def test_directory_guarantee_2_leftovers_of_a_deleted_record_are_not_found(root: Path, leftover: str) -> None:
    scene = Scene(root, "looks")
    scene.leave(leftover)
    assert scene.now() is None
    for operation in (
        partial(scene.records.replace, scene.stored.record, scene.stored.version),
        partial(scene.records.delete, scene.name, scene.stored.version),
    ):
        assert isinstance(attempted(operation), RecordNotFoundError)
    scene.assert_nothing_stays_dead()
