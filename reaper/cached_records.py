"""Session records from a cache, with checks that the cache is correct.

Each pass needs all session records. With ten thousand records and one pass each second, reading the records from the
API server would be more expensive than the requests of all gateways together. However, a cache may be outdated without
noticing it.

Guarantees:

1. A cache that reports that it is not current is not used. The reader gets a RecordsUnavailableError.
2. Once in each resynchronization period, all records are read from their storage, and the pass uses these records.
3. If the cache differs from the storage for more than ``SETTLING_SECONDS``, and the storage still shows the difference
   when the record is read again, the cache is replaced. Until the new cache has listed all records, the reader gets a
   RecordsUnavailableError. A session that began and ended between the two reads does not count as a difference.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from workspace.identifiers import RecordName
from workspace.record_cache import RecordCache
from workspace.record_store import RecordNotFoundError, RecordsUnavailableError, SessionRecords, StoredRecord

SETTLING_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _Doubt:
    """Records that differ between the cache and the storage.

    Attributes:
        shown: The records in the cache. The value is None for a record that the cache does not contain.
        since_seconds: The monotonic time when the difference was found.
    """

    shown: Mapping[RecordName, StoredRecord | None]
    since_seconds: float


class CachedRecords:
    """All session records, from a cache. Only one thread may read them at a time.

    The records can be read while ``watch`` is active.

    Args:
        records: The storage of the records.
        resync_seconds: The resynchronization period.
        monotonic: A function that returns the current time of a monotonic clock, in seconds.
        log: The logger for differences.
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
        self._cache = RecordCache(records, self._notify)
        self._next_resync_seconds = monotonic() + resync_seconds
        self._doubt: _Doubt | None = None

    @contextmanager
    def watch(self, on_change: Callable[[], None]) -> Iterator[None]:
        """Watch the records for the duration of the block.

        Args:
            on_change: A function that is called after each change. It must return quickly.
        """
        self._on_change = on_change
        self._cache.__enter__()
        try:
            yield
        finally:
            self._cache.__exit__()

    def wait_for_first_list(self, wait_seconds: float) -> None:
        """Wait until the cache has requested the records once, or until a timeout.

        The request may have failed.
        """
        self._listed.wait(wait_seconds)

    def read(self) -> Sequence[StoredRecord]:
        """Return all session records.

        Raises:
            RecordsUnavailableError: If the cache is not current or the storage cannot be read.
        """
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

    def _notify(self) -> None:
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
        self._cache = RecordCache(self._records, self._notify).__enter__()
        raise RecordsUnavailableError(
            missed, f"The watch of session records missed a change of [{missed}], so it is restarted."
        )

    def _stored(self, name: RecordName) -> StoredRecord | None:
        """Return a record from the storage, or None if it does not exist.

        Raises:
            RecordsUnavailableError: If the storage cannot be read.
        """
        try:
            return self._records.read(name)
        except RecordNotFoundError:
            return None


def _doubt(
    shown: Mapping[RecordName, StoredRecord], listed: Mapping[RecordName, StoredRecord], now_seconds: float
) -> _Doubt | None:
    different = {name: shown.get(name) for name in shown.keys() | listed.keys() if shown.get(name) != listed.get(name)}
    return _Doubt(different, now_seconds) if different else None
