"""Virtual time, and who runs next: the single thread of a simulation.

Why it exists: the protocol code blocks at each call of the API server or the storage. Here such a call is a switch of
greenlets: the code is parked where it stands, and a heap of events in virtual time decides who goes on. The order of
events with their delays comes from one seeded random, so a seed is a history.

Guarantees:

1. Nothing runs at the same time as something else, and code is parked only in :meth:`Schedule.wait` and
   :meth:`Schedule.park`.
2. Of one seed and one ``PYTHONHASHSEED`` every run is the same, to the last step.
3. A process that is dead runs no instruction more, not even of a ``finally``, until :meth:`Schedule.close`; then its
   code is unwound, and whatever that tries raises GreenletExit.
4. A process that is paused goes on where it was, once its time has come; time goes on meanwhile, also its own.
"""

import heapq
import random
from collections.abc import Callable
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

Action = Callable[[], object]


class Process:
    """An operating system's process as the model sees it: it has clocks of its own, and may pause or die.

    Args:
        name: For the trace.
        schedule: Whose time it runs in.
        random: Decides how its clocks are set.
    """

    def __init__(self, name: str, schedule: "Schedule", random: random.Random) -> None:
        self.name = name
        self.schedule = schedule
        self.is_dead = False
        self.paused_until = 0.0
        self.cut_off_until: dict[str, float] = {}
        self.workers: list[Worker] = []
        self.on_death: Action = lambda: None
        self._offset_seconds = random.uniform(0, 1e6)
        self._rate = 1 + random.uniform(-MAX_DRIFT, MAX_DRIFT)
        self.wall_offset_seconds = random.uniform(-600, 600)

    def monotonic(self) -> float:
        return self._offset_seconds + self._rate * self.schedule.now

    def to_true_seconds(self, monotonic_seconds: float) -> float:
        """The true time at which its clock shows this."""
        return (monotonic_seconds - self._offset_seconds) / self._rate

    def start(self, work: Action, delay_seconds: float = 0.0) -> "Worker":
        """Runs something that may block, as a thread of the process."""
        worker = Worker(work, self)
        self.workers.append(worker)
        self.schedule.at(self.schedule.now + delay_seconds, worker.switch, self)
        return worker

    def pause(self, seconds: float) -> None:
        self.paused_until = max(self.paused_until, self.schedule.now + seconds)

    def die(self) -> None:
        if not self.is_dead:
            self.is_dead = True
            self.on_death()

    def __repr__(self) -> str:
        return self.name


MAX_DRIFT = 1e-4
"""How far a monotonic clock may be from true time, per second; Linux slews by at most 500 parts in a million."""


class Worker(greenlet):
    """A thread of a process.

    Attributes:
        process: Whose it is.
        was_fenced: Whether the process knew, when it asked for this work, that it may not touch a location.
    """

    def __init__(self, work: Action, process: Process) -> None:
        super().__init__(self._run_work, process.schedule.main)
        self.process = process
        self.was_fenced = False
        self._work = work

    def _run_work(self) -> None:
        try:
            self._work()
        finally:
            if self in self.process.workers:
                self.process.workers.remove(self)


class Schedule:
    """What happens next.

    Args:
        seed: Of everything that is left to chance.

    Attributes:
        random: What decides by chance; made of the seed.
        now: The true time, in seconds.
        steps: How many events there were.
        process: Whose code runs; None for what is no process.
        main: The greenlet that the events run in.
        is_over: Whether nothing more need happen.
        is_closed: Whether nothing has an effect any more.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - nothing is secret here
        self.now = 0.0
        self.steps = 0
        self.process: Process | None = None
        self.main = getcurrent()
        self.is_over = False
        self.is_closed = False
        self._events: list[tuple[float, int, Action, Process | None]] = []
        self._number = 0

    def at(self, when: float, action: Action, process: Process | None = None) -> None:
        """Lets something happen at a time, as a step of a process."""
        self._number += 1
        heapq.heappush(self._events, (when, self._number, action, process))

    def after(self, seconds: float, action: Action, process: Process | None = None) -> None:
        self.at(self.now + seconds, action, process)

    def wait(self, seconds: float) -> None:
        """Parks the code that calls it. Raises: GreenletExit if its process is no more."""
        worker = self.current_worker()
        self._number += 1
        heapq.heappush(self._events, (self.now + seconds, self._number, worker.switch, worker.process))
        self.main.switch()
        if worker.process.is_dead:
            raise GreenletExit

    def park(self, register: Callable[[Action], object]) -> None:
        """Parks the code that calls it until what it hands out is called."""
        worker = self.current_worker()
        is_woken = False

        def wake() -> None:
            nonlocal is_woken
            if not is_woken:
                is_woken = True
                self.at(self.now, worker.switch, worker.process)

        register(wake)
        self.main.switch()
        self._exit_if_dead(worker)

    def park_forever(self) -> None:
        """Parks the code that calls it for ever: its process has just died."""
        worker = self.current_worker()
        self.main.switch()
        self._exit_if_dead(worker)

    def run_until(self, end: float) -> None:
        """Lets everything happen up to a time, or until :attr:`is_over`."""
        events, pop = self._events, heapq.heappop
        while events and events[0][0] <= end and not self.is_over:
            when, number, action, process = pop(events)
            if process is not None:
                if process.is_dead:
                    continue
                if process.paused_until > when:
                    heapq.heappush(events, (process.paused_until, number, action, process))
                    continue
            self.now = max(self.now, when)
            self.steps += 1
            self.process = process
            action()
        self.process = None
        self.now = max(self.now, end)

    def close(self, processes: "list[Process]") -> None:
        """Unwinds the code of all processes; nothing that it tries has an effect any more."""
        self.is_closed = True
        self._events.clear()
        for process in processes:
            process.die()
            for worker in list(process.workers):
                if worker:
                    worker.throw(GreenletExit)
            process.workers.clear()

    def current_process(self) -> Process:
        """The process whose code runs."""
        if self.process is not None:
            return self.process
        return self.current_worker().process

    def current_worker(self) -> Worker:
        """The thread that runs."""
        worker: Any = getcurrent()
        if worker is self.main:
            raise RuntimeError("Blocking code was called on an event loop.")
        if self.is_closed:
            raise GreenletExit
        found: Worker = worker
        return found

    def _exit_if_dead(self, worker: Worker) -> None:
        if worker.process.is_dead:
            raise GreenletExit
