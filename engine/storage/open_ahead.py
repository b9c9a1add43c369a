"""Opening of small files in object stores before they are read.

Opening such a file fetches it, and needs several requests, each of which takes as long as parsing many rows. Therefore
threads open the next files of a task while it reads the current one.

Guarantees:

1. A file is opened with the same checks and errors as without this module. The error of a file is raised when the task
   opens it, so it is the same error that the task raises otherwise.
2. At most ``MOST_FILES`` files, and ``MOST_BYTES`` of files, are open ahead of the current one. Their number doubles
   with each file, starting with one, so a task that needs only a few rows opens few files.
3. If a task opens a file again, the file is fetched again.

Files that are larger than ``SMALL_BYTES`` are not opened ahead, because they are fetched in parts.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import BinaryIO

from engine.scan.reader import SourceFile

SMALL_BYTES = 8 * 1024 * 1024
"""The maximum size of a file that is fetched when it is opened."""

MOST_FILES = 16
MOST_BYTES = 32 * 1024 * 1024


@contextmanager
def opened_ahead(files: Sequence[SourceFile]) -> Iterator[Sequence[SourceFile]]:
    """Return the same files, which open those after them ahead. Files that were not needed are dropped at the end.

    Args:
        files: The files, in the order in which they are read.
    """
    ahead = _OpenAhead(files)
    try:
        yield [replace(file, open=partial(ahead.open, number)) for number, file in enumerate(files)]
    finally:
        ahead.close()


class _OpenAhead:
    """Opens files by their numbers. Used by one thread."""

    def __init__(self, files: Sequence[SourceFile]) -> None:
        self._files = files
        self._next = 0
        self._started: dict[int, Future[BinaryIO]] = {}
        self._started_bytes = 0
        self._most_files = 1

    def open(self, number: int) -> BinaryIO:
        """Open a file, and start to open the next ones."""
        started = self._take(number)
        self._next = max(self._next, number + 1)
        self._start_next()
        self._most_files = min(2 * self._most_files, MOST_FILES)
        if started is None or started.cancel():  # the threads may still open files of a scan that has ended
            return self._files[number].open()
        return started.result()

    def close(self) -> None:
        for number in list(self._started):
            opening = self._take(number)
            if opening is not None and not opening.cancel():
                opening.add_done_callback(_close_file)

    def _start_next(self) -> None:
        while self._next < len(self._files) and len(self._started) < self._most_files:
            file = self._files[self._next]
            if file.size_bytes > SMALL_BYTES or self._started_bytes + file.size_bytes > MOST_BYTES:
                return
            self._started[self._next] = _executor().submit(file.open)
            self._started_bytes += file.size_bytes
            self._next += 1

    def _take(self, number: int) -> "Future[BinaryIO] | None":
        started = self._started.pop(number, None)
        if started is not None:
            self._started_bytes -= self._files[number].size_bytes
        return started


def _close_file(opening: "Future[BinaryIO]") -> None:
    if opening.exception() is None:
        opening.result().close()


@cache
def _executor() -> ThreadPoolExecutor:
    """Return the executor of this process. It is created after Spark has forked the process."""
    return ThreadPoolExecutor(MOST_FILES, thread_name_prefix="open-ahead")
