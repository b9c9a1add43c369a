"""The operator, which runs the reaper's passes in a loop and its work in threads.

Guarantees:

1. A pass begins on request, at the time of :meth:`reaper.reaper.Reaper.due_seconds`, or when the period has passed,
   whichever is first. Even a thousand simultaneous requests cause only a few passes. Passes take at most
   ``PASS_SHARE`` of the time for any number of sessions, unless a pass is so slow that the next pass would be late.
2. An unexpected error ends a pass or a piece of work, but not the operator.
3. After the operator is stopped, no new work begins. Work that can be interrupted is interrupted, and the operator
   waits at most ``HAND_OVER_SECONDS`` for the remaining work. It returns whether all work has ended. Only in this case
   may another reaper start immediately.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import structlog

from reaper.holds import ROOT, STORAGE
from reaper.reaper import HOME_ERRORS, Reaper
from reaper.work_queue import WorkQueue
from workspace.background_thread import BackgroundThread

PASS_SHARE = 0.2
HAND_OVER_SECONDS = 5.0
STUCK_SECONDS = 60.0
"""The duration of a pass after which a reaper is no longer fit to lead."""

_SHORTEST_GAP_SECONDS = 0.1
_LONGEST_GAP_SECONDS = 10.0  # a single pass may be slow for a transient reason
_ENDS_PER_REMOVAL = 4
_IDLE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of an operator.

    Attributes:
        period_seconds: The maximum time between two passes.
        removals: The number of trash entries that are purged at the same time.
    """

    period_seconds: float
    removals: int


class Operator:
    """A reaper with its loop of passes and its worker threads.

    For the guarantees, see the module docstring.

    Args:
        reaper: The reaper that makes the passes.
        pace: The pace of passes and work.
        monotonic: A function that returns the current time of a monotonic clock, in seconds.
        log: The logger for unexpected errors.
    """

    def __init__(
        self, reaper: Reaper, pace: Pace, *, monotonic: Callable[[], float], log: structlog.typing.FilteringBoundLogger
    ) -> None:
        self.reaper = reaper
        self._pace = pace
        self._monotonic = monotonic
        self._log = log
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._begun_seconds: float | None = None
        self._pause_seconds = 0.0
        self._has_completed_pass = False
        self._unfit_since_seconds: float | None = None

    def request_pass(self) -> None:
        """Request a pass because the state may have changed.

        This method can be called from any thread at any time.
        """
        self._wake.set()

    def stop(self) -> None:
        """Stop the operator, so that no new work begins.

        This method can be called from any thread.
        """
        self.reaper.stop()
        self._stop.set()
        self._wake.set()

    def run(self) -> bool:
        """Run until the operator is stopped.

        Returns:
            Whether all work of the operator has ended.

        Raises:
            HomeMovedError: If the home of the workspace has moved to another directory, so that a new reaper is
                needed.
            HomeReplacedError: The same, if another home is at its path.
        """
        for queue, count in ((self.reaper.ends, _ENDS_PER_REMOVAL), (self.reaper.purges, 1)):
            for number in range(self._pace.removals * count):
                BackgroundThread(f"reaper-{number}", partial(self._work, queue)).start()
        try:
            while not self._stop.is_set():
                self._pass()
        finally:
            self.stop()
        return self._is_idle()

    def is_stuck(self) -> bool:
        """Return whether a pass has been running for more than ``STUCK_SECONDS``."""
        begun_seconds = self._begun_seconds
        return begun_seconds is not None and self._monotonic() - begun_seconds > STUCK_SECONDS

    def is_fit(self) -> bool:
        """Return whether this reaper is able to read its storage.

        A reaper that cannot read its storage still counts as fit for ``STUCK_SECONDS``.
        """
        if self.is_stuck():
            return False
        if self.reaper.holds.reasons.keys().isdisjoint({STORAGE, ROOT}):
            self._unfit_since_seconds = None
            return True
        if self._unfit_since_seconds is None:
            self._unfit_since_seconds = self._monotonic()
        return self._monotonic() - self._unfit_since_seconds < STUCK_SECONDS

    def has_completed_pass(self) -> bool:
        """Return whether at least one pass has read the complete state."""
        return self._has_completed_pass

    def _pass(self) -> None:
        self._wake.clear()
        begun_seconds = self._begun_seconds = self._monotonic()
        due_seconds = begun_seconds
        try:
            if self.reaper.make_pass(self._pause_seconds):
                self._has_completed_pass = True
                due_seconds = self.reaper.due_seconds()
        except HOME_ERRORS:
            raise
        except Exception:  # noqa: BLE001 - a top loop, in which an unexpected error must not end the clean-up
            self._log.exception("reaper_pass_failed")
        ended_seconds = self._monotonic()
        self._begun_seconds = None
        gap_seconds = (ended_seconds - begun_seconds) * (1 / PASS_SHARE - 1)
        gap_seconds = min(max(gap_seconds, _SHORTEST_GAP_SECONDS), _LONGEST_GAP_SECONDS)
        if due_seconds <= ended_seconds:
            due_seconds = ended_seconds + self._pace.period_seconds
        wait_seconds = min(due_seconds - ended_seconds, self._pace.period_seconds)
        self._pause_seconds = max(gap_seconds, wait_seconds)
        if not self._stop.wait(gap_seconds):
            self._wake.wait(wait_seconds - gap_seconds)

    def _work(self, queue: WorkQueue) -> None:
        while not self._stop.is_set():
            queue.run_next(_IDLE_SECONDS)

    def _is_idle(self) -> bool:
        deadline_seconds = self._monotonic() + HAND_OVER_SECONDS
        queues = (self.reaper.ends, self.reaper.purges)
        idle = [queue.wait_until_idle(max(deadline_seconds - self._monotonic(), 0.0)) for queue in queues]
        return all(idle)
