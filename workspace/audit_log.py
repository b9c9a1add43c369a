"""The audit log: one JSON object per line, on standard output or in a file of its own.

Events are written by a thread, so a slow disk never delays a request. The audit log is separate from the log of the
process (:mod:`lodge.logs`), which describes what the process does.

Guarantees:

1. Each event is exactly one line. No value can end a line early or add a line: control characters, line separators and
   everything else outside printable ASCII are escaped.
2. :meth:`AuditLog.write` never blocks and never raises. Each field has a maximum length.
3. If an event cannot be written, the log event ``audit_log_failed`` says so, and the event is retried. At most
   ``_MAX_WAITING_EVENTS`` events wait. Further events are lost: they are counted, the log event ``audit_events_lost``
   says so, and the audit log itself contains the number as soon as it can be written again.
4. A file that was moved or deleted is replaced by a new file with the mode 0600. A line that a crash left incomplete is
   ended before the next event.

Not guaranteed: Events that wait are lost if the process is killed.
"""

import errno
import os
import queue
import stat
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime

import structlog
from structlog.typing import EventDict, Processor

from workspace.background_thread import BackgroundThread

STANDARD_OUTPUT = "-"
QUERY_TEXT = "query_text"

_MAX_WAITING_EVENTS = 10_000
_MAX_CHARACTERS = 1024
_MAX_QUERY_CHARACTERS = 16 * 1024
_MAX_ITEMS = 100
_RETRY_SECONDS = 1.0
_REPORT_SECONDS = 60.0
_CLOSE_SECONDS = 5.0
_MODE = 0o600

log = structlog.get_logger(__name__)

_NOTHING: tuple[object, ...] = (None, "", (), [])

Action = Callable[[], None]


class AuditLog:
    """An audit log.

    Args:
        destination: The path of a file, ``-`` for standard output, or None to write nowhere.
        processors: Further structlog processors, for example one that masks secrets.
        must_open: Whether a file must be opened at once. Otherwise, a file that cannot be opened is like one that
            cannot be written.

    Raises:
        OSError: If the file must be opened, and cannot be.
    """

    def __init__(
        self, destination: str | None = None, *, processors: Sequence[Processor] = (), must_open: bool = True
    ) -> None:
        self._lost = _Counter()
        self._reports = _Reports()
        self._is_closing = threading.Event()
        self._actions: queue.Queue[Action] = queue.Queue(_MAX_WAITING_EVENTS)
        self._thread: BackgroundThread | None = None
        if destination is None:
            return
        self._output = _StandardOutput() if destination == STANDARD_OUTPUT else _File(destination)
        if must_open:
            self._output.open_at_start()
        self._renderer = structlog.wrap_logger(
            structlog.ReturnLogger(),
            processors=[_call_functions, _bound_fields, *processors, structlog.processors.JSONRenderer()],
            wrapper_class=structlog.BoundLogger,
            context_class=dict,
            cache_logger_on_first_use=True,
        )
        self._thread = BackgroundThread("audit-log", self._run)
        self._thread.start()

    @property
    def is_enabled(self) -> bool:
        """Whether events are written anywhere."""
        return self._thread is not None

    @property
    def waiting(self) -> int:
        """The number of actions that wait for the thread that writes."""
        return self._actions.qsize()

    @property
    def lost_events(self) -> int:
        """The number of events that were lost since the process started."""
        return self._lost.total

    def write(self, event: str, fields: Mapping[str, object]) -> None:
        """Write an event. Fields without a value are left out.

        Args:
            event: The name of the event.
            fields: The fields. A value that is a function is called by the thread that writes.
        """
        if self._thread is None:
            return
        now_seconds = time.time()
        if not self.run(lambda: self._write(event, now_seconds, fields)):
            self._lose()

    def run(self, action: Action) -> bool:
        """Run an action in the thread that writes, after all earlier events.

        Returns:
            False if the action does not run, because too many events wait or nothing is written anywhere.
        """
        if self._thread is None:
            return False
        try:
            self._actions.put_nowait(action)
        except queue.Full:
            return False
        return True

    def reopen(self) -> None:
        """Close the file. The next event opens it again by its name."""
        if self._thread is not None:
            self.run(self._output.close)

    def close(self, timeout_seconds: float = _CLOSE_SECONDS) -> None:
        """Write the events that wait, and close the file.

        Args:
            timeout_seconds: How long to wait until the events are written.
        """
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._is_closing.set()
        with suppress(queue.Full):  # then the thread has work, and sees the flag afterwards
            self._actions.put_nowait(lambda: None)
        thread.join(timeout_seconds)
        if thread.is_alive():
            self._lost.add(self._actions.qsize())
        if self._lost.unreported:
            log.error("audit_events_lost", count=self._lost.unreported)

    def _run(self) -> None:
        while not (self._is_closing.is_set() and self._actions.empty()):
            try:
                self._actions.get()()
            except Exception:
                self._lost.add(1)
                log.exception("audit_event_failed")
        self._output.close()

    def _write(self, event: str, now_seconds: float, fields: Mapping[str, object]) -> None:
        timestamp = datetime.fromtimestamp(now_seconds, UTC).isoformat(timespec="microseconds")
        lost = self._lost.unreported
        if lost and self._write_line("audit_events_lost", {"timestamp": timestamp, "count": lost}):
            self._lost.report(lost)
        if not self._write_line(event, {"timestamp": timestamp, **fields}):
            self._lost.add(1)

    def _write_line(self, event: str, fields: Mapping[str, object]) -> bool:
        """Write a line, and retry until it is written.

        Returns:
            False if the log was closed before the line could be written.
        """
        line = f"{self._renderer.msg(event, **fields)}\n".encode("ascii")
        while True:
            is_last_attempt = self._is_closing.is_set()
            try:
                self._output.write(line)
            except OSError as error:
                if self._reports.is_due():
                    log.error("audit_log_failed", reason=str(error), waiting=self._actions.qsize())
                if is_last_attempt:
                    return False
                self._is_closing.wait(_RETRY_SECONDS)
            else:
                return True

    def _lose(self) -> None:
        self._lost.add(1)
        if self._reports.is_due():
            log.error("audit_events_lost", count=self._lost.unreported)


class _StandardOutput:
    def open_at_start(self) -> None:
        pass

    def write(self, data: bytes) -> None:
        """Write a line completely.

        Raises:
            OSError: If the line could not be written.
        """
        _write_all(sys.__stdout__.fileno() if sys.__stdout__ is not None else 1, data)

    def close(self) -> None:
        pass


class _File:
    """A file to which lines are appended.

    Args:
        path: The path of the file.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: int | None = None

    def open_at_start(self) -> None:
        """Open the file, unless the disk is too full. Then the next write tries again.

        Raises:
            OSError: If the file cannot be opened for another reason.
        """
        try:
            self._open()
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
                raise

    def write(self, data: bytes) -> None:
        """Write a line completely. Open the file first if it is closed, was moved or was deleted.

        Raises:
            OSError: If the line could not be written.
        """
        if self._descriptor is not None and not self._is_current(self._descriptor):
            self.close()
        descriptor = self._open() if self._descriptor is None else self._descriptor
        try:
            _write_all(descriptor, data)
        except OSError:
            self.close()  # opening the file again ends the incomplete line
            raise

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, _MODE)
        try:
            _end_line(descriptor)
        except OSError:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return descriptor

    def _is_current(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(descriptor))  # noqa: PTH116 - called for each event
        except FileNotFoundError:
            return False


class _Counter:
    """The number of lost events. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.unreported = 0
        self.total = 0

    def add(self, number: int) -> None:
        with self._lock:
            self.unreported += number
            self.total += number

    def report(self, number: int) -> None:
        """Count events as reported in the audit log."""
        with self._lock:
            self.unreported -= number


class _Reports:
    """Limits how often the process reports failures of the audit log."""

    def __init__(self) -> None:
        self._last_seconds = float("-inf")

    def is_due(self) -> bool:
        now_seconds = time.monotonic()
        if now_seconds - self._last_seconds < _REPORT_SECONDS:
            return False
        self._last_seconds = now_seconds
        return True


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _end_line(descriptor: int) -> None:
    """End the last line of a regular file if it is incomplete."""
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_size and os.pread(descriptor, 1, status.st_size - 1) != b"\n":
        _write_all(descriptor, b"\n")


def _call_functions(_logger: object, _method: str, event: EventDict) -> EventDict:
    return {name: value() if callable(value) else value for name, value in event.items()}


def _bound_fields(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Remove fields without a value, and limit the length of all others."""
    return {name: _bound(name, value) for name, value in event.items() if value not in _NOTHING}


def _bound(name: str, value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple):
        items = [_shorten(str(item), _MAX_CHARACTERS) for item in value[:_MAX_ITEMS]]
        return items if len(value) <= _MAX_ITEMS else [*items, f"... ({len(value)} in total)"]
    return _shorten(str(value), _MAX_QUERY_CHARACTERS if name == QUERY_TEXT else _MAX_CHARACTERS)


def _shorten(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}... ({len(text)} characters)"
