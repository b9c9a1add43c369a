"""The thread that renews the lease, and its view of the event loop (gateway.sessions.lease_thread)."""

import asyncio
import threading
from pathlib import Path

import pytest
import structlog

from gateway.blocking_work.storage import Storage
from gateway.sessions.lease_thread import LeaseThread
from gateway.sessions.loop_monitor import LoopMonitor
from gateway.sessions.replica_lease import ReplicaLease
from tests.gateway.sessions.lease_clock import LeaseClock
from workspace.files.leases import FileLeases
from workspace.files.session_locations import FileSessionLocations
from workspace.identifiers import ReplicaId
from workspace.leases import STOPPED, UNRESPONSIVE_LEASES, LeaseStoppedError

LEASE_SECONDS = 9.0
SECONDS = 60.0
RENEWAL_SECONDS = 3.0
TICK_SECONDS = 1.0
LIMIT_SECONDS = UNRESPONSIVE_LEASES * LEASE_SECONDS


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

    def __init__(self, root: Path, clock: LeaseClock) -> None:
        FileSessionLocations(root).initialise()
        self.clock = clock
        self.leases = FileLeases(root)
        self.name = ReplicaId("r1")
        self.storage = Storage(None, self.leases, None)  # type: ignore[arg-type] # only leases are used
        self.lease = ReplicaLease(self.name, self.storage, LEASE_SECONDS)
        self.renewals = 0
        self.thread = LeaseThread(self.lease, LEASE_SECONDS, self._count)

    def _count(self) -> None:
        self.renewals += 1

    async def start(self) -> None:
        await self.lease.renew()
        self.thread.start()

    async def stop(self) -> None:
        self.thread.stopping.set()
        await asyncio.to_thread(self.thread.join, SECONDS)

    async def work(self, seconds: float) -> None:
        """Let time pass, while the event loop responds."""
        for _ in range(round(seconds / TICK_SECONDS)):
            await asyncio.to_thread(self.clock.advance, TICK_SECONDS)

    def stall(self, seconds: float) -> float:
        """Let time pass, while the event loop is blocked. Return the longest time without a renewal."""
        longest, since, mark = 0.0, self.clock.seconds, self.leases.list()
        for _ in range(round(seconds / TICK_SECONDS)):
            self.clock.advance(TICK_SECONDS)
            now_mark = self.leases.list()
            if now_mark != mark:
                mark, since = now_mark, self.clock.seconds
            longest = max(longest, self.clock.seconds - since)
        return longest


@pytest.fixture
def replica(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Replica:
    return _Replica(tmp_path, LeaseClock(monkeypatch))


async def test_stall_longer_than_the_lease_keeps_the_lease(replica: _Replica) -> None:
    await replica.start()
    await replica.work(2 * RENEWAL_SECONDS)
    epoch, longest = replica.lease.epoch, replica.stall(LIMIT_SECONDS - TICK_SECONDS)
    assert replica.lease.is_valid()
    assert longest < LEASE_SECONDS, "no other process may consider the lease lost"
    assert replica.lease.epoch == epoch, "the sessions are not fenced"
    await replica.stop()


async def test_stall_longer_than_the_limit_fences_the_replica(replica: _Replica) -> None:
    with structlog.testing.capture_logs() as logs:
        await replica.start()
        await replica.work(2 * RENEWAL_SECONDS)
        epoch, longest = replica.lease.epoch, replica.stall(LIMIT_SECONDS + 2 * LEASE_SECONDS)
        assert not replica.lease.is_valid()
        assert longest > LEASE_SECONDS, "other processes consider the lease lost"
        await replica.work(RENEWAL_SECONDS)
        assert replica.lease.is_valid(), "the lease is valid again"
        await replica.stop()
    assert replica.lease.epoch == epoch + 1, "the replica must join its sessions again"
    events = [entry["event"] for entry in logs]
    assert events == ["event_loop_stalled", "lease_renewal_stopped", "event_loop_recovered"]
    assert any("test_lease_thread.py" in call for call in logs[0]["frames"])


@pytest.mark.parametrize("error", [OSError("a bug"), RuntimeError("a bug")])
async def test_thread_survives_unexpected_errors(replica: _Replica, error: Exception) -> None:
    renew, failures = replica.leases.renew, [error] * 2

    def fail_twice(name: ReplicaId) -> None:
        if failures:
            raise failures.pop()
        renew(name)

    with structlog.testing.capture_logs() as logs:
        await replica.start()
        replica.leases.renew = fail_twice  # type: ignore[method-assign] # an unexpected failure
        await replica.work(3 * RENEWAL_SECONDS)
        assert replica.renewals == 1, "the thread renews"
        await replica.stop()
    assert [entry["event"] for entry in logs] == ["lease_renewal_failed"] * 2


async def test_guarantee_4_renewal_in_progress_does_not_revive_a_stopped_lease(replica: _Replica) -> None:
    renew, is_renewing, may_renew = replica.leases.renew, threading.Event(), threading.Event()

    def renew_slowly(name: ReplicaId) -> None:
        is_renewing.set()
        assert may_renew.wait(SECONDS)
        renew(name)

    with structlog.testing.capture_logs() as logs:
        await replica.start()
        replica.leases.renew = renew_slowly  # type: ignore[method-assign] # the storage hangs
        await replica.work(RENEWAL_SECONDS - TICK_SECONDS)
        replica.clock.wake()
        assert await asyncio.to_thread(is_renewing.wait, SECONDS), "the thread renews"
        await replica.lease.stop()
        assert not replica.lease.is_valid()
        may_renew.set()
        await asyncio.to_thread(replica.thread.join, SECONDS)
    assert replica.leases.list() == {replica.name: STOPPED}
    assert not replica.lease.is_valid()
    assert not logs
    with pytest.raises(LeaseStoppedError):
        replica.lease.renew_now()
