"""The reaper as an operator: passes when something changed or falls due, and threads that do what they decide.

Why it exists: a pass must come soon after something happened, but not for each of a thousand changes; what is decided
must be done by as many threads as are allowed; and a reaper that is stopped must hand over at once to the next one.

Guarantees:

1. A pass begins when it is told to look, when :meth:`reaper.reaper.Reaper.due_seconds` says, and after the period at
   the latest; but passes take a part of the time only, however many sessions there are (``LOOKING_SHARE``), unless one
   takes so long that the next would come too late.
2. An unexpected error ends a pass or a piece of work, not the operator.
3. Once stopped, it begins nothing more, leaves off what can be left off, and waits ``HAND_OVER_SECONDS`` at most for
   the rest. It says whether the rest is over: only then may another be told to go on at once.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from reaper.holds import ROOT, STORAGE
from reaper.reaper import Reaper
from reaper.work_queue import WorkQueue
from workspace.root_identities import HomeMovedError

LOOKING_SHARE = 0.2
HAND_OVER_SECONDS = 5.0
STUCK_SECONDS = 60.0
"""A pass that takes longer makes the operator unfit to lead."""

_SHORTEST_GAP_SECONDS = 0.1
_LONGEST_GAP_SECONDS = 10.0  # a pass may have been held up by something that has passed
_ENDS_PER_REMOVAL = 4
_IDLE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast it works.

    Attributes:
        period_seconds: The longest time between two passes.
        removals: How many locations it purges at once.
    """

    period_seconds: float
    removals: int


class Operator:
    """See the module's guarantees.

    Args:
        reaper: Makes the passes.
        pace: How fast it works.
        monotonic: A clock, in seconds.
        log: Where events go.
        after_pass: Called with the reaper after each pass, by the thread that made it.
    """

    def __init__(
        self,
        reaper: Reaper,
        pace: Pace,
        *,
        monotonic: Callable[[], float],
        log: structlog.typing.FilteringBoundLogger,
        after_pass: Callable[[Reaper], None] = lambda reaper: None,
    ) -> None:
        self.reaper = reaper
        self._pace = pace
        self._monotonic = monotonic
        self._log = log
        self._after_pass = after_pass
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._begun_seconds: float | None = None
        self._has_looked = False
        self._unfit_since_seconds: float | None = None

    def request_pass(self) -> None:
        """Something may have changed; may be called by any thread, at any time."""
        self._wake.set()

    def stop(self) -> None:
        """Begins nothing more; may be called by any thread."""
        self.reaper.stop()
        self._stop.set()
        self._wake.set()

    def run(self) -> bool:
        """Works until it is stopped.

        Returns: Whether nothing of it goes on in the background.
        Raises: HomeMovedError; what the reaper was made with is not the truth any more.
        """
        for queue, count in ((self.reaper.ends, _ENDS_PER_REMOVAL), (self.reaper.purges, 1)):
            for number in range(self._pace.removals * count):
                threading.Thread(target=self._work, args=[queue], name=f"reaper-{number}", daemon=True).start()
        try:
            while not self._stop.is_set():
                self._pass()
        finally:
            self.stop()
        return self._is_idle()

    def is_stuck(self) -> bool:
        """Whether a pass has begun long ago and does not end."""
        begun_seconds = self._begun_seconds
        return begun_seconds is not None and self._monotonic() - begun_seconds > STUCK_SECONDS

    def is_fit(self) -> bool:
        """Whether another reaper would hardly do better: this one can read its storage, or could not long ago."""
        if self.is_stuck():
            return False
        if self.reaper.holds.reasons.keys().isdisjoint({STORAGE, ROOT}):
            self._unfit_since_seconds = None
            return True
        if self._unfit_since_seconds is None:
            self._unfit_since_seconds = self._monotonic()
        return self._monotonic() - self._unfit_since_seconds < STUCK_SECONDS

    def has_completed_pass(self) -> bool:
        """Whether it has looked at everything since it was started."""
        return self._has_looked

    def _pass(self) -> None:
        self._wake.clear()
        begun_seconds = self._begun_seconds = self._monotonic()
        due_seconds = begun_seconds
        try:
            summary = self.reaper.make_pass()
            if summary.held_back is None:
                self._has_looked = True
                due_seconds = self.reaper.due_seconds()
            self._after_pass(self.reaper)
        except HomeMovedError:
            raise
        except Exception:  # noqa: BLE001 - a top loop: an unexpected error must not end the clean-up
            self._log.exception("reaper_pass_failed")
        ended_seconds = self._monotonic()
        self._begun_seconds = None
        gap_seconds = (ended_seconds - begun_seconds) * (1 / LOOKING_SHARE - 1)
        gap_seconds = min(max(gap_seconds, _SHORTEST_GAP_SECONDS), _LONGEST_GAP_SECONDS)
        if due_seconds <= ended_seconds:
            due_seconds = ended_seconds + self._pace.period_seconds
        if not self._stop.wait(gap_seconds):
            self._wake.wait(min(due_seconds - ended_seconds, self._pace.period_seconds) - gap_seconds)

    def _work(self, queue: WorkQueue) -> None:
        while not self._stop.is_set():
            queue.run_next(_IDLE_SECONDS)

    def _is_idle(self) -> bool:
        deadline_seconds = self._monotonic() + HAND_OVER_SECONDS
        queues = (self.reaper.ends, self.reaper.purges)
        idle = [queue.wait_until_idle(max(deadline_seconds - self._monotonic(), 0.0)) for queue in queues]
        return all(idle)
