"""Decides whether a gateway is stuck.

A gateway that waits for a processor, because other programs occupy all of them, is not stuck: to kill it would only
make the machine busier. A gateway that nobody schedules is not stuck either if the watcher was not scheduled.

Guarantees:

1. A gateway whose event loop responds is never stuck.
2. Only time in which the watcher ran counts. A pause of the whole machine does not count.
3. While a thread of the gateway is ready to run, only the processor time that the gateway gets counts.
4. While a debugger has stopped the gateway, no time counts.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_RUNNABLE, _TRACED = "R", "t"
_LONGEST_STEP_PERIODS = 2.0


@dataclass(frozen=True, slots=True)
class ProcessState:
    """What the system says about a process.

    Attributes:
        threads: The states of its threads, as in ``/proc``.
        processor_seconds: The processor time that it has used.
    """

    threads: frozenset[str]
    processor_seconds: float

    @classmethod
    def read(cls, pid: int) -> "ProcessState":
        """Read the state of a process. A process that has ended has no threads."""
        threads, ticks = set(), 0
        with suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                fields = (task / "stat").read_text().rpartition(")")[2].split()
                threads.add(fields[0])
                ticks += int(fields[11]) + int(fields[12])
        return cls(frozenset(threads), ticks / os.sysconf("SC_CLK_TCK"))


class Pulse:
    """How long the event loop of a gateway has not responded.

    Args:
        period_seconds: The usual time between two calls of :meth:`observe`.
    """

    def __init__(self, period_seconds: float) -> None:
        self._longest_step_seconds = _LONGEST_STEP_PERIODS * period_seconds
        self._beats = -1
        self._processor_seconds = 0.0
        self._observed_seconds = 0.0
        self.stuck_seconds = 0.0

    def observe(self, beats: int, state: ProcessState, now_seconds: float) -> float:
        """Record one moment.

        Args:
            beats: How often the event loop has responded.
            state: The state of the process.
            now_seconds: The monotonic time.

        Returns:
            How long the gateway has been stuck, in seconds.
        """
        step = min(now_seconds - self._observed_seconds, self._longest_step_seconds)
        used = state.processor_seconds - self._processor_seconds
        if beats != self._beats:
            self.stuck_seconds = 0.0
        elif _TRACED not in state.threads:
            self.stuck_seconds += min(step, max(used, 0.0)) if _RUNNABLE in state.threads else step
        self._beats, self._processor_seconds, self._observed_seconds = beats, state.processor_seconds, now_seconds
        return self.stuck_seconds
