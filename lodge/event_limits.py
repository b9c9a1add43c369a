"""Limits how often the same event is logged because of the same principal, so that no client can fill the log.

Guarantees:

1. In each period of ``_PERIOD_SECONDS``, an event is logged at most ``_MAX_EVENTS`` times for a principal. The first
   event of a later period is preceded by ``log_events_omitted``, which says how many were left out.
2. At most ``_MAX_ORIGINS`` pairs of an event and a principal are distinguished in a period. All others share the limit
   of their event.

Events without a principal are not limited: clients do not cause them.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import structlog
from structlog.typing import EventDict

_PERIOD_SECONDS: Final = 60.0
_MAX_EVENTS: Final = 100
_MAX_ORIGINS: Final = 1000

Origin = tuple[str, str]
"""The name of an event and its principal."""


class EventLimits:
    """A structlog processor that drops events above the limit. It can be called in any thread.

    Args:
        log_omitted: A function that logs how many events of an origin were left out.
        monotonic: A function that returns the current time of a monotonic clock, in seconds.
    """

    def __init__(
        self, log_omitted: Callable[[Origin, int], None], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._log_omitted = log_omitted
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._counts: Counter[Origin] = Counter()
        self._ends_seconds = float("-inf")

    def __call__(self, _logger: object, _method: str, event: EventDict) -> EventDict:
        if not self.is_allowed(str(event["event"]), event.get("principal")):
            raise structlog.DropEvent
        return event

    def is_allowed(self, name: str, principal: object) -> bool:
        """Count an event, and return whether it is within the limit.

        Args:
            name: The name of the event.
            principal: The principal that caused the event. None or empty if no principal did.
        """
        if not principal:
            return True
        with self._lock:
            omitted = self._begin_period() if self._monotonic() >= self._ends_seconds else ()
            is_allowed = self._count((name, str(principal))) <= _MAX_EVENTS
        for origin, count in omitted:
            self._log_omitted(origin, count)
        return is_allowed

    def _begin_period(self) -> Sequence[tuple[Origin, int]]:
        counts, self._counts = self._counts, Counter()
        self._ends_seconds = self._monotonic() + _PERIOD_SECONDS
        return [(origin, count - _MAX_EVENTS) for origin, count in counts.items() if count > _MAX_EVENTS]

    def _count(self, origin: Origin) -> int:
        if origin not in self._counts and len(self._counts) >= _MAX_ORIGINS:
            origin = (origin[0], "")
        self._counts[origin] += 1
        return self._counts[origin]
