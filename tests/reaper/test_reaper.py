"""The reaper on real files, with a clock that only the test moves; see the guarantees of :mod:`reaper.reaper`.

A lease lasts ten seconds, and the grace period five; see ``World``.
"""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import structlog

from tests.forks import create_fork
from tests.own_mounts import fill_disk, mount_small_disk, with_own_mounts
from tests.reaper.conftest import World
from workspace.identifiers import ReplicaId, SessionUuid
from workspace.record_changes import add_holder, mark_ending, remove_holders, update_record
from workspace.record_store import RecordsUnavailableError
from workspace.records import Phase

LEASE_SECONDS, GRACE_SECONDS = 10, 5
ORPHAN = SessionUuid("00000000-0000-4000-8000-000000000001")
DEADLINE_SECONDS = 60


def test_session_with_renewed_lease_is_never_touched(world: Any) -> None:
    stored = world.start_session("alive")
    summaries = world.passes(200, "alive")
    assert world.is_there(stored)
    assert not any(s.reaped or s.orphans or s.leases or s.forgotten or s.failures for s in summaries)


def test_guarantee_7_session_of_dead_holder_ends_after_lease_and_grace_period(world: Any) -> None:
    stored = world.start_session("dead")
    world.reaper.run_once()
    world.passes(LEASE_SECONDS + GRACE_SECONDS - 1)
    assert world.is_there(stored)
    world.passes(3)
    assert not world.is_there(stored)
    world.passes(1)
    world.assert_nothing_is_left()


def test_session_end_is_logged_with_location_and_principal(world: Any) -> None:
    stored = world.start_session("dead")
    location = str(world.locations.path(stored.record.session_uuid))
    with structlog.testing.capture_logs() as logs:
        world.passes(LEASE_SECONDS + GRACE_SECONDS + 4)
    assert logs == [
        {
            "event": "session_location_deleted",
            "log_level": "info",
            "message": f"Deleted session temporary location [{location}] from file system [file:///]",
            "location": location,
            "file_system": "file:///",
            "session": stored.record.session_uuid,
            "principal": "ada",
        },
        {
            "event": "session_reaped",
            "log_level": "info",
            "session": stored.record.session_uuid,
            "principal": "ada",
            "reason": "holders_lost",
            "holders": ["dead"],
        },
        {"event": "lost_lease_deleted", "log_level": "info", "replica": "dead"},
    ]


def test_session_without_holder_may_be_adopted_within_grace_period(world: Any) -> None:
    stored = world.start_session()
    world.passes(GRACE_SECONDS)
    update_record(world.records, stored.record.name, lambda record: add_holder(record, ReplicaId("b")))
    world.passes(30, "b")
    assert world.is_there(stored)
    update_record(world.records, stored.record.name, lambda record: remove_holders(record, {ReplicaId("b")}))
    world.passes(GRACE_SECONDS, "b")
    assert world.is_there(stored)
    world.passes(2, "b")
    assert not world.is_there(stored)


def test_lost_replica_is_removed_from_holders_of_live_session(world: Any) -> None:
    stored = world.start_session("dead", "alive")
    with structlog.testing.capture_logs() as logs:
        world.passes(LEASE_SECONDS + 3, "alive")
    assert world.records.read(stored.record.name).record.holders == {"alive"}
    assert [log["event"] for log in logs] == ["lost_holders_forgotten", "lost_lease_deleted"]
    assert world.is_there(stored)


def test_replica_that_returns_while_a_pass_reads_the_records_stays_a_holder(world: Any) -> None:
    stored = world.start_session("returned", "alive")
    name = stored.record.name
    world.passes(1, "returned", "alive")

    def read_after_return() -> Any:
        world.leases.renew(ReplicaId("returned"))
        update_record(world.records, name, lambda record: add_holder(record, ReplicaId("returned")), must_write=True)
        return world.records.list()

    world.now_seconds += LEASE_SECONDS
    world.leases.renew(ReplicaId("alive"))
    with mock.patch.object(world.reaper.snapshot_reader, "_read_records", read_after_return):
        world.reaper.run_once()
    assert world.records.read(name).record.holders == {"returned", "alive"}


def test_live_holder_has_grace_period_to_complete_the_end(world: Any) -> None:
    stored = world.start_session("alive")
    update_record(world.records, stored.record.name, mark_ending)
    world.passes(GRACE_SECONDS, "alive")
    assert world.is_there(stored)
    world.passes(2, "alive")
    assert not world.is_there(stored)


def test_ending_session_without_live_holder_is_finished_at_once(world: Any) -> None:
    stored = world.start_session(phase=Phase.ENDING)
    summary = world.reaper.run_once()
    assert summary.reaped == [stored.record.session_uuid]
    assert not world.is_there(stored)


def test_end_interrupted_after_move_to_trash_is_finished_and_logged(world: Any) -> None:
    stored = world.start_session("alive", phase=Phase.ENDING)
    world.locations.move_to_trash(stored.record.session_uuid)
    with structlog.testing.capture_logs() as logs:
        world.passes(GRACE_SECONDS + 2, "alive")
    assert [log["event"] for log in logs] == ["session_location_deleted", "session_reaped"]
    assert not world.locations.trash()


def test_guarantee_7_orphan_is_removed_after_grace_period(world: Any) -> None:
    location = world.make_location(ORPHAN)
    os.utime(location, (0, 0))  # modification times must not matter
    world.passes(GRACE_SECONDS)
    assert location.exists()
    with structlog.testing.capture_logs() as logs:
        world.passes(2)
    assert logs == [
        {
            "event": "orphan_location_deleted",
            "log_level": "info",
            "message": f"Deleted session temporary location [{location}] from file system [file:///]",
            "location": str(location),
            "file_system": "file:///",
            "session": ORPHAN,
        }
    ]
    world.assert_nothing_is_left()


def test_location_recreated_by_late_writer_is_removed_again(world: Any) -> None:
    for _ in range(3):
        location = world.make_location(ORPHAN)
        world.passes(GRACE_SECONDS + 2)
        assert not location.exists()


def test_link_in_place_of_a_location_is_not_followed(world: Any, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "table").mkdir(parents=True)
    stored = world.start_session("dead")
    location = world.locations.path(stored.record.session_uuid)
    location.rename(tmp_path / "moved")
    location.symlink_to(outside)
    world.locations.path(ORPHAN).symlink_to(outside)
    world.passes(LEASE_SECONDS + GRACE_SECONDS + 4)
    assert not world.records.list()
    assert (outside / "table").is_dir()


def test_guarantee_1_damaged_record_is_a_hold_until_it_is_repaired(world: Any) -> None:
    dead, damaged = world.start_session("dead"), world.start_session("dead")
    orphan = world.make_location(ORPHAN)
    (file,) = (world.root / ".lodge" / "sessions" / damaged.record.name).iterdir()
    content = file.read_bytes()
    file.write_bytes(b"damaged")
    with structlog.testing.capture_logs() as logs:
        summaries = world.passes(60)
    assert {log["event"] for log in logs} == {"reaper_held_back"}
    assert file.name in logs[0]["reason"]
    assert all(file.name in summary.held_back for summary in summaries)
    assert orphan.exists()
    assert world.locations.path(dead.record.session_uuid).exists()
    file.write_bytes(content)
    assert world.is_there(dead)
    world.passes(LEASE_SECONDS + GRACE_SECONDS + 4)
    world.assert_nothing_is_left()


@pytest.mark.parametrize("missing", ["sessions", "leases", "trash"])
def test_guarantee_1_missing_storage_is_a_hold(world: Any, missing: str) -> None:
    stored = world.start_session("dead")
    world.passes(LEASE_SECONDS)
    orphan = world.make_location(ORPHAN)
    (world.root / ".lodge" / missing).rename(world.root / ".lodge" / "elsewhere")
    assert all(summary.held_back for summary in world.passes(60))
    assert orphan.exists()
    (world.root / ".lodge" / "elsewhere").rename(world.root / ".lodge" / missing)
    assert world.is_there(stored)


def test_guarantee_6_time_on_hold_does_not_count(world: Any) -> None:
    held, unheld = world.start_session("alive"), world.start_session()
    orphan = world.make_location(ORPHAN)
    world.passes(3, "alive")
    with mock.patch.object(world.records, "list", side_effect=RecordsUnavailableError(None, "down")):
        world.passes(LEASE_SECONDS + GRACE_SECONDS + 60)
    world.passes(1)
    world.passes(GRACE_SECONDS - 1, "alive")
    assert world.is_there(held)
    assert world.is_there(unheld)
    assert orphan.exists()
    world.passes(2, "alive")
    assert world.is_there(held)
    assert not world.is_there(unheld)
    assert not orphan.exists()


@pytest.mark.parametrize("what_fails", ["records", "leases", "locations"])
def test_guarantee_6_gateways_that_could_not_renew_during_a_hold_are_not_lost(world: Any, what_fails: str) -> None:
    shared, held = world.start_session("alive", "other"), world.start_session("alive")
    world.passes(3, "alive", "other")
    error = OSError(5, "down") if what_fails == "locations" else RecordsUnavailableError(None, "down")
    with mock.patch.object(getattr(world, what_fails), "list", side_effect=error):
        world.passes(LEASE_SECONDS + GRACE_SECONDS + 60)
    world.passes(1)
    assert not world.reaper.last_pass.snapshot.lost
    world.passes(1, "other")
    assert world.records.read(shared.record.name).record.holders == {"alive", "other"}
    assert not world.reaper.last_pass.snapshot.lost
    world.passes(LEASE_SECONDS - 1, "other")
    assert world.records.read(shared.record.name).record.holders == {"other"}, "its silence is now observed"
    world.passes(GRACE_SECONDS + 2, "other")
    assert not world.is_there(held)


def test_guarantee_6_silence_means_nothing_while_the_reaper_cannot_write(world: Any) -> None:
    """Nor does the silence before, or the part of a grace period that has passed."""
    silent = world.start_session("silent")
    world.passes(LEASE_SECONDS + GRACE_SECONDS - 4)
    ending, orphan = world.start_session("ended", phase=Phase.ENDING), world.make_location(ORPHAN)
    world.passes(2)
    assert world.is_there(silent)
    error = RecordsUnavailableError(None, "no space")
    with mock.patch.object(world.leases, "check_writable", side_effect=error):
        world.passes(LEASE_SECONDS + GRACE_SECONDS + 60)
        assert world.is_there(silent)
        assert orphan.exists()
        assert not world.is_there(ending), "what has ended frees space"
        assert not world.locations.trash()
        assert world.reaper.holds.reasons == {"writes": str(error)}
    world.passes(LEASE_SECONDS - 1)
    assert world.records.read(silent.record.name).record.holders == {"silent"}
    assert not world.reaper.holds.reasons
    assert world.is_there(silent)
    world.passes(GRACE_SECONDS + 3)
    assert not world.is_there(silent)
    assert not orphan.exists()


def test_guarantee_6_pause_of_the_reaper_does_not_count(world: Any) -> None:
    silent = world.start_session("silent")
    world.passes(LEASE_SECONDS)
    orphan = world.make_location(ORPHAN)
    world.passes(1)
    world.now_seconds += LEASE_SECONDS + GRACE_SECONDS
    with structlog.testing.capture_logs() as logs:
        world.passes(1)
    (event,) = logs
    assert event["event"] == "grace_periods_restarted"
    assert event["seconds"] == LEASE_SECONDS + GRACE_SECONDS + 1
    assert orphan.exists()
    world.passes(LEASE_SECONDS + GRACE_SECONDS - 1)
    assert world.is_there(silent)
    world.passes(4)
    assert not world.is_there(silent)
    assert not orphan.exists()


@pytest.mark.parametrize(
    ("storage", "method"),
    [
        ("locations", "list"),
        ("locations", "trash"),
        ("records", "list"),
        ("leases", "list"),
        ("leases", "check_writable"),
    ],
)
def test_guarantee_6_time_in_which_the_storage_hung_does_not_count(world: Any, storage: str, method: str) -> None:
    silent = world.start_session("silent")
    world.passes(LEASE_SECONDS + 1)
    call = getattr(getattr(world, storage), method)

    def hang() -> Any:
        world.now_seconds += LEASE_SECONDS + GRACE_SECONDS
        return call()

    with mock.patch.object(getattr(world, storage), method, hang):
        world.passes(1)
    world.passes(LEASE_SECONDS + GRACE_SECONDS - 1)
    assert world.is_there(silent)
    world.passes(4)
    assert not world.is_there(silent)


def test_guarantee_7_slow_storage_keeps_no_session_alive(world: Any) -> None:
    """Each answer takes almost as long as a lease, and a pass longer than a lease and the grace period."""
    silent = world.start_session("silent")
    for storage in (world.locations, world.records, world.leases):
        call = storage.list

        def answer_late(call: Any = call) -> Any:
            world.now_seconds += LEASE_SECONDS - 1
            return call()

        storage.list = answer_late
    world.passes(5)
    assert not world.is_there(silent)


@pytest.mark.needs_root
def test_session_survives_a_disk_that_is_full_and_is_freed(tmp_path: Path) -> None:
    """Its gateway renews its lease on the full disk, and then stops: only from then on its silence counts."""
    root = tmp_path / "mounted"
    root.mkdir()

    def task() -> None:
        mount_small_disk(root, "4m")
        world = World(root)
        stored = world.start_session("gateway")
        world.passes(3, "gateway")
        filler = fill_disk(root)
        world.passes(LEASE_SECONDS + GRACE_SECONDS + 60, "gateway")
        world.passes(LEASE_SECONDS + GRACE_SECONDS + 60)
        assert "No space left" in world.reaper.holds.reasons["writes"]
        filler.unlink()
        world.passes(LEASE_SECONDS + GRACE_SECONDS - 2)
        assert world.is_there(stored)
        world.passes(LEASE_SECONDS + GRACE_SECONDS + 60, "gateway")
        assert world.is_there(stored)
        world.passes(LEASE_SECONDS + GRACE_SECONDS + 3)
        assert not world.is_there(stored)

    process = create_fork(lambda: with_own_mounts(task))
    process.start()
    process.join()
    assert process.exitcode == 0


@pytest.mark.parametrize(("paused_snapshot", "before_seconds", "after_seconds"), [(1, 1000, 0), (2, 0, 1000)])
def test_reaper_paused_during_a_snapshot_ends_no_live_session(
    world: Any, paused_snapshot: int, before_seconds: int, after_seconds: int
) -> None:
    stored = world.start_session("alive", "other")
    list_leases = world.leases.list

    def list_and_pause() -> Any:
        world.now_seconds += before_seconds
        seen = list_leases()
        world.now_seconds += after_seconds
        return seen

    for snapshot in (1, 2):
        world.now_seconds += 1
        world.leases.renew(ReplicaId("other"))
        with mock.patch.object(world.leases, "list", list_and_pause if snapshot == paused_snapshot else list_leases):
            world.reaper.run_once()
    assert world.records.read(stored.record.name).record.holders == {"alive", "other"}


def test_guarantee_3_undeletable_location_does_not_stop_the_others(world: Any) -> None:
    stuck, other = world.start_session("dead"), world.start_session("dead")
    stuck_uuid = stuck.record.session_uuid
    move_to_trash = world.locations.move_to_trash

    def fail_for_one(session_uuid: SessionUuid) -> Any:
        if session_uuid == stuck_uuid:
            raise PermissionError(13, "Permission denied")
        return move_to_trash(session_uuid)

    with (
        structlog.testing.capture_logs() as logs,
        mock.patch.object(world.locations, "move_to_trash", side_effect=fail_for_one),
    ):
        world.passes(LEASE_SECONDS + GRACE_SECONDS + 4)
    assert not world.is_there(other)
    assert world.is_there(stuck)
    failures = [log for log in logs if log["event"] == "reaper_action_failed"]
    assert failures
    assert failures[0]["session"] == stuck_uuid
    assert "Permission denied" in failures[0]["reason"]
    world.passes(2)
    assert not world.is_there(stuck)


def test_guarantee_3_unpurgeable_trash_does_not_stop_the_others(world: Any) -> None:
    for _ in range(2):
        world.make_location(ORPHAN)
        world.locations.move_to_trash(ORPHAN)
    first, second = world.locations.trash()
    purge = world.locations.purge

    def fail_for_one(entry: str, should_stop: Any) -> bool:
        if entry == first:
            raise OSError(39, "Directory not empty")
        return bool(purge(entry, should_stop))

    with mock.patch.object(world.locations, "purge", side_effect=fail_for_one):
        summary = world.reaper.run_once()
    assert (summary.purged, summary.failures) == (1, 1)
    assert world.locations.trash() == [first]
    assert second not in world.locations.trash()


def test_guarantee_2_session_adopted_after_the_snapshot_is_not_ended(world: Any) -> None:
    stored = world.start_session()
    world.passes(GRACE_SECONDS)
    trash = world.locations.trash

    def adopt_and_list() -> Any:
        update_record(world.records, stored.record.name, lambda record: add_holder(record, ReplicaId("b")))
        return trash()

    with mock.patch.object(world.locations, "trash", side_effect=adopt_and_list):
        summaries = world.passes(2, "b")
    assert not any(summary.reaped for summary in summaries)
    assert world.is_there(stored)


def test_session_created_during_a_snapshot_is_no_orphan(new_world: Callable[[], Any]) -> None:
    world = new_world()
    world.reaper = world.new_reaper(grace_period_seconds=0.0)
    for storage in (world.locations, world.leases, world.records):
        original_list = storage.list

        def list_and_create_session(original_list: Callable[[], Any] = original_list) -> Any:
            seen = original_list()
            world.start_session("alive")
            return seen

        with mock.patch.object(storage, "list", list_and_create_session):
            world.passes(1, "alive")
    world.passes(5, "alive")
    assert len(world.locations.list()) == len(world.records.list()) == 3


def test_guarantee_5_two_reapers_end_each_session_once(world: Any) -> None:
    sessions = [world.start_session("dead") for _ in range(10)]
    reapers = [world.new_reaper(), world.new_reaper()]
    for reaper in reapers:
        reaper.run_once()
    world.now_seconds += LEASE_SECONDS
    world.make_location(ORPHAN)
    for reaper in reapers:
        reaper.run_once()
    world.now_seconds += GRACE_SECONDS
    barrier, summaries = threading.Barrier(2), []

    def run(reaper: Any) -> None:
        barrier.wait(DEADLINE_SECONDS)
        summaries.append(reaper.run_once())

    threads = [threading.Thread(target=run, args=(reaper,)) for reaper in reapers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    reaped = [session for summary in summaries for session in summary.reaped]
    assert sorted(reaped) == sorted(stored.record.session_uuid for stored in sessions)
    assert [orphan for summary in summaries for orphan in summary.orphans] == [ORPHAN]
    assert [summary.failures for summary in summaries] == [0, 0]
    reapers[0].run_once()
    world.assert_nothing_is_left()


STEPS = ("open", "mkdir", "link", "rename", "replace", "unlink", "rmdir", "fsync")


def killed_at(step: int, task: Callable[[], Any]) -> bool:
    """Run a task in a process that kills itself before its n-th change; return False if the task ended first."""
    calls = iter(range(1, 1_000_000))

    def counting(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if next(calls) == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*args, **kwargs)

        return call

    def child() -> None:
        with mock.patch.multiple("os", **{name: counting(getattr(os, name)) for name in STEPS}):
            task()

    process = create_fork(child)
    process.start()
    process.join(DEADLINE_SECONDS)
    assert process.exitcode in {0, -signal.SIGKILL}
    return process.exitcode != 0


@pytest.mark.slow
def test_reaper_killed_at_any_step_is_completed_by_another(new_world: Callable[[], Any]) -> None:
    step, was_killed = 0, True
    while was_killed:
        step += 1
        world = new_world()
        alive, dead = world.start_session("alive"), world.start_session("dead")
        world.make_location(ORPHAN)
        world.passes(LEASE_SECONDS + GRACE_SECONDS, "alive", period_seconds=5.0)
        world.now_seconds += 5
        world.leases.renew(ReplicaId("alive"))
        was_killed = killed_at(step, world.reaper.run_once)
        named = {stored.record.session_uuid for stored in world.records.list()}
        assert world.locations.list() <= named | {ORPHAN}
        assert world.is_there(alive)
        world.reaper = world.new_reaper()
        world.passes(LEASE_SECONDS + GRACE_SECONDS + 15, "alive", period_seconds=5.0)
        assert world.locations.list() == {alive.record.session_uuid}
        assert dead.record.name not in {stored.record.name for stored in world.records.list()}
        assert not world.locations.trash()
    assert step > 20
