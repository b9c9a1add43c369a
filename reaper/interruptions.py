"""Notices when a reaper could not observe the state for a time.

A reaper that is paused, or whose storage does not answer, does not see whether a gateway is alive. While the storage
hangs, no gateway can adopt a session either. A storage that hangs raises no error, so only the clock shows it.

Guarantees:

1. An interruption is found if the process did not run, or waited for one answer, for longer than the limit.
2. Many answers that are slow, but each faster than the limit, are no interruption, even if a pass takes minutes.
   Therefore, a slow machine or a large storage does not keep sessions alive.
"""

from collections.abc import Callable


class Interruptions:
    """The interruptions of a reaper. Only one thread may use it.

    Args:
        limit_seconds: The time without a step of the reaper that is no interruption yet.
        monotonic: A function that returns the current time of a monotonic clock, in seconds.
    """

    def __init__(self, limit_seconds: float, monotonic: Callable[[], float]) -> None:
        self._limit_seconds = limit_seconds
        self._monotonic = monotonic
        self._last_step_seconds: float | None = None
        self._longest_seconds = 0.0

    def note_step(self, planned_seconds: float = 0.0) -> None:
        """Record that the process runs, and that the storage has answered all calls.

        Args:
            planned_seconds: The time since the last step in which no step was planned.
        """
        now_seconds = self._monotonic()
        if self._last_step_seconds is not None:
            waited_seconds = now_seconds - self._last_step_seconds - planned_seconds
            self._longest_seconds = max(self._longest_seconds, waited_seconds)
        self._last_step_seconds = now_seconds

    def take_longest(self) -> float:
        """Return the duration of the longest interruption since the last call, in seconds. 0 if there was none."""
        longest_seconds, self._longest_seconds = self._longest_seconds, 0.0
        return longest_seconds if longest_seconds > self._limit_seconds else 0.0
