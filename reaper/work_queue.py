"""A queue of work under keys, with retries, for several worker threads.

A pass of the reaper decides quickly, but its work may be slow, and may fail for one session again and again. Slow or
failing work must not delay other work.

Guarantees:

1. Only one piece of work per key runs at a time. The queue ignores work that is offered under a key that runs: the next
   pass offers again what is still to do. Work may return a rest, which runs under the same key after all waiting work.
2. Work that failed is not accepted again before a delay. The delay doubles with each failure in a row, up to a limit.
3. An unexpected error fails only the work that raised it.
4. When the queue may not run, no work begins, and the waiting work is dropped.

Not guaranteed: that offered work is done. Offer it again for as long as it is needed.

The queue is safe to share between threads.
"""

import threading
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import NewType

import structlog

WorkKey = NewType("WorkKey", str)
Rest = Callable[[], bool]
"""Returns whether it succeeded; it logs its own failures."""

Work = Callable[[], bool | Rest]
"""Returns whether it succeeded, or the rest of the work; it logs its own failures."""

_FIRST_DELAY_SECONDS = 0.5
_LARGEST_EXPONENT = 32


@dataclass(frozen=True, slots=True)
class Failure:
    """The failures in a row under one key.

    Attributes:
        attempts: The number of failures.
        retry_seconds: The monotonic time of the next attempt.
    """

    attempts: int
    retry_seconds: float


class WorkQueue:
    """Work that waits, runs, or has failed, by key.

    Args:
        monotonic: The clock, in seconds.
        log: The logger for unexpected errors.
        longest_delay_seconds: The limit of the delay between two attempts.
        may_run: Returns whether work may begin now.
    """

    def __init__(
        self,
        *,
        monotonic: Callable[[], float],
        log: structlog.typing.FilteringBoundLogger,
        longest_delay_seconds: float = 60.0,
        may_run: Callable[[], bool] = lambda: True,
    ) -> None:
        self._monotonic = monotonic
        self._log = log
        self._longest_delay_seconds = longest_delay_seconds
        self._may_run = may_run
        self._changed = threading.Condition()
        self._waiting: dict[WorkKey, Work] = {}
        self._rests: dict[WorkKey, Rest] = {}
        self._running: set[WorkKey] = set()
        self._failures: dict[WorkKey, Failure] = {}
        self._done: dict[WorkKey, float] = {}

    def offer(self, key: WorkKey, work: Work) -> None:
        """Add work, or replace the work that waits under the same key."""
        with self._changed:
            if self._is_ready(key):
                self._waiting[key] = work
                self._changed.notify()

    def retain(self, keys: Set[WorkKey]) -> None:
        """Drop the work that waits under other keys."""
        with self._changed:
            self._waiting = {key: work for key, work in self._waiting.items() if key in keys}

    def is_ready(self, key: WorkKey) -> bool:
        """Return whether the queue accepts work under this key now."""
        with self._changed:
            return self._is_ready(key)

    def run_next(self, wait_seconds: float) -> bool:
        """Run one piece of work in this thread.

        Args:
            wait_seconds: How long to wait for work.

        Returns:
            False if there was no work, or it may not run.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._rests, wait_seconds)
            if not self._may_run():
                self._waiting.clear()
                self._rests.clear()
            queue: dict[WorkKey, Work] | dict[WorkKey, Rest] = self._waiting or self._rests
            if not queue:
                return False
            key = next(iter(queue))
            work = queue.pop(key)
            self._running.add(key)
        outcome: bool | Rest = False
        try:
            outcome = work()
        except Exception:  # noqa: BLE001 - a top loop: the other work must continue
            self._log.exception("reaper_work_failed", key=key)
        finally:
            self._finish(key, outcome)
        return True

    def wait_until_idle(self, wait_seconds: float) -> bool:
        """Wait until no work runs, and return False if some still runs after the time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, wait_seconds)

    def failures(self) -> Mapping[WorkKey, Failure]:
        """Return the failures by key."""
        with self._changed:
            return dict(self._failures)

    def retry_seconds(self) -> float:
        """Return the monotonic time of the next retry; infinite if there is none."""
        now = self._monotonic()
        with self._changed:
            return min(
                (f.retry_seconds for f in self._failures.values() if f.retry_seconds > now), default=float("inf")
            )

    def done_since(self, seconds: float) -> Set[WorkKey]:
        """Return the keys whose work succeeded after a monotonic time, and forget the earlier ones."""
        with self._changed:
            self._done = {key: done for key, done in self._done.items() if done >= seconds}
            return frozenset(self._done)

    def counts(self) -> tuple[int, int]:
        """Return the numbers of waiting and of running pieces of work."""
        with self._changed:
            return len(self._waiting) + len(self._rests), len(self._running)

    def _is_ready(self, key: WorkKey) -> bool:
        if key in self._running or key in self._rests:
            return False
        failure = self._failures.get(key)
        return failure is None or failure.retry_seconds <= self._monotonic()

    def _finish(self, key: WorkKey, outcome: bool | Rest) -> None:
        now = self._monotonic()
        with self._changed:
            self._running.discard(key)
            if callable(outcome):
                self._rests[key] = outcome
            elif outcome:
                self._failures.pop(key, None)
                self._done[key] = now
            else:
                before = self._failures.get(key)
                attempts = 1 if before is None else before.attempts + 1
                exponent = min(attempts - 1, _LARGEST_EXPONENT)
                delay_seconds = min(_FIRST_DELAY_SECONDS * 2**exponent, self._longest_delay_seconds)
                self._failures[key] = Failure(attempts, now + delay_seconds)
            oldest_seconds = now - self._longest_delay_seconds
            self._failures = {k: f for k, f in self._failures.items() if f.retry_seconds > oldest_seconds}
            self._changed.notify_all()
