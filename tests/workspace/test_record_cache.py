"""The cache of session records (guarantees: workspace.record_cache)."""

import threading
from collections.abc import Callable, Iterator
from unittest import mock

import structlog

from tests.fixture_types import Outage, WaitUntil
from tests.records import a_record
from workspace.identifiers import ClientSessionId, ReplicaId
from workspace.record_cache import RecordCache, RecordsView
from workspace.record_changes import add_holder
from workspace.record_store import RecordsEvent, RecordsListed, SessionRecords

Opener = Callable[[], SessionRecords]


def test_view_follows_the_records(records: SessionRecords, wait_until: WaitUntil) -> None:
    first = records.create(a_record(client_session_id=ClientSessionId("1")))
    with RecordCache(records, lambda: None) as cache:
        wait_until(lambda: cache.view().is_current, "the cache is current")
        assert cache.view().records == {first.record.name: first}
        second = records.create(a_record(client_session_id=ClientSessionId("2")))
        first = records.replace(add_holder(first.record, ReplicaId("a")), first.version)
        wait_until(
            lambda: cache.view().records == {first.record.name: first, second.record.name: second}, "both changes"
        )
        records.delete(first.record.name, first.version)
        wait_until(lambda: cache.view().records == {second.record.name: second}, "the deletion")


def test_guarantee_1_view_says_when_it_may_be_stale(
    open_records: Opener, outage: Outage, wait_until: WaitUntil
) -> None:
    records = open_records()
    stored = records.create(a_record())
    cache = RecordCache(open_records(), lambda: None)
    assert not cache.view().is_current
    assert cache.view().reason
    with cache:
        wait_until(lambda: cache.view().is_current, "the cache is current")
        with outage():
            wait_until(lambda: not cache.view().is_current, "the cache is old")
            assert "cannot be used now" in cache.view().reason
            assert cache.view().records == {stored.record.name: stored}
        wait_until(lambda: cache.view().is_current, "the cache is current again")
    assert not cache.view().is_current, "nobody follows the records any more"


def test_guarantee_2_on_change_runs_after_each_visible_change(records: SessionRecords) -> None:
    seen: list[int] = []
    told = threading.Semaphore(0)

    def look() -> None:
        seen.append(len(cache.view().records))
        told.release()

    with (cache := RecordCache(records, look)):
        assert told.acquire(timeout=30)
        records.create(a_record())
        assert told.acquire(timeout=30)
    assert seen[:2] == [0, 1]


def test_guarantee_3_watch_restarts_after_an_unexpected_error(records: SessionRecords, wait_until: WaitUntil) -> None:
    watch, views = records.watch, list[RecordsView]()

    def fails(stop: threading.Event) -> Iterator[RecordsEvent]:
        yield RecordsListed(())
        raise KeyError("items")

    watches = iter([fails, watch])
    with (
        mock.patch("workspace.watch_loop._PAUSE_SECONDS", 0.05),
        mock.patch.object(records, "watch", lambda stop: next(watches)(stop)),
        structlog.testing.capture_logs() as logs,
        (cache := RecordCache(records, lambda: views.append(cache.view()))),
    ):
        wait_until(lambda: len(views) == 3, "the watch restarts")
        assert [view.is_current for view in views] == [True, False, True]
        assert "items" in views[1].reason
        stored = records.create(a_record())
        wait_until(lambda: cache.view().records == {stored.record.name: stored}, "it follows")
    assert [log["event"] for log in logs] == ["record_cache_failed"]


def test_view_does_not_change(records: SessionRecords, wait_until: WaitUntil) -> None:
    with RecordCache(records, lambda: None) as cache:
        wait_until(lambda: cache.view().is_current, "the cache is current")
        before = cache.view()
        records.create(a_record())
        wait_until(lambda: cache.view().records, "the record")
        assert not before.records
