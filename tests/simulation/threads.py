"""Replacements of :mod:`threading` in virtual time.

The threads of the reaper's operator, its work queues, its record cache and the gateway's record watch wait for each
other. In the simulation, each is a worker of the process that starts it.

Only one worker runs at a time, and it is interrupted only where it blocks. A lock that no code holds across a blocking
call is therefore never contended.
"""

from collections.abc import Callable
from types import SimpleNamespace

from tests.simulation.schedule import Action, Schedule

_schedules: list[Schedule] = []
"""The schedules of the active worlds; code uses the last one."""


def activate(schedule: Schedule) -> None:
    _schedules.append(schedule)


def deactivate() -> None:
    _schedules.pop()


class ModelEvent:
    """Replaces :class:`threading.Event`."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[Action] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        _wake(self._waiting)

    def clear(self) -> None:
        self._is_set = False

    def call_when_set(self, action: Action) -> None:
        """Call an action when the event is set."""
        self._waiting.append(action)

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set:
            _wait(self._waiting, timeout)
        return self._is_set


class ModelLock:
    """Replaces :class:`threading.Lock`."""

    def __enter__(self) -> bool:
        return True

    def __exit__(self, *_: object) -> None:
        """Do nothing: no other worker waits for the lock."""


class ModelCondition(ModelLock):
    """Replaces :class:`threading.Condition`."""

    def __init__(self) -> None:
        self._waiting: list[Action] = []

    def notify(self, n: int = 1) -> None:
        for wake in self._waiting[:n]:
            self._waiting.remove(wake)
            wake()

    def notify_all(self) -> None:
        _wake(self._waiting)

    def wait_for(self, predicate: Callable[[], object], timeout: float | None = None) -> object:
        schedule = _schedules[-1]
        until = float("inf") if timeout is None else schedule.now + timeout
        while not (result := predicate()) and schedule.now < until:
            _wait(self._waiting, None if timeout is None else until - schedule.now)
        return result


class ModelThread:
    """Replaces :class:`threading.Thread`."""

    def __init__(self, target: Callable[[], object], name: str, daemon: bool) -> None:
        self._target = target
        self._ended = ModelEvent()

    def start(self) -> None:
        _schedules[-1].current_process().start(self._run)

    def join(self, timeout: float | None = None) -> None:
        self._ended.wait(timeout)

    def _run(self) -> None:
        self._target()
        self._ended.set()


THREADING = SimpleNamespace(Condition=ModelCondition, Event=ModelEvent, Lock=ModelLock, Thread=ModelThread)
"""Replaces :mod:`threading` in the patched modules."""


def _wake(waiting: list[Action]) -> None:
    woken, waiting[:] = list(waiting), []
    for wake in woken:
        wake()


def _wait(waiting: list[Action], timeout_seconds: float | None) -> None:
    schedule = _schedules[-1]
    if timeout_seconds is not None and timeout_seconds <= 0:
        return

    def register(wake: Action) -> None:
        waiting.append(wake)
        if timeout_seconds is not None:
            schedule.after(timeout_seconds, wake)

    schedule.park(register)
