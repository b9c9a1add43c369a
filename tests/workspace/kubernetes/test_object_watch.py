"""Watches that break, go silent or expire (guarantees: workspace.kubernetes.object_watch)."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from kubernetes.client import ApiException, CustomObjectsApi
from kubernetes.watch import Watch

from tests.cluster.cluster import Cluster
from tests.records import a_record
from tests.workspace.kubernetes.tcp_proxy import TcpProxy
from workspace.kubernetes import object_watch
from workspace.kubernetes.api_server import ApiServer, RetryPolicy
from workspace.kubernetes.connect_session_objects import API_VERSION, GROUP, PLURAL
from workspace.kubernetes.connection import Connection
from workspace.kubernetes.object_watch import (
    ObjectChanged,
    ObjectsEvent,
    ObjectsListed,
    ObjectsUnreachable,
    watch_objects,
)
from workspace.record_store import SessionRecords

DEADLINE_SECONDS = 60


class Followed:
    """The events of a watch so far."""

    def __init__(
        self, connection: Connection, listing: Callable[..., Any] | None = None, stop: threading.Event | None = None
    ) -> None:
        self.events: list[ObjectsEvent] = []
        self.stop = stop or threading.Event()
        self.thread = threading.Thread(target=self._follow, args=(connection, listing), daemon=True)
        self.thread.start()

    def until(self, condition: Callable[[], object], what: str) -> None:
        deadline_seconds = time.monotonic() + DEADLINE_SECONDS
        while not condition():
            assert time.monotonic() < deadline_seconds, f"not in time: {what}; what was told: {self.events[-3:]}"
            time.sleep(0.01)

    def count(self, kind: type[ObjectsEvent]) -> int:
        return sum(isinstance(event, kind) for event in self.events)

    def _follow(self, connection: Connection, listing: Callable[..., Any] | None) -> None:
        server = ApiServer(connection, "session records", PLURAL, RetryPolicy(repeat_seconds=0.0))
        self.events.extend(watch_objects(server, listing or listing_of(connection), self.stop))


class StopWithoutPauses(threading.Event):
    """A stop event that records how long the watch wants to wait, and does not let it wait."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.pauses.append(timeout)
        return self.is_set()


def listing_of(connection: Connection) -> Callable[..., Any]:
    api = CustomObjectsApi(connection.api_client)

    def listing(**options: Any) -> Any:
        return api.list_namespaced_custom_object(
            group=GROUP,
            version=API_VERSION,
            namespace=connection.namespace,
            plural=PLURAL,
            field_selector=f"spec.instance={connection.instance}",
            **options,
        )

    return listing


@contextmanager
def following(
    connection: Connection, listing: Callable[..., Any] | None = None, stop: threading.Event | None = None
) -> Iterator[Followed]:
    followed = Followed(connection, listing, stop)
    try:
        followed.until(lambda: followed.events, "the first event")
        yield followed
    finally:
        followed.stop.set()
        followed.thread.join(DEADLINE_SECONDS)


@pytest.mark.slow
def test_guarantee_1_watch_that_ends_normally_continues_without_a_list(
    connection: Connection, records: SessionRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_watch, "WATCH_SECONDS", 2)
    watches: list[str] = []
    real = listing_of(connection)

    def listing(**options: Any) -> Any:
        if options.get("watch"):
            watches.append(options["resource_version"])
        return real(**options)

    with following(connection, listing) as followed:
        followed.until(lambda: len(watches) == 2, "the second watch")
        records.create(a_record())
        followed.until(lambda: followed.count(ObjectChanged) == 1, "the change")
        followed.until(lambda: len(watches) == 4, "the fourth watch")
        assert followed.count(ObjectsListed) == 1
        assert followed.count(ObjectChanged) == 1, "no change is told twice"


def test_guarantee_1_interrupted_watch_lists_again(
    proxied: Connection, proxy: TcpProxy, records: SessionRecords
) -> None:
    with following(proxied) as followed:
        stored = records.create(a_record())
        for round_number in range(1, 4):
            followed.until(lambda number=round_number: followed.count(ObjectChanged) == number, "the change")
            proxy.cut()
            followed.until(lambda number=round_number: followed.count(ObjectsListed) == number + 1, "a new list")
            stored = records.replace(replace(stored.record, created_at=str(round_number)), stored.version)


def test_guarantee_1_expired_watch_lists_again(connection: Connection, records: SessionRecords) -> None:
    real = listing_of(connection)
    with pytest.raises(ApiException) as gone:
        list(Watch().stream(real, resource_version="1", timeout_seconds=5))
    assert gone.value.status == 410
    watches = 0

    def listing(**options: Any) -> Any:
        nonlocal watches
        if options.get("watch"):
            watches += 1
            options |= {"resource_version": "1"} if watches == 1 else {}
        return real(**options)

    with following(connection, listing) as followed:
        followed.until(lambda: followed.count(ObjectsListed) == 2, "a new list")
        records.create(a_record())
        followed.until(lambda: followed.count(ObjectChanged) == 1, "the change")
        assert not followed.count(ObjectsUnreachable)


@pytest.mark.slow
def test_guarantee_1_restarted_server_is_listed_again(
    session_cluster: Cluster, connection: Connection, records: SessionRecords
) -> None:
    with following(connection) as followed:
        with session_cluster.api_server.stopped():
            followed.until(lambda: followed.count(ObjectsUnreachable), "that it is unreachable")
        records.create(a_record())
        followed.until(lambda: _knows_one(followed), "the record")


@pytest.mark.slow
def test_guarantee_2_silent_server_is_noticed(
    proxied: Connection, proxy: TcpProxy, records: SessionRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_watch, "SILENCE_SECONDS", 2.0)
    with following(proxied) as followed:
        proxy.is_silent = True
        followed.until(lambda: followed.count(ObjectsUnreachable), "that it is unreachable")
        records.create(a_record())
        proxy.is_silent = False
        followed.until(lambda: _knows_one(followed), "the record")


@pytest.mark.parametrize("is_silent", [False, True])
def test_guarantee_3_stopped_watch_ends_at_once(
    proxied: Connection, proxy: TcpProxy, records: SessionRecords, is_silent: bool
) -> None:
    with following(proxied) as followed:
        followed.until(lambda: followed.count(ObjectsListed) == 1, "the first list")
        records.create(a_record())
        followed.until(lambda: followed.count(ObjectChanged) >= 1, "it is in the watch")
        proxy.is_silent = is_silent
        followed.stop.set()
        followed.thread.join(object_watch.WATCH_SECONDS / 2)
        assert not followed.thread.is_alive()


def test_guarantee_4_refused_watches_are_retried_with_pauses(connection: Connection) -> None:
    real = listing_of(connection)

    def listing(**options: Any) -> Any:
        if options.get("watch"):
            raise ApiException(status=503, reason="no watches here")
        return real(**options)

    stop = StopWithoutPauses()
    with following(connection, listing, stop) as followed:
        followed.until(lambda: len(stop.pauses) >= 20, "20 pauses")
    assert max(stop.pauses) <= object_watch.LONGEST_PAUSE_SECONDS
    assert sum(stop.pauses[:20]) > 2 * object_watch.LONGEST_PAUSE_SECONDS


def _knows_one(followed: Followed) -> bool:
    return any(
        isinstance(event, ObjectChanged) or (isinstance(event, ObjectsListed) and len(event.objects) == 1)
        for event in followed.events
    )
