"""Writes the log of the process from a thread, so that a reader of the log that stalls stops nothing else.

Guarantees:

1. :meth:`LogOutput.write` never raises. It returns when the line is written, so that the log is in order with answers
   to clients, or after ``_WAIT_SECONDS``. The calls of each ``_PERIOD_SECONDS`` wait only as long together, so a slow
   reader does not slow down the process. While the file takes nothing, further calls do not wait. Lines for which no
   call waits are not lost, see 2.
2. At most ``_MAX_WAITING_BYTES`` of lines wait. Further lines are lost. They are counted, and the next line that is not
   lost is preceded by one that says how many were lost.
3. When the process ends, the thread has ``_CLOSE_SECONDS`` to write the lines that wait.

Not guaranteed: lines that wait are lost if the process is killed.
"""

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from workspace.background_thread import BackgroundThread

THREAD_NAME = "log"
_MAX_WAITING_BYTES = 8 * 1024 * 1024
_MAX_WRITE_BYTES = 64 * 1024
_WAIT_SECONDS = 0.1
_PERIOD_SECONDS = 1.0
_RETRY_SECONDS = 1.0
_CLOSE_SECONDS = 2.0


class LogOutput(Collector):
    """A text stream for log lines, and the metric of those that are lost.

    Args:
        descriptor: The open file.
        describe_lost: A function that returns the line, without its end, that says how many lines were lost.
        max_waiting_bytes: The maximum size of the lines that wait.
        monotonic: A function that returns the current time of a monotonic clock, in seconds.
    """

    def __init__(
        self,
        descriptor: int,
        describe_lost: Callable[[int], str],
        max_waiting_bytes: int = _MAX_WAITING_BYTES,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._descriptor = descriptor
        self._describe_lost = describe_lost
        self._max_waiting_bytes = max_waiting_bytes
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._lines: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._unreported = 0
        self._accepted_lines = 0
        self._done_lines = 0
        self._is_stalled = False
        self._period_ends_seconds = float("-inf")
        self._wait_seconds = 0.0
        self._is_closing = False
        self.lost_lines = 0
        self._thread = BackgroundThread(THREAD_NAME, self._run)
        self._thread.start()

    def write(self, text: str) -> None:
        """Write a line, or count it as lost if too many lines wait."""
        line = text.encode("utf-8", "backslashreplace")
        with self._changed:
            if self._waiting_bytes + len(line) > self._max_waiting_bytes or not self._thread.is_alive():
                self._lose(1)
                return
            if self._unreported:
                self._append(f"{self._describe_lost(self._unreported)}\n".encode())
                self._unreported = 0
            self._append(line)
            self._changed.notify_all()
            self._wait_for_lines(self._accepted_lines)

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Return the metric."""
        yield CounterMetricFamily(
            "lodge_log_lines_lost",
            "Lines that are missing in the log, because nobody read it or the disk was full.",
            self.lost_lines,
        )

    def flush(self) -> None:
        """Do nothing: the thread writes each line as soon as it can."""

    def close(self, timeout_seconds: float = _CLOSE_SECONDS) -> None:
        """Wait until the lines are written, for a limited time, and end the thread."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines or self._is_closing)
                if not self._lines:
                    return
                lines = self._take_lines()
            is_written = self._write_all(b"".join(lines))
            with self._changed:
                self._done_lines += len(lines)
                self._is_stalled = not is_written
                self._changed.notify_all()
                if not is_written:
                    self._lose(len(lines))
                    if self._is_closing:
                        return
            if not is_written:
                time.sleep(_RETRY_SECONDS)

    def _take_lines(self) -> list[bytes]:
        """Take lines from the queue, at most ``_MAX_WRITE_BYTES`` or one line."""
        lines: list[bytes] = []
        size_bytes = 0
        while self._lines and (not size_bytes or size_bytes + len(self._lines[0]) <= _MAX_WRITE_BYTES):
            size_bytes += len(self._lines[0])
            lines.append(self._lines.popleft())
        self._waiting_bytes -= size_bytes
        return lines

    def _write_all(self, data: bytes) -> bool:
        """Write all data, and wait for the reader of a pipe as long as it takes.

        Returns:
            Whether the file has taken the data.
        """
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._descriptor, view) :]
            except BlockingIOError:
                select.select([], [self._descriptor], [], _RETRY_SECONDS)
            except OSError:
                return False
        return True

    def _wait_for_lines(self, number: int) -> None:
        """Wait until this number of lines is written, unless the calls of this period have waited enough."""
        begun_seconds = self._monotonic()
        if begun_seconds >= self._period_ends_seconds:
            self._period_ends_seconds = begun_seconds + _PERIOD_SECONDS
            self._wait_seconds = _WAIT_SECONDS
        if self._is_stalled or self._wait_seconds <= 0.0:
            return
        if not self._changed.wait_for(lambda: self._done_lines >= number, self._wait_seconds):
            self._is_stalled = True
        self._wait_seconds -= self._monotonic() - begun_seconds

    def _append(self, line: bytes) -> None:
        self._lines.append(line)
        self._accepted_lines += 1
        self._waiting_bytes += len(line)

    def _lose(self, count: int) -> None:
        self._unreported += count
        self.lost_lines += count
