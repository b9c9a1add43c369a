"""The thread that renews the lease of this replica.

If the event loop renewed the lease, a replica whose event loop is busy for longer than the lease would count as dead,
and the reaper would end its sessions. The thread renews the lease independently of the event loop. However, a replica
whose event loop never responds again serves nobody, so the other replicas must be able to adopt its sessions.

Guarantees:

1. While the event loop stalls for at most ``UNRESPONSIVE_LEASES`` lease durations, the thread renews the lease.
2. If a stall lasts longer, the thread stops renewing. The lease lapses at most one lease duration later, and the
   replica is fenced, like a replica that was paused.
3. When the event loop responds again, the thread renews the lease. If the lease had lapsed, this starts a new lease
   epoch, so the replica must join its sessions again before it acts on them.
4. When the lease is stopped, the thread ends. A renewal that was in progress does not revive the lease.

Source: [architecture "Session records, leases and the reaper"].
"""

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress

import structlog

from gateway.sessions.loop_monitor import LoopMonitor
from gateway.sessions.replica_lease import ReplicaLease
from workspace.background_thread import BackgroundThread
from workspace.leases import UNRESPONSIVE_LEASES
from workspace.record_store import RecordsUnavailableError

_RENEWALS_PER_LEASE = 3
_TICKS_PER_RENEWAL = 3
_STACK_FRAMES = 20

log = structlog.get_logger(__name__)


class LeaseThread(BackgroundThread):
    """A thread that renews the lease and probes the event loop.

    Args:
        lease: The lease of this replica.
        duration_seconds: See ``GatewayConfig.lease_duration_seconds``.
        on_renewed: A function that the event loop calls after each renewal.

    Attributes:
        loop_monitor: The delay of the event loop.
    """

    def __init__(self, lease: ReplicaLease, duration_seconds: float, on_renewed: Callable[[], object]) -> None:
        super().__init__("lease", self._run)
        self._lease = lease
        self._on_renewed = on_renewed
        self._renewal_seconds = duration_seconds / _RENEWALS_PER_LEASE
        self._tick_seconds = self._renewal_seconds / _TICKS_PER_RENEWAL
        self._limit_seconds = UNRESPONSIVE_LEASES * duration_seconds
        self.loop_monitor = LoopMonitor(self._tick_seconds)
        self._reported_seconds = 0.0

    def start(self) -> None:
        """Start the thread. Must be called on the event loop, after the first renewal of the lease."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread_id = threading.get_ident()
        super().start()

    def _run(self) -> None:
        self._due_seconds = time.monotonic() + self._renewal_seconds
        while not self.stopping.wait(self._tick_seconds):
            try:
                self._step(time.monotonic())
            except RecordsUnavailableError as error:
                if self._lease.is_stopped:
                    return
                log.error("lease_renewal_failed", reason=str(error))
            except Exception as error:  # if the thread ended, the lease would never be renewed again
                with suppress(Exception):
                    log.error("lease_renewal_failed", reason=str(error), exc_info=True)

    def _step(self, now_seconds: float) -> None:
        if self.loop_monitor.tick(now_seconds):
            self._report_recovery()
            self._call_on_loop(self._answer)
        stalled_seconds = self.loop_monitor.stalled_seconds(now_seconds)
        if now_seconds >= self._due_seconds and stalled_seconds < self._limit_seconds:
            self._due_seconds = now_seconds + self._renewal_seconds
            self._lease.renew_now()
            self._call_on_loop(self._on_renewed)
        if self.loop_monitor.is_conclusive:
            self._report_stall(stalled_seconds)

    def _answer(self) -> None:
        self.loop_monitor.answer(time.monotonic())

    def _call_on_loop(self, callback: Callable[[], object]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:  # the event loop has been closed without a stop
            self.stopping.set()

    def _report_stall(self, stalled_seconds: float) -> None:
        if stalled_seconds < self._renewal_seconds:
            return
        seconds = round(stalled_seconds, 3)
        if not self._reported_seconds:
            log.warning("event_loop_stalled", seconds=seconds, frames=self._frames())
        if self._reported_seconds < self._limit_seconds <= stalled_seconds:
            log.error("lease_renewal_stopped", seconds=seconds, frames=self._frames())
        self._reported_seconds = stalled_seconds

    def _report_recovery(self) -> None:
        if self._reported_seconds:
            log.warning("event_loop_recovered", seconds=round(self.loop_monitor.last_lag_seconds, 3))
        self._reported_seconds = 0.0

    def _frames(self) -> Sequence[str]:
        """Return the calls that the event loop currently executes, from the outermost to the innermost call."""
        frame = sys._current_frames().get(self._loop_thread_id)
        calls = [] if frame is None else traceback.extract_stack(frame)[-_STACK_FRAMES:]
        return [f"{call.name} ({call.filename}:{call.lineno})" for call in calls]
