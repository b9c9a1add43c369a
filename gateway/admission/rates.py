"""Rates of requests, new sessions and failed logins, by principal or network address.

The library ``limits`` counts in fixed windows. Its own storage in memory reads the wall clock, starts a thread for its
clean-up and grows without a limit. :class:`WindowCounters` replaces it.
"""

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

from limits import RateLimitItem, RateLimitItemPerMinute, RateLimitItemPerSecond
from limits.storage import Storage
from limits.strategies import FixedWindowRateLimiter

_MAX_COUNTERS = 10_000


class _Counter:
    """The count of one window."""

    __slots__ = ("count", "ends_at")

    def __init__(self, ends_at: float) -> None:
        self.count = 0
        self.ends_at = ends_at


class WindowCounters(Storage):
    """Counters of fixed windows, in memory and bounded.

    If there are too many counters, the least recently used counter is discarded.
    """

    STORAGE_SCHEME = None

    def __init__(self, timer: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._timer = timer
        self._counters: OrderedDict[str, _Counter] = OrderedDict()

    @property
    def base_exceptions(self) -> type[Exception]:
        """The exceptions of the storage. This storage has none of its own."""
        return ValueError

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Add to a counter, and return the new count."""
        counters, now = self._counters, self._timer()
        counter = counters.get(key)
        if counter is None or counter.ends_at <= now:
            counter = counters[key] = _Counter(now + expiry)
            if len(counters) > _MAX_COUNTERS:
                counters.popitem(last=False)
        counters.move_to_end(key)
        counter.count += amount
        return counter.count

    def get(self, key: str) -> int:
        """Return the current count of a key. It is 0 if the window has ended."""
        counter = self._counters.get(key)
        return 0 if counter is None or counter.ends_at <= self._timer() else counter.count

    def get_expiry(self, key: str) -> float:
        """Return the time of the timer at which the window of a key ends."""
        counter = self._counters.get(key)
        return self._timer() if counter is None else counter.ends_at

    def check(self) -> bool:
        """Return whether the storage can be used."""
        return True

    def reset(self) -> int | None:
        """Discard all counters."""
        count = len(self._counters)
        self._counters.clear()
        return count

    def clear(self, key: str) -> None:
        """Discard a counter."""
        self._counters.pop(key, None)


class _CallerKey:
    """Uses the caller as the key of its counter. Each rate has counters of its own, so the limit is not in the key."""

    __slots__ = ()

    def key_for(self, *identifiers: bytes | str | float) -> str:
        return str(identifiers[0])


class _PerSecond(_CallerKey, RateLimitItemPerSecond):
    pass


class _PerMinute(_CallerKey, RateLimitItemPerMinute):
    pass


class Rate:
    """A rate limit with a counter for each caller.

    Args:
        limit: The limit.
        timer: A monotonic clock.
    """

    def __init__(self, limit: RateLimitItem, timer: Callable[[], float] = monotonic) -> None:
        self._limit = limit
        self._timer = timer
        self._counters = WindowCounters(timer)
        self._strategy = FixedWindowRateLimiter(self._counters)

    def hit(self, caller: str) -> bool:
        """Count an event. Return whether it is within the limit."""
        return self._strategy.hit(self._limit, caller)

    def has_room(self, caller: str) -> bool:
        """Return whether a further event would be within the limit."""
        return self._strategy.test(self._limit, caller)

    def seconds_left(self, caller: str) -> float:
        """Return how long the current window of a caller lasts."""
        return max(0.0, self._counters.get_expiry(self._limit.key_for(caller)) - self._timer())


def per_second(count: int) -> Rate:
    """Return a rate limit for one second."""
    return Rate(_PerSecond(count))


def per_minute(count: int) -> Rate:
    """Return a rate limit for one minute."""
    return Rate(_PerMinute(count))
