"""Rates of requests, new sessions and failed logins, by principal or network address.

Events are counted in fixed windows: the first event of a caller begins a window, and the count begins again when it has
ended. Libraries count in the same way, but read the wall clock, or grow without a limit.

Guarantee: the windows of at most ``MAX_CALLERS`` callers are kept. If there are more, the least recently used is
discarded. So callers that an attacker has made up do not occupy memory.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

MAX_CALLERS = 10_000


@dataclass(slots=True)
class _Window:
    """The events of a caller until a time of the timer."""

    ends_at: float
    events: int = 0


class Rate:
    """A rate limit with a window for each caller.

    Args:
        events: The number of events that a window permits.
        seconds: The length of a window.
        timer: A monotonic clock.
    """

    def __init__(self, events: int, seconds: float, timer: Callable[[], float] = monotonic) -> None:
        self._events = events
        self._seconds = seconds
        self._timer = timer
        self._windows: OrderedDict[str, _Window] = OrderedDict()

    def hit(self, caller: str) -> bool:
        """Count an event. Return whether it is within the limit."""
        window = self._current(caller)
        if window is None:
            window = self._windows[caller] = _Window(self._timer() + self._seconds)
            if len(self._windows) > MAX_CALLERS:
                self._windows.popitem(last=False)
        self._windows.move_to_end(caller)
        window.events += 1
        return window.events <= self._events

    def has_room(self, caller: str) -> bool:
        """Return whether a further event would be within the limit."""
        window = self._current(caller)
        return window is None or window.events < self._events

    def seconds_left(self, caller: str) -> float:
        """Return how long the current window of a caller lasts."""
        window = self._current(caller)
        return 0.0 if window is None else max(0.0, window.ends_at - self._timer())

    def _current(self, caller: str) -> _Window | None:
        window = self._windows.get(caller)
        return None if window is None or window.ends_at <= self._timer() else window


def per_second(events: int) -> Rate:
    """Return a rate limit for one second."""
    return Rate(events, 1.0)


def per_minute(events: int) -> Rate:
    """Return a rate limit for one minute."""
    return Rate(events, 60.0)
