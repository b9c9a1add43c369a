"""Threads and what they wait for, in virtual time: what :mod:`threading` is to real processes.

Why it exists: the reaper's operator, its work queues, its cache of records and the gateway's watch are threads that
wait for each other. Here each is a worker of the process that starts it.

Only one runs at a time, and none is interrupted but where it blocks; so a lock that is not held over anything that
blocks is never waited for.
"""

from collections.abc import Callable, Iterable
from types import SimpleNamespace

from tests.simulation.schedule import Action, Schedule

_schedules: list[Schedule] = []
"""The schedule of the world that runs; the last one counts."""


def activate(schedule: Schedule) -> None:
    _schedules.append(schedule)


def deactivate() -> None:
    _schedules.pop()


class ModelEvent:
    """In the place of :class:`threading.Event`."""

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
        """Has something done once it is set."""
        self._waiting.append(action)

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set:
            _wait(self._waiting, timeout)
        return self._is_set


class ModelLock:
    """In the place of :class:`threading.Lock`."""

    def __enter__(self) -> bool:
        return True

    def __exit__(self, *_: object) -> None:
        """Nobody waits for it."""


class ModelCondition(ModelLock):
    """In the place of :class:`threading.Condition`."""

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
    """In the place of :class:`threading.Thread`."""

    def __init__(
        self,
        target: Callable[..., object],
        args: Iterable[object] = (),
        name: str = "",
        daemon: bool = False,
    ) -> None:
        self._target = target
        self._args = tuple(args)
        self._ended = ModelEvent()

    def start(self) -> None:
        _schedules[-1].current_process().start(self._run)

    def join(self, timeout: float | None = None) -> None:
        self._ended.wait(timeout)

    def _run(self) -> None:
        self._target(*self._args)
        self._ended.set()


THREADING = SimpleNamespace(Condition=ModelCondition, Event=ModelEvent, Lock=ModelLock, Thread=ModelThread)
"""What modules take for :mod:`threading`."""


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
