"""Session records as a cache knows them, and whether that cache can be trusted.

Why it exists: a pass needs all session records, and there may be ten thousand of them and a pass every second; reading
them each time would cost the API server more than all gateways together. But a cache may be wrong without knowing it.

Guarantees:

1. A cache that says that it is not current is not read: RecordsUnavailableError.
2. Once in each resynchronisation period all records are read from their storage, and a pass goes by these.
3. A difference between them and the cache that the cache does not make good within ``SETTLING_SECONDS``, and that the
   storage still shows when asked for that record, makes it distrusted: it is given up for a new one, and until that has
   listed all records, RecordsUnavailableError. A session that began and ended meanwhile is no such difference.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from workspace.record_cache import RecordCache
from workspace.records import (
    RecordName,
    RecordNotFoundError,
    RecordsUnavailableError,
    SessionRecords,
    StoredRecord,
)

SETTLING_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _Doubt:
    """Records that the cache showed otherwise than their storage: as it showed them, and since when."""

    shown: Mapping[RecordName, StoredRecord | None]
    since_seconds: float


class CachedRecords:
    """To be read by one thread, while it is kept. See the module's guarantees.

    Args:
        records: The storage.
        resync_seconds: The resynchronisation period.
        monotonic: A clock, in seconds.
        log: Where distrust is told.
    """

    def __init__(
        self,
        records: SessionRecords,
        *,
        resync_seconds: float,
        monotonic: Callable[[], float],
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._records = records
        self._resync_seconds = resync_seconds
        self._monotonic = monotonic
        self._log = log
        self._listed = threading.Event()
        self._on_change: Callable[[], None] = self._listed.set
        self._cache = RecordCache(records, self._changed)
        self._next_resync_seconds = monotonic() + resync_seconds
        self._doubt: _Doubt | None = None

    @contextmanager
    def watch(self, on_change: Callable[[], None]) -> Iterator[None]:
        """Keeps the cache for the time of the block.

        Args:
            on_change: Called when the cache changed; must be quick.
        """
        self._on_change = on_change
        self._cache.__enter__()
        try:
            yield
        finally:
            self._cache.__exit__()

    def wait_until_known(self, wait_seconds: float) -> None:
        """Waits until the cache has asked for the records, with or without an answer; not longer than so long."""
        self._listed.wait(wait_seconds)

    def read(self) -> Sequence[StoredRecord]:
        """Raises: RecordsUnavailableError"""
        view = self._cache.view()
        if not view.is_current:
            raise RecordsUnavailableError(None, view.reason)
        now_seconds = self._monotonic()
        self._check_doubt(view.records, now_seconds)
        if now_seconds < self._next_resync_seconds:
            return list(view.records.values())
        listed = self._records.list()
        self._next_resync_seconds = now_seconds + self._resync_seconds
        self._doubt = _doubt(view.records, {stored.record.name: stored for stored in listed}, now_seconds)
        return listed

    def _changed(self) -> None:
        self._listed.set()
        self._on_change()

    def _check_doubt(self, shown: Mapping[RecordName, StoredRecord], now_seconds: float) -> None:
        doubt = self._doubt
        if doubt is None or now_seconds - doubt.since_seconds < SETTLING_SECONDS:
            return
        unsettled = [name for name, was in doubt.shown.items() if shown.get(name) == was]
        missed = next((name for name in unsettled if self._stored(name) != shown.get(name)), None)
        self._doubt = None
        if missed is None:
            return
        self._log.warning("record_cache_distrusted", records=len(unsettled), example=missed)
        self._cache.__exit__()
        self._cache = RecordCache(self._records, self._changed).__enter__()
        raise RecordsUnavailableError(
            missed, f"The watch of session records missed a change of {missed}; it is begun anew."
        )

    def _stored(self, name: RecordName) -> StoredRecord | None:
        """Raises: RecordsUnavailableError"""
        try:
            return self._records.read(name)
        except RecordNotFoundError:
            return None


def _doubt(
    shown: Mapping[RecordName, StoredRecord], listed: Mapping[RecordName, StoredRecord], now_seconds: float
) -> _Doubt | None:
    different = {name: shown.get(name) for name in shown.keys() | listed.keys() if shown.get(name) != listed.get(name)}
    return _Doubt(different, now_seconds) if different else None
