"""Notices that the kernel has ended processes because memory ran out.

The kernel ends a process with the signal ``SIGKILL``, like a person who ends it from outside. Only a counter of the
whole machine shows the difference. A process that is ended frees its memory first, so the counter can change some
seconds before the end is noticed.
"""

from collections import deque
from pathlib import Path

_REMEMBERED_SECONDS = 15.0
_COUNTER = "oom_kill"


class MemoryKills:
    """The recent readings of the kernel's counter of processes that it ended because memory ran out.

    Args:
        file: The file with the counters of the kernel.
    """

    def __init__(self, file: Path = Path("/proc/vmstat")) -> None:
        self._file = file
        self._readings = deque[tuple[float, int]]()

    def observe(self, now_seconds: float) -> None:
        """Read the counter.

        Args:
            now_seconds: The monotonic time.
        """
        self._readings.append((now_seconds, self._read()))
        while now_seconds - self._readings[0][0] > _REMEMBERED_SECONDS:
            self._readings.popleft()

    def have_happened(self) -> bool:
        """Return whether memory has run out in the last 15 seconds, as far as the counter was read."""
        return bool(self._readings) and self._read() > self._readings[0][1]

    def _read(self) -> int:
        """Return the counter, 0 if the kernel has none."""
        try:
            lines = self._file.read_text().splitlines()
        except OSError:
            return 0
        return next((int(line.split()[1]) for line in lines if line.startswith(f"{_COUNTER} ")), 0)
