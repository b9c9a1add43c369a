"""The thread that renews the lease, and its view of the event loop (gateway.sessions.lease_thread)."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from gateway.sessions.lease_thread import STALL_LIMIT_LEASES, LeaseThread
from gateway.sessions.loop_monitor import LoopMonitor
from gateway.sessions.replica_lease import ReplicaLease
from gateway.storage import Storage
from workspace.files.leases import FileLeases
from workspace.files.session_locations import FileSessionLocations
from workspace.identifiers import ReplicaId
from workspace.leases import STOPPED, LeaseStoppedError

LEASE_SECONDS = 0.6
LIMIT_SECONDS = STALL_LIMIT_LEASES * LEASE_SECONDS


def test_probe_without_answer_is_a_stall() -> None:
    monitor = LoopMonitor(1.0)
    assert monitor.tick(10.0)
    assert not monitor.tick(11.0)
    assert monitor.stalled_seconds(11.5) == 1.5
    assert monitor.lag_seconds(11.5) == 1.5
    assert monitor.is_conclusive


def test_answer_ends_a_stall() -> None:
    monitor = LoopMonitor(1.0)
    monitor.tick(10.0)
    monitor.answer(14.0)
    assert monitor.stalled_seconds(15.0) == 0.0
    assert monitor.lag_seconds(15.0) == 4.0
    assert monitor.tick(15.0)


def test_pause_of_the_whole_process_is_not_conclusive() -> None:
    monitor = LoopMonitor(1.0)
    monitor.tick(10.0)
    monitor.tick(60.0)
    assert not monitor.is_conclusive
    monitor.tick(61.0)
    assert monitor.is_conclusive, "the event loop had time to answer after the pause"
    assert monitor.stalled_seconds(61.0) == 51.0


class _Replica:
    """A lease that its thread renews, with the view of another process."""

    def __init__(self, root: Path) -> None:
        FileSessionLocations(root).initialise()
        self.leases = FileLeases(root)
        self.name = ReplicaId("r1")
        self.storage = Storage(None, self.leases, None)  # type: ignore[arg-type] # only leases are used
        self.lease = ReplicaLease(self.name, self.storage, LEASE_SECONDS)
        self.renewals = 0
        self.thread = LeaseThread(self.lease, LEASE_SECONDS, self._count)

    def _count(self) -> None:
        self.renewals += 1

    def longest_silence(self, end: threading.Event) -> float:
        """Return the longest time without a renewal until the end."""
        longest, since, mark = 0.0, time.monotonic(), self.leases.list()
        while not end.wait(0.01):
            now_mark = self.leases.list()
            if now_mark != mark:
                mark, since = now_mark, time.monotonic()
            longest = max(longest, time.monotonic() - since)
        return longest


async def until(condition: Callable[[], bool], what: str) -> None:
    deadline_seconds = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline_seconds, f"not within 20 s: {what}"
        await asyncio.sleep(0.01)


def run(tmp_path: Path, stall_seconds: float) -> tuple[_Replica, float, int, bool]:
    """Block the event loop of a replica.

    Returns:
        The replica, the longest time without a renewal, the lease epoch before, and whether the lease was valid when
        the event loop responded again.
    """
    replica = _Replica(tmp_path)

    async def work() -> tuple[float, int, bool]:
        await replica.lease.renew()
        replica.thread.start()
        await until(lambda: replica.renewals > 1, "the thread renews")
        epoch = replica.lease.epoch
        end = threading.Event()
        silence = asyncio.create_task(asyncio.to_thread(replica.longest_silence, end))
        await asyncio.sleep(0)
        time.sleep(stall_seconds)  # noqa: ASYNC251 - blocks the event loop on purpose
        is_valid = replica.lease.is_valid()
        end.set()
        longest = await silence
        await until(replica.lease.is_valid, "the lease is valid again")
        replica.thread.request_stop()
        await asyncio.to_thread(replica.thread.join, 10)
        return longest, epoch, is_valid

    longest, epoch, is_valid = asyncio.run(work())
    return replica, longest, epoch, is_valid


def test_stall_longer_than_the_lease_keeps_the_lease(tmp_path: Path) -> None:
    replica, longest, epoch, is_valid = run(tmp_path, 1.5 * LEASE_SECONDS)
    assert is_valid
    assert longest < LEASE_SECONDS, "no other process may consider the lease lost"
    assert replica.lease.epoch == epoch, "the sessions are not fenced"


def test_stall_longer_than_the_limit_fences_the_replica(tmp_path: Path) -> None:
    with structlog.testing.capture_logs() as logs:
        replica, longest, epoch, is_valid = run(tmp_path, LIMIT_SECONDS + 2 * LEASE_SECONDS)
    assert not is_valid
    assert longest > LEASE_SECONDS, "other processes consider the lease lost"
    assert replica.lease.epoch == epoch + 1, "the replica must join its sessions again"
    events = [entry["event"] for entry in logs]
    assert events == ["event_loop_stalled", "lease_renewal_stopped", "event_loop_recovered"]
    assert any("test_lease_thread.py" in call for call in logs[0]["frames"])


@pytest.mark.parametrize("error", [OSError("a bug"), RuntimeError("a bug")])
def test_thread_survives_unexpected_errors(tmp_path: Path, error: Exception) -> None:
    replica = _Replica(tmp_path)
    renew, failures = replica.leases.renew, [error] * 2

    def fail_twice(name: ReplicaId) -> None:
        if failures:
            raise failures.pop()
        renew(name)

    async def work() -> None:
        await replica.lease.renew()
        replica.leases.renew = fail_twice  # type: ignore[method-assign] # an unexpected failure
        replica.thread.start()
        await until(lambda: replica.renewals > 0, "the thread renews")
        replica.thread.request_stop()
        await asyncio.to_thread(replica.thread.join, 10)

    with structlog.testing.capture_logs() as logs:
        asyncio.run(work())
    assert [entry["event"] for entry in logs] == ["lease_renewal_failed"] * 2


def test_guarantee_4_renewal_in_progress_does_not_revive_a_stopped_lease(tmp_path: Path) -> None:
    replica = _Replica(tmp_path)
    renew, is_renewing, may_renew = replica.leases.renew, threading.Event(), threading.Event()

    def renew_slowly(name: ReplicaId) -> None:
        is_renewing.set()
        assert may_renew.wait(20)
        renew(name)

    async def work() -> None:
        await replica.lease.renew()
        replica.leases.renew = renew_slowly  # type: ignore[method-assign] # the storage hangs
        replica.thread.start()
        await until(is_renewing.is_set, "the thread renews")
        await replica.lease.stop()
        assert not replica.lease.is_valid()
        may_renew.set()
        await asyncio.to_thread(replica.thread.join, 20)

    with structlog.testing.capture_logs() as logs:
        asyncio.run(work())
    assert replica.leases.list() == {replica.name: STOPPED}
    assert not replica.lease.is_valid()
    assert not logs
    with pytest.raises(LeaseStoppedError):
        replica.lease.renew_now()
