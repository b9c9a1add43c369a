"""Virtual time and the order of all steps: the single thread of a simulation.

The protocol code blocks at each call of the API server or the storage. In the simulation, such a call switches
greenlets: the code is parked, and a heap of events in virtual time decides which code runs next. One seeded random
generator chooses the delays, so a seed determines a history.

Guarantees:

1. Only one piece of code runs at a time. Code is parked only in :meth:`Schedule.wait`, :meth:`Schedule.park` and
   :meth:`Schedule.park_forever`.
2. All runs of one seed with one ``PYTHONHASHSEED`` are the same, to the last step.
3. A dead process runs no further instruction, not even in ``finally``, until :meth:`Schedule.close`. Then its code is
   unwound, and each blocking call raises GreenletExit.
4. A paused process continues at the same place when its pause ends. Time passes during the pause, also on its clock.
"""

import heapq
import random
from collections.abc import Callable, Set
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

Action = Callable[[], object]


class Process:
    """A simulated operating system process with its own clocks. It can pause and die.

    Args:
        name: The name in the trace.
        schedule: Runs the process.
        random: Sets its clocks.
    """

    def __init__(self, name: str, schedule: "Schedule", random: random.Random) -> None:
        self.name = name
        self.schedule = schedule
        self.is_dead = False
        self.paused_until = 0.0
        self.postponed: set[int] = set()
        self.loop_stalled_since = 0.0
        self.loop_stalled_until = 0.0
        self.cut_off_until: dict[str, float] = {}
        self.workers: list[Worker] = []
        self.on_death: Action = lambda: None
        self._offset_seconds = random.uniform(0, 1e6)
        self._rate = 1 + random.uniform(-MAX_DRIFT, MAX_DRIFT)
        self.wall_offset_seconds = random.uniform(-600, 600)

    def monotonic(self) -> float:
        return self._offset_seconds + self._rate * self.schedule.now

    def to_true_seconds(self, monotonic_seconds: float) -> float:
        """Return the true time at which the monotonic clock of the process shows a value."""
        return (monotonic_seconds - self._offset_seconds) / self._rate

    def start(self, work: Action, delay_seconds: float = 0.0) -> "Worker":
        """Run blocking work as a thread of the process."""
        worker = Worker(work, self)
        self.workers.append(worker)
        self.schedule.at(self.schedule.now + delay_seconds, worker.switch, self)
        return worker

    def pause(self, seconds: float) -> None:
        self.paused_until = max(self.paused_until, self.schedule.now + seconds)

    def resume(self) -> None:
        """End a pause now."""
        if self.paused_until > self.schedule.now:
            self.paused_until = self.schedule.now
            self.schedule.advance(self.postponed)

    def stall_loop(self, seconds: float) -> None:
        """Stop the event loop of the process for a time, but not its threads."""
        now = self.schedule.now
        if self.loop_stalled_until <= now:
            self.loop_stalled_since = now
        self.loop_stalled_until = max(self.loop_stalled_until, now + seconds)

    def die(self) -> None:
        if not self.is_dead:
            self.is_dead = True
            self.on_death()

    def __repr__(self) -> str:
        return self.name


MAX_DRIFT = 1e-4
"""How far a monotonic clock may drift, per second. Linux slews a clock by at most 500 parts in a million."""


class Worker(greenlet):
    """A thread of a process.

    Attributes:
        process: The process.
        was_fenced: Whether the process was fenced when it submitted this work.
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
    """The heap of events, and the virtual time.

    Args:
        seed: The seed of the random generator.

    Attributes:
        random: Makes all random choices.
        now: The true time, in seconds.
        steps: The number of events so far.
        process: The process whose code runs; None for code outside all processes.
        main: The greenlet that runs the events.
        is_over: Whether the history can end early.
        is_closed: Whether the history has ended; nothing has an effect after that.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - the simulation needs no secret
        self.now = 0.0
        self.steps = 0
        self.process: Process | None = None
        self.main = getcurrent()
        self.is_over = False
        self.is_closed = False
        self._events: list[tuple[float, int, Action, Process | None]] = []
        self._number = 0

    def at(self, when: float, action: Action, process: Process | None = None) -> None:
        """Schedule an action at a time, as a step of a process."""
        self._number += 1
        heapq.heappush(self._events, (when, self._number, action, process))

    def after(self, seconds: float, action: Action, process: Process | None = None) -> None:
        self.at(self.now + seconds, action, process)

    def advance(self, numbers: Set[int]) -> None:
        """Let the events with these numbers happen now."""
        self._events[:] = [(self.now if event[1] in numbers else event[0], *event[1:]) for event in self._events]
        heapq.heapify(self._events)

    def wait(self, seconds: float) -> None:
        """Park the calling code for a time.

        Raises:
            GreenletExit: The process has died.
        """
        worker = self.current_worker()
        self._number += 1
        heapq.heappush(self._events, (self.now + seconds, self._number, worker.switch, worker.process))
        self.main.switch()
        if worker.process.is_dead:
            raise GreenletExit

    def park(self, register: Callable[[Action], object]) -> None:
        """Park the calling code until the function that ``register`` receives is called."""
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
        """Park the calling code forever, because its process has just died."""
        worker = self.current_worker()
        self.main.switch()
        self._exit_if_dead(worker)

    def run_until(self, end: float) -> None:
        """Run all events up to a time, or until :attr:`is_over`."""
        events, pop = self._events, heapq.heappop
        while events and events[0][0] <= end and not self.is_over:
            when, number, action, process = pop(events)
            if process is not None:
                if process.is_dead:
                    continue
                if process.paused_until > when:
                    heapq.heappush(events, (process.paused_until, number, action, process))
                    process.postponed.add(number)
                    continue
                process.postponed.discard(number)
            self.now = max(self.now, when)
            self.steps += 1
            self.process = process
            action()
        self.process = None
        self.now = max(self.now, end)

    def describe(self) -> str:
        """Return the state as a text for people."""
        coming = ", ".join(f"{when:.3f} {action} of {process}" for when, _, action, process in self._events[:10])
        return f"At {self.now:.3f} s, after {self.steps} steps, running: {self.process}, coming: {coming or 'nothing'}"

    def close(self, processes: "list[Process]") -> None:
        """Unwind the code of all processes. Nothing that it tries has an effect."""
        self.is_closed = True
        self._events.clear()
        for process in processes:
            process.die()
            for worker in list(process.workers):
                if worker:
                    worker.throw(GreenletExit)
            process.workers.clear()

    def current_process(self) -> Process:
        """Return the process whose code runs."""
        if self.process is not None:
            return self.process
        return self.current_worker().process

    def current_worker(self) -> Worker:
        """Return the thread that runs.

        Raises:
            RuntimeError: The code runs on an event loop, where nothing may block.
        """
        worker: Any = getcurrent()
        if worker is self.main:
            raise RuntimeError("Blocking code runs on an event loop. Run it in an executor.")
        if self.is_closed:
            raise GreenletExit
        found: Worker = worker
        return found

    def _exit_if_dead(self, worker: Worker) -> None:
        if worker.process.is_dead:
            raise GreenletExit
