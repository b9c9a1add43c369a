"""The object cache after a failure of its watch; see the guarantees of :mod:`reaper.kubernetes.object_cache`."""

import threading
from collections.abc import Iterator
from typing import Any
from unittest import mock

import structlog

from reaper.kubernetes.object_cache import ObjectCache
from tests.fixture_types import WaitUntil
from workspace.kubernetes.object_watch import ObjectChanged, ObjectsEvent, ObjectsListed

MODULE = "reaper.kubernetes.object_cache"


def test_guarantee_4_watch_restarts_after_unexpected_error(wait_until: WaitUntil) -> None:
    first, damaged, second = an_object("a", size=1), an_object("a"), an_object("b", size=2)
    watches = iter([[ObjectsListed((first,)), ObjectChanged(damaged)], [ObjectsListed((second,))]])

    def watch_objects(_server: object, _listing: object, stop: threading.Event) -> Iterator[ObjectsEvent]:
        yield from next(watches)
        stop.wait()

    known = list[Any]()
    cache = ObjectCache(mock.Mock(), "things", mock.Mock(), lambda content: content["size"])
    with (
        mock.patch(f"{MODULE}.watch_objects", watch_objects),
        mock.patch("workspace.watch_loop._PAUSE_SECONDS", 0.05),
        structlog.testing.capture_logs() as logs,
        cache.watch(lambda: known.append(cache.values())),
    ):
        wait_until(lambda: len(known) == 3, "the objects are known again")
    assert known == [{"a": 1}, None, {"b": 2}], "outdated objects are not shown"
    assert [log["event"] for log in logs] == ["object_cache_failed", "objects_not_watched", "objects_watched_again"]


def an_object(name: str, **parts: object) -> dict[str, Any]:
    return {"metadata": {"name": name}, **parts}
