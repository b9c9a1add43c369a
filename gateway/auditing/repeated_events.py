"""Writes few audit events about many similar events, so that clients cannot fill the disk.

Guarantee: A period has at most ``2 * _MAX_ORIGINS + 1`` events, regardless of how much clients send.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Generic, TypeVar

_PERIOD_SECONDS = 60.0
_MAX_ORIGINS = 50

_Event = TypeVar("_Event")
Origin = tuple[str, str]
"""Who caused an event and why. Events of the same origin are counted together."""


class RepeatedEvents(Generic[_Event]):
    """Writes the first event of each origin in a period, and counts all others.

    The counts are written at the end of the period.

    Args:
        write: A function that writes one or more events. Its arguments are the last event and the number of events.
        others: The event for all origins above the maximum number of origins.
    """

    def __init__(self, write: Callable[[_Event, int], None], others: _Event) -> None:
        self._write = write
        self._others = others
        self._other_count = 0
        self._counts: dict[Origin, tuple[_Event, int]] = {}
        self._ends_seconds = float("-inf")

    def add(self, origin: Origin, event: _Event) -> None:
        """Write an event, or count it if its origin has already caused an event in this period."""
        now_seconds = time.monotonic()
        if now_seconds >= self._ends_seconds:
            self.flush()
            self._ends_seconds = now_seconds + _PERIOD_SECONDS
            asyncio.get_running_loop().call_later(_PERIOD_SECONDS, self.flush)
        known = self._counts.get(origin)
        if known is not None:
            self._counts[origin] = (event, known[1] + 1)
        elif len(self._counts) < _MAX_ORIGINS:
            self._counts[origin] = (event, 0)
            self._write(event, 1)
        else:
            self._other_count += 1

    def flush(self) -> None:
        """Write the events that were only counted, and begin a new period."""
        counts, self._counts = self._counts, {}
        others, self._other_count = self._other_count, 0
        for event, count in (*counts.values(), (self._others, others)):
            if count:
                self._write(event, count)
