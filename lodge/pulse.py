"""Decides whether a gateway is stuck.

A gateway that waits for a processor, because other programs occupy all of them, is not stuck: killing it would make the
machine even busier. A pause of the watcher or of the whole machine says nothing about the gateway.

Guarantees:

1. A gateway whose event loop responds is never stuck.
2. Only time in which the watcher ran counts.
3. While a thread of the gateway is ready to run, only the processor time that the gateway gets counts.
   ``silent_seconds`` also counts the time in which the gateway waits for a processor. The watcher limits it, because a
   gateway that cannot renew its lease loses its sessions.
4. While a debugger has stopped the gateway, no time counts.

Not guaranteed: that a gateway that waits for memory on a swap device, or for a disk, is not considered stuck.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_RUNNABLE, _STOPPED, _TRACED = "R", "T", "t"
_LONGEST_STEP_PERIODS = 2.0


@dataclass(frozen=True, slots=True)
class ProcessState:
    """The state of a process in the operating system.

    Attributes:
        threads: The states of its threads, as in ``/proc``.
        processor_seconds: The processor time that it has used.
    """

    threads: frozenset[str]
    processor_seconds: float

    @property
    def is_stopped(self) -> bool:
        """Whether another process has stopped it with a signal."""
        return _STOPPED in self.threads

    @classmethod
    def read(cls, pid: int) -> "ProcessState":
        """Read the state of a process.

        A process that has ended has no threads. The same holds if the state cannot be read, for example because this
        process has no free file descriptor.
        """
        threads, ticks = set(), 0
        with suppress(OSError):
            for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
                with suppress(OSError):  # the thread has ended
                    fields = stat.read_text().rpartition(")")[2].split()
                    threads.add(fields[0])
                    ticks += int(fields[11]) + int(fields[12])
        return cls(frozenset(threads), ticks / os.sysconf("SC_CLK_TCK"))


class Pulse:
    """Measures for how long the event loop of a gateway has not responded.

    Args:
        period_seconds: The usual time between two calls of :meth:`observe`.

    Attributes:
        stuck_seconds: How long the gateway has been stuck.
        silent_seconds: How long the event loop has not responded.
    """

    def __init__(self, period_seconds: float) -> None:
        self._longest_step_seconds = _LONGEST_STEP_PERIODS * period_seconds
        self._beats = -1
        self._processor_seconds: float | None = None
        self._observed_seconds = 0.0
        self.stuck_seconds = self.silent_seconds = 0.0

    def observe(self, beats: int, read_state: Callable[[], ProcessState], now_seconds: float) -> float:
        """Record one moment.

        Args:
            beats: How often the event loop has responded.
            read_state: Returns the state of the process. It is called only if the event loop has not responded.
            now_seconds: The monotonic time.

        Returns:
            How long the gateway has been stuck, in seconds.
        """
        if beats != self._beats:
            self.stuck_seconds, self.silent_seconds, self._processor_seconds = 0.0, 0.0, None
        else:
            state, before = read_state(), self._processor_seconds
            self._processor_seconds = state.processor_seconds
            step = min(now_seconds - self._observed_seconds, self._longest_step_seconds)
            if _TRACED not in state.threads:
                self.silent_seconds += step
                if _RUNNABLE in state.threads:
                    used = 0.0 if not before else state.processor_seconds - before
                    step = min(step, max(used, 0.0))
                self.stuck_seconds += step
        self._beats, self._observed_seconds = beats, now_seconds
        return self.stuck_seconds
