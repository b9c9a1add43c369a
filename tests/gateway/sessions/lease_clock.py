"""A clock for leases that only the test sets forward."""

import threading

import pytest

from gateway.sessions.lease_thread import LeaseThread

_MODULES = ("lease_thread", "peers", "replica_lease")
_SECONDS = 60.0


class LeaseClock:
    """The monotonic clock of the modules that renew and observe leases.

    The thread that renews a lease sleeps until the test has set the clock forward. It then runs one step, and sleeps
    again. There can be one such thread.

    Attributes:
        seconds: The current time.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 1000.0
        self._changed = threading.Condition()
        self._due_seconds: float | None = None
        for module in _MODULES:
            monkeypatch.setattr(f"gateway.sessions.{module}.time", self)
        start = LeaseThread.start

        def start_with_clock(thread: LeaseThread) -> None:
            thread.stopping = _ClockEvent(self)
            start(thread)

        monkeypatch.setattr(LeaseThread, "start", start_with_clock)

    def monotonic(self) -> float:
        return self.seconds

    def wake(self) -> None:
        """Set the clock forward to the time at which the thread wants to wake up. Do not wait for its step."""
        self._wake(float("inf"))

    def advance(self, seconds: float) -> None:
        """Set the clock forward, and wait until the thread has run all steps that are due."""
        until_seconds = self.seconds + seconds
        while self._wake(until_seconds):
            pass
        self.seconds = until_seconds

    def _wake(self, until_seconds: float) -> bool:
        with self._changed:
            assert self._changed.wait_for(lambda: self._due_seconds is not None, _SECONDS), "the thread does not sleep"
            assert self._due_seconds is not None
            if self._due_seconds > until_seconds:
                return False
            self.seconds, self._due_seconds = self._due_seconds, None
            self._changed.notify_all()
            return True

    def sleep(self, event: threading.Event, seconds: float) -> None:
        """Sleep until the clock has been set forward, or the event is set."""
        with self._changed:
            due_seconds = self._due_seconds = self.seconds + seconds
            self._changed.notify_all()
            self._changed.wait_for(lambda: event.is_set() or self.seconds >= due_seconds)

    def notice(self) -> None:
        """Let the thread look at its event."""
        with self._changed:
            self._changed.notify_all()


class _ClockEvent(threading.Event):
    def __init__(self, clock: LeaseClock) -> None:
        super().__init__()
        self._clock = clock

    def set(self) -> None:
        super().set()
        self._clock.notice()

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self._clock.sleep(self, timeout)
        return self.is_set()
