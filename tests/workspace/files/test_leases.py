"""Leases as files, and how leases are judged.

The guarantees are those of workspace.files.leases; ``leases_guarantee`` means those of workspace.leases.
"""

import errno
import os
from pathlib import Path
from unittest import mock

import pytest

from tests.fixture_types import InProcesses, KilledAt
from tests.own_mounts import fill_disk, make_read_only, make_writable, mount_small_disk, with_own_mounts
from workspace.files.leases import FileLeases
from workspace.files.session_locations import FileSessionLocations
from workspace.files.space_reserve import COUNT
from workspace.identifiers import ReplicaId
from workspace.leases import STOPPED, LeaseObserver, LeaseStoppedError, OwnLease, RenewalMark
from workspace.record_store import RecordsUnavailableError

A, B = ReplicaId("a"), ReplicaId("b")


def test_guarantee_1_readers_see_complete_marks_during_renewals_and_deletions(
    root: Path, in_processes: InProcesses
) -> None:
    def renew() -> None:
        for _ in range(100):
            FileLeases(root).renew(A)
            FileLeases(root).renew(B)
            FileLeases(root).delete(B)

    def look() -> set[int]:
        return {len(mark) for _ in range(200) for mark in FileLeases(root).list().values()}

    renewed, *looks = in_processes([renew, look, look])
    assert renewed is None
    assert all(seen <= {32} for seen in looks)


def test_guarantee_3_first_renewal_killed_at_any_step_leaves_a_complete_lease_or_none(
    root: Path, killed_at: KilledAt
) -> None:
    """Later renewals have one step."""
    outcomes = set()
    for step in range(1, 50):
        was_killed = killed_at(step, lambda: FileLeases(root).renew(A))
        after = FileLeases(root).list()
        assert {len(mark) for mark in after.values()} <= {32}
        outcomes.add(frozenset(after))
        FileLeases(root).delete(A)
        if not was_killed:
            break
    assert 1 < step < 49
    assert outcomes == {frozenset(), frozenset({A})}


def test_guarantee_2_list_ignores_other_files(root: Path) -> None:
    leases = FileLeases(root)
    leases.renew(A)
    for name in (".hidden", "UPPER", "a_b"):
        (root / ".lodge" / "leases" / name).write_text("x")
    assert leases.list().keys() == {A}


def test_guarantee_6_check_leaves_no_file(root: Path) -> None:
    FileLeases(root).check_writable()
    assert [path for path in (root / ".lodge").glob("*/*") if path.parent.name != "reserve"] == []


@pytest.mark.needs_root
def test_guarantees_5_and_6_full_disk_lets_gateways_renew_and_is_noticed(
    tmp_path: Path, in_processes: InProcesses
) -> None:
    root = tmp_path / "mounted"
    root.mkdir()

    def task() -> str:
        mount_small_disk(root, "1m")
        FileSessionLocations(root).initialise()
        leases = FileLeases(root)
        leases.renew(A)
        leases.check_writable()
        filler = fill_disk(root)
        before = leases.list()
        for _ in range(50):
            leases.renew(A)
        assert leases.list().keys() == before.keys()
        assert leases.list() != before
        with pytest.raises(RecordsUnavailableError, match="No space left on device"):
            leases.check_writable()
        assert not list((root / ".lodge" / "staging").iterdir())
        filler.unlink()
        leases.check_writable()
        make_read_only(root)
        for write in (leases.check_writable, lambda: leases.renew(A)):
            with pytest.raises(RecordsUnavailableError, match="Read-only file system"):
                write()
        make_writable(root)
        leases.check_writable()
        return "ok"

    assert in_processes([lambda: with_own_mounts(task)]) == ["ok"]


@pytest.mark.needs_root
def test_guarantee_5_gateways_start_and_stop_on_a_full_disk(tmp_path: Path, in_processes: InProcesses) -> None:
    root = tmp_path / "mounted"
    root.mkdir()

    def task() -> str:
        mount_small_disk(root, "2m")
        FileSessionLocations(root).initialise()
        FileLeases(root).renew(A)
        reserve = root / ".lodge" / "reserve"
        filler = fill_disk(root)
        leases = FileLeases(root)
        leases.renew(B)
        leases.stop(A)
        first = leases.list()
        assert first == {A: STOPPED, B: first[B]}
        leases.renew(B)
        assert leases.list()[B] != first[B]
        for path in reserve.iterdir():
            path.rename(root / path.name)
        others = root / "others"
        others.mkdir()
        fill_disk(others)
        for write in (lambda: leases.renew(ReplicaId("c")), lambda: leases.stop(B)):
            with pytest.raises(RecordsUnavailableError, match="No space left on device"):
                write()
        assert leases.list().keys() == {A, B}
        assert not list((root / ".lodge" / "staging").iterdir())
        filler.unlink()
        leases.renew(B)
        assert len(list(reserve.iterdir())) == COUNT
        return "ok"

    assert in_processes([lambda: with_own_mounts(task)]) == ["ok"]


def test_guarantee_7_lease_with_a_damaged_file_is_renewed(root: Path) -> None:
    leases = FileLeases(root)
    leases.renew(A)
    before = leases.list()
    damaged = (root / ".lodge" / "leases" / A).stat()

    def sync(descriptor: int) -> None:
        if os.path.samestat(os.fstat(descriptor), damaged):
            raise OSError(errno.EIO, "Input/output error")

    with mock.patch("os.fsync", sync), (root / ".lodge" / "leases" / A).open():  # open, so that no other file is it
        for _ in range(2):
            leases.renew(A)
            assert leases.list().keys() == {A}
            assert leases.list() != before
            before = leases.list()
        leases.stop(A)
        with pytest.raises(LeaseStoppedError):
            leases.renew(A)


def test_missing_storage_makes_leases_unavailable(root: Path) -> None:
    leases = FileLeases(root)
    leases.renew(A)
    (root / ".lodge").rename(root / "elsewhere")
    for operation in (leases.list, lambda: leases.renew(A), lambda: leases.stop(A), lambda: leases.delete(A)):
        with pytest.raises(RecordsUnavailableError):
            operation()


def test_lease_that_is_a_link_is_not_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (root / ".lodge" / "leases" / "a").symlink_to(tmp_path / "secret")
    with pytest.raises(RecordsUnavailableError):
        FileLeases(root).list()
    FileLeases(root).renew(A)
    assert (tmp_path / "secret").read_text() == "secret"
    assert FileLeases(root).list().keys() == {A}


def test_leases_guarantee_1_lease_is_lost_only_after_its_whole_duration_unchanged() -> None:
    observer = LeaseObserver(lease_duration_seconds=10)
    named = {ReplicaId("never-leased")}
    observer.observe({A: RenewalMark("1")}, named, 100.0)
    assert observer.lost(100.0) == set()
    observer.observe({A: RenewalMark("2")}, named, 109.0)
    assert observer.lost(110.0) == named
    observer.observe({A: RenewalMark("2")}, named, 118.0)
    assert observer.lost(118.0) == named
    assert observer.lost(118.9) == named
    assert observer.lost(119.0) == named | {A}
    observer.observe({}, named | {A}, 119.5)
    assert observer.lost(119.5) == named


def test_leases_guarantee_2_own_lease_counts_from_the_start_of_its_renewal() -> None:
    held = OwnLease(lease_duration_seconds=10)
    assert not held.is_valid(0.0)
    held.record_renewal(begun_seconds=100.0)
    assert held.is_valid(109.9)
    assert not held.is_valid(110.0)


def test_leases_guarantee_1_stopped_lease_is_lost_at_once() -> None:
    observer = LeaseObserver(lease_duration_seconds=10)
    observer.observe({A: STOPPED}, set(), 100.0)
    assert observer.lost(100.0) == {A}
    assert observer.due_seconds(100.0) == float("inf")
    observer.observe({}, {A}, 101.0)
    assert observer.lost(101.0) == {A}, "the deletion of its lease does not revive a replica"
    observer.observe({A: RenewalMark("1")}, set(), 102.0)
    assert observer.lost(102.0) == set()


def test_leases_guarantee_2_stopped_own_lease_is_never_valid_again() -> None:
    held = OwnLease(lease_duration_seconds=10)
    held.record_renewal(begun_seconds=100.0)
    held.stop()
    assert not held.is_valid(100.0)
    held.record_renewal(begun_seconds=101.0)
    assert not held.is_valid(101.0)


def test_guarantee_4_stop_killed_at_any_step_leaves_a_complete_lease(root: Path, killed_at: KilledAt) -> None:
    outcomes = set()
    for step in range(1, 50):
        FileLeases(root).renew(A)
        before = FileLeases(root).list()
        was_killed = killed_at(step, lambda: FileLeases(root).stop(A))
        after = FileLeases(root).list()
        assert after in (before, {A: STOPPED})
        outcomes.add(before == after)
        FileLeases(root).delete(A)
        if not was_killed:
            break
    assert 1 < step < 49
    assert outcomes == {True, False}


def test_deletion_of_a_stopped_lease_killed_at_any_step_does_not_revive_it(root: Path, killed_at: KilledAt) -> None:
    FileLeases(root).renew(A)
    FileLeases(root).stop(A)
    for step in range(1, 10):
        was_killed = killed_at(step, lambda: FileLeases(root).delete(A))
        assert FileLeases(root).list() in ({A: STOPPED}, {})
        if not was_killed:
            break
    assert 1 < step < 9
    assert not FileLeases(root).list()
    assert not list((root / ".lodge" / "leases").iterdir())
