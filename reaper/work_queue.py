"""A queue of work for several worker threads, with keys and retries.

A pass of the reaper decides quickly. However, the work may be slow and may fail repeatedly for the same session. Work
that is slow or fails must not delay other work.

Guarantees:

1. At most one piece of work runs for each key at the same time. If work is offered while other work with the same key
   is running, the offer is ignored. The next pass offers the remaining work again. Work can return another function as
   its remaining part. This part runs with the same key after all waiting work.
2. After work has failed, new work with the same key is accepted only after a delay. The delay doubles with each
   successive failure, up to a limit.
3. An unexpected error only affects the work that raised it.
4. While the queue may not run, no work begins and the waiting work is dropped.

Not guaranteed: Offered work may not be done. Offer it again as long as it is needed.

The queue can be used by several threads.
"""

import threading
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import NewType

import structlog

WorkKey = NewType("WorkKey", str)
Rest = Callable[[], bool]
"""The remaining part of some work. It returns whether it succeeded and logs its own errors."""

Work = Callable[[], bool | Rest]
"""A piece of work. It returns whether it succeeded, or its remaining part, and logs its own errors."""

_FIRST_DELAY_SECONDS = 0.5
_LARGEST_EXPONENT = 32


@dataclass(frozen=True, slots=True)
class Failure:
    """The successive failures of the work with one key.

    Attributes:
        attempts: The number of failures.
        retry_seconds: The monotonic time of the next attempt.
    """

    attempts: int
    retry_seconds: float


class WorkQueue:
    """A queue of work that is waiting, is running, or has failed, by key.

    Args:
        monotonic: A function that returns the current time of a monotonic clock, in seconds.
        log: The logger for unexpected errors.
        longest_delay_seconds: The maximum delay between two attempts.
        may_run: A function that returns whether work may begin now.
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
        """Add work to the queue. Waiting work with the same key is replaced."""
        with self._changed:
            if self._is_ready(key):
                self._waiting[key] = work
                self._changed.notify()

    def retain(self, keys: Set[WorkKey]) -> None:
        """Drop all waiting work except for the given keys."""
        with self._changed:
            self._waiting = {key: work for key, work in self._waiting.items() if key in keys}

    def is_ready(self, key: WorkKey) -> bool:
        """Return whether the queue currently accepts work with the given key."""
        with self._changed:
            return self._is_ready(key)

    def run_next(self, wait_seconds: float) -> bool:
        """Run one piece of work in the current thread.

        Args:
            wait_seconds: The maximum time to wait for work.

        Returns:
            False if there was no work, or if the queue may not run.
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
        except Exception:  # noqa: BLE001 - a top loop, in which the other work must continue
            self._log.exception("reaper_work_failed", key=key)
        finally:
            self._finish(key, outcome)
        return True

    def wait_until_idle(self, wait_seconds: float) -> bool:
        """Wait until no work is running.

        Returns:
            False if some work is still running after the given time.
        """
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, wait_seconds)

    def failures(self) -> Mapping[WorkKey, Failure]:
        """Return the failures by key."""
        with self._changed:
            return dict(self._failures)

    def retry_seconds(self) -> float:
        """Return the monotonic time of the next retry, or infinity if there is none."""
        now = self._monotonic()
        with self._changed:
            return min(
                (f.retry_seconds for f in self._failures.values() if f.retry_seconds > now), default=float("inf")
            )

    def done_since(self, seconds: float) -> Set[WorkKey]:
        """Return the keys of work that has succeeded since the given monotonic time.

        Keys of work that succeeded earlier are removed from the queue's memory.
        """
        with self._changed:
            self._done = {key: done for key, done in self._done.items() if done >= seconds}
            return frozenset(self._done)

    def counts(self) -> tuple[int, int]:
        """Return the number of waiting and the number of running pieces of work."""
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
