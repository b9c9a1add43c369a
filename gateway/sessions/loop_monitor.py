"""Measures how long the event loop of this process takes to respond.

A thread sends a *probe* to the event loop at regular intervals: a callback that the loop runs as soon as it can. The
loop *stalls* while a probe has no answer.

This module only measures. It has no clock, no thread and no event loop. ``lease_thread.py`` sends the probes.
"""


class LoopMonitor:
    """The delay of an event loop, as observed by a thread.

    The thread calls :meth:`tick` at regular intervals, and the event loop calls :meth:`answer`. No lock is needed,
    because each attribute has a single writer at a time.

    Args:
        interval_seconds: The time between two calls of :meth:`tick`.

    Attributes:
        last_lag_seconds: How long the event loop took to answer the last probe that it answered.
    """

    def __init__(self, interval_seconds: float) -> None:
        self._longest_step_seconds = 2 * interval_seconds
        self._probed_seconds: float | None = None
        self._last_tick_seconds: float | None = None
        self._was_late = False
        self.last_lag_seconds = 0.0

    @property
    def is_conclusive(self) -> bool:
        """Whether a probe without an answer means that the event loop stalls.

        False if the last tick was late. The whole process may have been paused, and the event loop did not have time
        to answer since then.
        """
        return not self._was_late

    def lag_seconds(self, now_seconds: float) -> float:
        """Return how long the event loop took to answer the last probe, or how long it has not answered."""
        return self.stalled_seconds(now_seconds) or self.last_lag_seconds

    def stalled_seconds(self, now_seconds: float) -> float:
        """Return how long the current probe has had no answer. 0 if the event loop has answered."""
        probed_seconds = self._probed_seconds
        return 0.0 if probed_seconds is None else now_seconds - probed_seconds

    def tick(self, now_seconds: float) -> bool:
        """Record that time has passed.

        Returns:
            Whether the thread must send a probe to the event loop. False if the last probe has no answer yet.
        """
        last_seconds, self._last_tick_seconds = self._last_tick_seconds, now_seconds
        self._was_late = last_seconds is not None and now_seconds - last_seconds > self._longest_step_seconds
        if self._probed_seconds is not None:
            return False
        self._probed_seconds = now_seconds
        return True

    def answer(self, now_seconds: float) -> None:
        """Record that the event loop has run the probe."""
        if self._probed_seconds is not None:
            self.last_lag_seconds = now_seconds - self._probed_seconds
            self._probed_seconds = None
