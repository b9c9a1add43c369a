"""A cache of Kubernetes objects that is kept up to date by a watch.

Guarantees:

1. The cache stores only those parts of each object that the caller selects.
2. While the API server does not answer or denies the watch, the cache is empty and does not contain outdated values.
3. The caller is notified if, and only if, the stored values change.
4. After an unexpected error, the cache is empty and the watch is restarted.

Not guaranteed: Changes may arrive with a delay.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, TypeVar

import structlog

from workspace.background_thread import BackgroundThread
from workspace.kubernetes.api_server import ApiServer, JsonObject, RetryPolicy
from workspace.kubernetes.connection import Connection
from workspace.kubernetes.object_watch import (
    ObjectChanged,
    ObjectGone,
    ObjectsEvent,
    ObjectsListed,
    ObjectsUnreachable,
    watch_objects,
)
from workspace.watch_loop import run_watch_loop

_Kept = TypeVar("_Kept")

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class ObjectCache(Generic[_Kept]):
    """Values that were selected from Kubernetes objects, by object name.

    Args:
        connection: The connection to the API server.
        resource: The plural name of the objects in the API, such as ``pods``.
        listing: A list function of the Kubernetes client, with all its arguments bound.
        take: A function that returns the value to store for an object.
    """

    def __init__(
        self, connection: Connection, resource: str, listing: Callable[..., Any], take: Callable[[JsonObject], _Kept]
    ) -> None:
        self._resource = resource
        self._server = ApiServer(connection, resource, resource, RetryPolicy(repeat_seconds=0.0))
        self._listing = listing
        self._take = take
        self._kept: Mapping[str, _Kept] | None = None
        self._is_unreachable = False

    @contextmanager
    def watch(self, on_change: Callable[[], None]) -> Iterator[None]:
        """Watch the objects for the duration of the block.

        This method can be called only once.

        Args:
            on_change: A function that is called by the watching thread after a change. It must return quickly.
        """
        self._thread = BackgroundThread(f"watch-{self._resource}", partial(self._watch, on_change))
        self._thread.start()
        try:
            yield
        finally:
            self._thread.stopping.set()

    def values(self) -> Mapping[str, _Kept] | None:
        """Return the stored values, or None while they are unknown."""
        return self._kept

    def _watch(self, on_change: Callable[[], None]) -> None:
        def take(event: ObjectsEvent) -> None:
            before = self._kept
            self._kept = self._after(event, before)
            if self._kept != before:
                on_change()

        def failed(error: Exception) -> None:
            _log.exception("object_cache_failed", resource=self._resource)
            take(ObjectsUnreachable(f"Watching {self._resource} failed: {error}"))

        run_watch_loop(partial(watch_objects, self._server, self._listing), take, failed, self._thread.stopping)

    def _after(self, event: ObjectsEvent, before: Mapping[str, _Kept] | None) -> Mapping[str, _Kept] | None:
        match event:
            case ObjectsListed(objects):
                self._log_reachability(None)
                return {_name(content): self._take(content) for content in objects}
            case ObjectChanged(content):
                return {**(before or {}), _name(content): self._take(content)}
            case ObjectGone(content):
                return {name: value for name, value in (before or {}).items() if name != _name(content)}
            case ObjectsUnreachable(reason):
                self._log_reachability(reason)
                return None

    def _log_reachability(self, reason: str | None) -> None:
        """Log when the objects become unreachable and when they are reachable again."""
        if self._is_unreachable == (reason is not None):
            return
        self._is_unreachable = reason is not None
        if reason is not None:
            _log.warning("objects_not_watched", resource=self._resource, reason=reason)
        else:
            _log.info("objects_watched_again", resource=self._resource)


def _name(content: JsonObject) -> str:
    return str(content["metadata"]["name"])
