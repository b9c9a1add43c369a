"""A watch of objects of the Kubernetes API that survives every failure.

A watch ends often: the server ends it, restarts, forgets its position (``410 Gone``), or goes silent on a connection
that looks alive. The shared informer of the Kubernetes client waits for ever on a silent connection, retries without a
pause, takes a list of custom objects for an empty one, and does not say whether its state is current. Only its
``Watch`` is used here, to read events.

Guarantees:

1. The first event is :class:`ObjectsListed`, or :class:`ObjectsUnreachable` and then that. Objects are listed again
   whenever a change may have been missed. Only a watch that the server ended normally continues at its position.
2. A silence of the server is noticed after :data:`SILENCE_SECONDS` at most.
3. When the watch is stopped, it ends at once, except during a list.
4. After failed attempts, and after watches that end immediately, there are pauses that grow up to
   :data:`LONGEST_PAUSE_SECONDS`.

Source: [kubernetes-api "Efficient detection of changes"].
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tenacity
import urllib3
from kubernetes.client import ApiException
from kubernetes.config import ConfigException
from kubernetes.watch import Watch

from workspace.kubernetes.api_server import ApiServer, JsonObject, is_object
from workspace.kubernetes.connection import REQUEST_TIMEOUT_SECONDS
from workspace.record_store import RecordsUnavailableError

WATCH_SECONDS = 20
"""How long a watch lasts before the server ends it and the next one continues."""

SILENCE_SECONDS = 25.0
LONGEST_PAUSE_SECONDS = 5.0

_SHORT_SECONDS = 1.0
_STOP_CHECK_SECONDS = 0.2
_PAUSE = tenacity.wait_random_exponential(multiplier=0.1, max=LONGEST_PAUSE_SECONDS)
_CHANGES = frozenset({"ADDED", "MODIFIED"})
_EVENT_TYPES = _CHANGES | {"DELETED"}


@dataclass(frozen=True, slots=True)
class ObjectsListed:
    """The list of all objects. Replaces the previous state of the watcher."""

    objects: tuple[JsonObject, ...]


@dataclass(frozen=True, slots=True)
class ObjectChanged:
    """An object was created or changed."""

    content: JsonObject


@dataclass(frozen=True, slots=True)
class ObjectGone:
    """An object was deleted; ``content`` is its last state."""

    content: JsonObject


@dataclass(frozen=True, slots=True)
class ObjectsUnreachable:
    """The server does not answer.

    The state of a watcher may be stale until the next :class:`ObjectsListed`.
    """

    reason: str


ObjectsEvent = ObjectsListed | ObjectChanged | ObjectGone | ObjectsUnreachable


def watch_objects(server: ApiServer, listing: Callable[..., Any], stop: threading.Event) -> Iterator[ObjectsEvent]:
    """Yield the changes of objects until ``stop`` is set.

    Args:
        server: Lists the objects; it should not retry, because the watch does.
        listing: A list function of the Kubernetes client, with its arguments.
        stop: Ends the watch when it is set.
    """
    failures = 0
    while not stop.is_set():
        begun_seconds = time.monotonic()
        try:
            objects, resource_version = server.list_all(listing)
        except RecordsUnavailableError as error:
            yield ObjectsUnreachable(str(error))
        else:
            yield ObjectsListed(tuple(objects))
            yield from _changes(listing, resource_version, stop)
        is_failure = time.monotonic() - begun_seconds < _SHORT_SECONDS
        failures = failures + 1 if is_failure else 0
        stop.wait(_pause_seconds(failures))


def _changes(listing: Callable[..., Any], resource_version: str, stop: threading.Event) -> Iterator[ObjectsEvent]:
    """Yield changes until the watch is stopped, or may have missed a change."""
    watch = Watch(return_type="object")  # type: ignore[no-untyped-call]  # the library's
    watch.resource_version = resource_version
    with _stop_with(stop, watch):
        lasted_seconds = float("inf")
        while not stop.is_set() and lasted_seconds >= _SHORT_SECONDS:
            begun_seconds = time.monotonic()
            try:
                yield from _stream(watch, listing)
            except (urllib3.exceptions.HTTPError, ApiException, ConfigException, OSError, ValueError, LookupError):
                return  # the list that follows reports a lasting problem
            lasted_seconds = time.monotonic() - begun_seconds


def _stream(watch: Watch, listing: Callable[..., Any]) -> Iterator[ObjectsEvent]:
    """Yield the changes of one request; the watch remembers its position."""
    events = watch.stream(  # type: ignore[no-untyped-call]  # the library's
        listing,
        resource_version=watch.resource_version,
        allow_watch_bookmarks=True,
        timeout_seconds=WATCH_SECONDS,
        _request_timeout=(REQUEST_TIMEOUT_SECONDS[0], SILENCE_SECONDS),
    )
    for event in events:
        if event is None:
            raise ValueError("the answer of the server was cut off")
        if event["type"] in _EVENT_TYPES and not is_object(event["object"]):
            raise ValueError("the server sent an event without an object")
        if event["type"] in _CHANGES:
            yield ObjectChanged(event["object"])
        elif event["type"] == "DELETED":
            yield ObjectGone(event["object"])


@contextmanager
def _stop_with(stop: threading.Event, watch: Watch) -> Iterator[None]:
    """Stop the watch when ``stop`` is set.

    A watch that waits for data would not notice it.
    """
    has_ended = threading.Event()

    def cut() -> None:
        while not has_ended.wait(_STOP_CHECK_SECONDS):
            if stop.is_set():
                watch.stop()  # type: ignore[no-untyped-call]  # the library's

    thread = threading.Thread(target=cut, name="watch-stop", daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()


def _pause_seconds(failures: int) -> float:
    state = tenacity.RetryCallState(None, None, (), {})  # type: ignore[arg-type]  # only its attempt counts
    state.attempt_number = failures + 1
    return _PAUSE(state)
