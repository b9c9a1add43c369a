"""An in-memory copy of all session records, which a watch keeps up to date.

With the copy, a caller that often needs all sessions does not have to read all records each time.

Guarantees:

1. A view contains the information whether it is current. A current view contains every change that the storage has
   reported, and the storage has been reachable since then. A view that is not current contains the last known state.
2. ``on_change`` is called after each event that may change a view, in the thread of the cache.
3. After an unexpected error, the view is not current and the watch is restarted.

Not guaranteed: A current view may lack the latest change. Do not delete anything only because its record is missing
from a view. Call :meth:`workspace.record_store.SessionRecords.list` or ``find`` first.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from workspace import record_store
from workspace.background_thread import BackgroundThread
from workspace.identifiers import RecordName
from workspace.watch_loop import run_watch_loop

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RecordsView:
    """The known session records at one moment.

    Attributes:
        records: The records by name.
        is_current: Whether the view is current; see guarantee 1.
        reason: The reason why the view is not current. Empty if the view is current.
    """

    records: Mapping[RecordName, record_store.StoredRecord]
    is_current: bool
    reason: str


class RecordCache(BackgroundThread):
    """A context manager that watches session records while it is open.

    Args:
        records: The storage of the records to watch.
        on_change: A function that is called after each event. It must return quickly and must not raise exceptions.
    """

    def __init__(self, records: record_store.SessionRecords, on_change: Callable[[], None]) -> None:
        super().__init__("record-cache", self._run)
        self._records = records
        self._on_change = on_change
        self._known: dict[RecordName, record_store.StoredRecord] = {}
        self._reason = "the records have not been listed yet"
        self._lock = threading.Lock()

    def view(self) -> RecordsView:
        """Return the currently known records."""
        with self._lock:
            return RecordsView(self._known.copy(), not self._reason, self._reason)

    def _run(self) -> None:
        try:
            run_watch_loop(self._records.watch, self._handle, self._handle_error, self.stopping)
        finally:
            with self._lock:
                self._reason = "the watch has ended"

    def _handle_error(self, error: Exception) -> None:
        _log.exception("record_cache_failed")
        self._handle(record_store.RecordsUnreachable(f"Watching the session records failed: {error}"))

    def _handle(self, event: record_store.RecordsEvent) -> None:
        with self._lock:
            self._apply(event)
        self._on_change()

    def _apply(self, event: record_store.RecordsEvent) -> None:
        match event:
            case record_store.RecordsListed(records):
                self._known = {stored.record.name: stored for stored in records}
                self._reason = ""
            case record_store.RecordChanged(stored):
                self._known[stored.record.name] = stored
            case record_store.RecordGone(name):
                self._known.pop(name, None)
            case record_store.RecordsUnreachable(reason):
                self._reason = reason
