"""All session records in memory, kept up to date by a watch.

Why it exists: who must often look at all sessions should not read all of them each time.

Guarantees:

1. A view says whether it is current: every change that the storage has told of is in it, and the storage was not found
   unreachable since. A view that is not current still has what was known last.
2. ``on_change`` is called after whatever made a view different, from the cache's own thread.
3. An unexpected error makes the view one that is not current, and the watch begins anew.

Not guaranteed: that a current view has the latest change. Nothing may be deleted because a record is missing in a view;
that is what :meth:`workspace.records.SessionRecords.list` and ``find`` are for.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

import structlog

from workspace.records import (
    RecordChanged,
    RecordGone,
    RecordName,
    RecordsEvent,
    RecordsListed,
    RecordsUnreachable,
    SessionRecords,
    StoredRecord,
)
from workspace.watch_loop import run_watch_loop

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RecordsView:
    """What was known at one moment.

    Attributes:
        records: By name.
        is_current: See guarantee 1.
        reason: Why it is not current; empty if it is.
    """

    records: Mapping[RecordName, StoredRecord]
    is_current: bool
    reason: str


class RecordCache:
    """A cache for ``with``: it watches from entering to leaving.

    Args:
        records: What is watched.
        on_change: Must not block for long, and raise nothing.
    """

    def __init__(self, records: SessionRecords, on_change: Callable[[], None]) -> None:
        self._records = records
        self._on_change = on_change
        self._known: dict[RecordName, StoredRecord] = {}
        self._reason = "the records have not been listed yet"
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="record-cache", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def view(self) -> RecordsView:
        with self._lock:
            return RecordsView(self._known.copy(), not self._reason, self._reason)

    def _follow(self) -> None:
        try:
            run_watch_loop(self._records.watch, self._tell, self._failed, self._stop)
        finally:
            with self._lock:
                self._reason = "the watch has ended"

    def _failed(self, error: Exception) -> None:
        _log.exception("record_cache_failed")
        self._tell(RecordsUnreachable(f"The watch of session records failed: {error}"))

    def _tell(self, event: RecordsEvent) -> None:
        with self._lock:
            self._take(event)
        self._on_change()

    def _take(self, event: RecordsEvent) -> None:
        match event:
            case RecordsListed(records):
                self._known = {stored.record.name: stored for stored in records}
                self._reason = ""
            case RecordChanged(stored):
                self._known[stored.record.name] = stored
            case RecordGone(name):
                self._known.pop(name, None)
            case RecordsUnreachable(reason):
                self._reason = reason
