"""Records from a cache that may be wrong; see the guarantees of :mod:`reaper.cached_records`."""

import threading
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
import structlog

from reaper.cached_records import SETTLING_SECONDS, CachedRecords
from tests.fixture_types import WaitUntil
from workspace.record_store import RecordsEvent, RecordsListed, RecordsUnavailableError, RecordsUnreachable

RESYNC_SECONDS = 100.0


class FaultyWatch:
    """Records whose watch reports the first list and then only what the test sends."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.list = world.records.list
        self.read = world.records.read
        self.listings = 0
        self._next: list[RecordsEvent] = []
        self._changed = threading.Condition()

    def tell(self, event: RecordsEvent) -> None:
        with self._changed:
            self._next.append(event)
            self._changed.notify()

    def watch(self, stop: threading.Event) -> Iterator[RecordsEvent]:
        self.listings += 1
        yield RecordsListed(tuple(self.list()))
        while not stop.is_set():
            with self._changed:
                self._changed.wait(0.05)
                events, self._next = self._next, []
            yield from events


@pytest.fixture
def faulty(world: Any) -> FaultyWatch:
    return FaultyWatch(world)


@pytest.fixture
def cached(world: Any, faulty: FaultyWatch) -> Iterator[CachedRecords]:
    found = CachedRecords(
        faulty,  # type: ignore[arg-type]  # lists, reads and watches
        resync_seconds=RESYNC_SECONDS,
        monotonic=lambda: world.now_seconds,
        log=structlog.get_logger(),
    )
    with found.watch(lambda: None):
        found.wait_for_first_list(30)
        yield found


def test_reads_come_from_the_watch_and_not_from_the_storage(world: Any, cached: CachedRecords) -> None:
    assert cached.read() == []
    world.start_session()
    assert cached.read() == []


def test_guarantee_1_outdated_cache_is_not_read(
    cached: CachedRecords, faulty: FaultyWatch, wait_until: WaitUntil
) -> None:
    def is_refused() -> bool:
        try:
            cached.read()
        except RecordsUnavailableError as error:
            return str(error) == "the server is away"
        return False

    faulty.tell(RecordsUnreachable("the server is away"))
    wait_until(is_refused, "it is refused")
    faulty.tell(RecordsListed(()))
    wait_until(lambda: not is_refused(), "it is read again")


def test_guarantee_2_storage_is_read_once_per_period(world: Any, cached: CachedRecords) -> None:
    stored = world.start_session()
    world.now_seconds += RESYNC_SECONDS
    assert cached.read() == [stored]
    assert cached.read() == []


def test_guarantee_3_cache_with_lasting_difference_is_replaced(
    world: Any, cached: CachedRecords, faulty: FaultyWatch, wait_until: WaitUntil
) -> None:
    stored = world.start_session()
    world.now_seconds += RESYNC_SECONDS
    cached.read()
    world.now_seconds += SETTLING_SECONDS
    with (
        structlog.testing.capture_logs() as logs,
        pytest.raises(RecordsUnavailableError, match="missed a change of"),
    ):
        cached.read()
    assert [log["event"] for log in logs] == ["record_cache_distrusted"]
    wait_until(lambda: faulty.listings == 2, "a new watch lists everything")
    wait_until(lambda: _is_read(cached, [stored]), "the new cache is read")


def test_guarantee_3_late_cache_is_trusted(
    world: Any, cached: CachedRecords, faulty: FaultyWatch, wait_until: WaitUntil
) -> None:
    stored = world.start_session()
    world.now_seconds += RESYNC_SECONDS
    cached.read()
    faulty.tell(RecordsListed((stored,)))
    wait_until(lambda: cached.read() == [stored], "the watch has reported it")
    world.now_seconds += SETTLING_SECONDS
    assert cached.read() == [stored]
    assert faulty.listings == 1


def test_guarantee_3_short_session_during_a_read_is_no_difference(
    world: Any, cached: CachedRecords, faulty: FaultyWatch
) -> None:
    stored = world.start_session()
    world.now_seconds += RESYNC_SECONDS
    assert cached.read() == [stored], "the cache does not contain it yet"
    world.records.delete(stored.record.name, stored.version)
    world.now_seconds += SETTLING_SECONDS
    assert cached.read() == []
    assert faulty.listings == 1


def test_difference_is_kept_while_the_storage_cannot_be_read(
    world: Any, cached: CachedRecords, faulty: FaultyWatch
) -> None:
    world.start_session()
    world.now_seconds += RESYNC_SECONDS
    cached.read()
    world.now_seconds += SETTLING_SECONDS
    with (
        mock.patch.object(faulty, "read", side_effect=RecordsUnavailableError(None, "down")),
        pytest.raises(RecordsUnavailableError, match="down"),
    ):
        cached.read()
    with pytest.raises(RecordsUnavailableError, match="missed a change of"):
        cached.read()


def _is_read(cached: CachedRecords, records: list[Any]) -> bool:
    try:
        return cached.read() == records
    except RecordsUnavailableError:
        return False
