"""A pipe to a log, whose reader can stop reading, as a log collector can."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.processes import Process

_BYTES = 4096


class LogPipe:
    """A small named pipe, and a process that copies everything from it to a log.

    Args:
        log: The log. The pipe lies beside it.

    Attributes:
        path: The path of the pipe.
    """

    def __init__(self, log: Path) -> None:
        self.path = log.with_suffix(".pipe")
        os.mkfifo(self.path)
        self._end = os.open(self.path, os.O_RDWR)  # so that the reader does not end while nobody writes
        fcntl.fcntl(self._end, fcntl.F_SETPIPE_SZ, _BYTES)
        self._reader = Process(["cat", self.path], log)
        self._reader.start()

    @contextmanager
    def unread(self) -> Iterator[None]:
        """Stop reading for the duration of the context."""
        with self._reader.paused():
            yield

    def close(self) -> None:
        self._reader.kill()
        os.close(self._end)
