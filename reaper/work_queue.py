"""Work that waits, each piece under a key, done by as many threads as it is given.

Why it exists: a pass of the reaper decides what to do in no time, but doing it may take long, and may fail for one
session again and again. What is slow or broken must hold up nothing else.

Guarantees:

1. Of one key, one piece of work runs at a time; what is offered under it meanwhile is ignored, since the next pass will
   offer what is still to be done. Work may leave a rest, which belongs to it, and is done after all that waits.
2. Work that failed is not taken up again before a time that doubles with each failure in a row, up to a limit.
3. An unexpected error fails the piece of work that raised it, and nothing else.
4. Once it may not run, nothing more is begun, and what waited is dropped.

Not guaranteed: that what was offered is done; whoever offers must do so again for as long as it is needed.

Safe to share between threads.
"""

import threading
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import NewType

import structlog

WorkKey = NewType("WorkKey", str)
Rest = Callable[[], bool]
"""Returns whether it succeeded; it tells of its own failures."""

Work = Callable[[], bool | Rest]
"""Returns whether it succeeded, or what is still to be done for that; it tells of its own failures."""

_FIRST_DELAY_SECONDS = 0.5
_LARGEST_EXPONENT = 32


@dataclass(frozen=True, slots=True)
class Failure:
    """How often in a row work under a key failed, and when it may be tried again."""

    attempts: int
    retry_seconds: float


class WorkQueue:
    """See the module's guarantees.

    Args:
        monotonic: A clock, in seconds.
        log: Where unexpected errors go.
        longest_delay_seconds: The limit of the time between two attempts.
        may_run: Whether work may be begun now.
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
        """Takes work up, in the place of what waits under the same key."""
        with self._changed:
            if self._is_ready(key):
                self._waiting[key] = work
                self._changed.notify()

    def retain(self, keys: Set[WorkKey]) -> None:
        """Drops what waits under other keys."""
        with self._changed:
            self._waiting = {key: work for key, work in self._waiting.items() if key in keys}

    def is_ready(self, key: WorkKey) -> bool:
        """Whether work that is offered now would be taken up."""
        with self._changed:
            return self._is_ready(key)

    def run_waiting(self) -> None:
        """Does all that waits, in this thread."""
        while self._run_next():
            pass

    def run_next(self, wait_seconds: float) -> bool:
        """Does one piece of work, in this thread.

        Returns: False if there was none for so long, or it may not run.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._rests, wait_seconds)
        return self._run_next()

    def wait_until_idle(self, wait_seconds: float) -> bool:
        """Waits until nothing runs. Returns: False if something still does after so long."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, wait_seconds)

    def failures(self) -> Mapping[WorkKey, Failure]:
        with self._changed:
            return dict(self._failures)

    def retry_seconds(self) -> float:
        """When the next work that failed may be tried again; infinite if none waits for that."""
        now = self._monotonic()
        with self._changed:
            return min(
                (f.retry_seconds for f in self._failures.values() if f.retry_seconds > now), default=float("inf")
            )

    def done_since(self, seconds: float) -> Set[WorkKey]:
        """The keys whose work succeeded after this monotonic time; earlier ones are forgotten."""
        with self._changed:
            self._done = {key: done for key, done in self._done.items() if done >= seconds}
            return frozenset(self._done)

    def counts(self) -> tuple[int, int]:
        """How many pieces of work wait and run."""
        with self._changed:
            return len(self._waiting) + len(self._rests), len(self._running)

    def _is_ready(self, key: WorkKey) -> bool:
        if key in self._running or key in self._rests:
            return False
        failure = self._failures.get(key)
        return failure is None or failure.retry_seconds <= self._monotonic()

    def _run_next(self) -> bool:
        with self._changed:
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
        except Exception:  # noqa: BLE001 - a top loop: the other work must go on
            self._log.exception("reaper_work_failed", key=key)
        finally:
            self._finish(key, outcome)
        return True

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
            forgotten = now - self._longest_delay_seconds
            self._failures = {k: f for k, f in self._failures.items() if f.retry_seconds > forgotten}
            self._changed.notify_all()
