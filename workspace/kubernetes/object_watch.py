"""A watch of Kubernetes objects that continues after every kind of error.

Watches end often: The server ends a watch, restarts, no longer knows the requested position (``410 Gone``), or stops
sending data on a connection that looks alive. The shared informer of the Kubernetes client has several problems. It
waits for ever on a silent connection, retries without a pause, mistakes a list of custom objects for an empty list,
and does not tell whether its state is current. Therefore, this module uses only the client's ``Watch``, to read
events.

Guarantees:

1. The first event is :class:`ObjectsListed`, possibly after :class:`ObjectsUnreachable`. Objects are listed again
   whenever a change may have been missed. A watch continues at its last position only if the server ended the previous
   watch normally.
2. If the server stops sending data, this is noticed after at most :data:`SILENCE_SECONDS`.
3. If the watch is stopped, it ends immediately, except during a list.
4. After failed attempts, and after watches that end immediately, there are pauses. They increase up to
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

from workspace.background_thread import BackgroundThread
from workspace.kubernetes.api_server import ApiServer, JsonObject, is_object
from workspace.kubernetes.connection import REQUEST_TIMEOUT_SECONDS
from workspace.record_store import RecordsUnavailableError

WATCH_SECONDS = 20
"""The duration of a watch, after which the server ends it and the next watch continues."""

SILENCE_SECONDS = 25.0
LONGEST_PAUSE_SECONDS = 5.0

_SHORT_SECONDS = 1.0
_STOP_CHECK_SECONDS = 0.2
_PAUSE = tenacity.wait_random_exponential(multiplier=0.1, max=LONGEST_PAUSE_SECONDS)
_CHANGES = frozenset({"ADDED", "MODIFIED"})
_EVENT_TYPES = _CHANGES | {"DELETED"}


@dataclass(frozen=True, slots=True)
class ObjectsListed:
    """Event with a list of all objects, which replaces the watcher's previous state.

    The objects were converted, if the caller of the watch specified a conversion.
    """

    objects: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ObjectChanged:
    """Event for an object that was created or changed."""

    content: JsonObject


@dataclass(frozen=True, slots=True)
class ObjectGone:
    """Event for an object that was deleted.

    ``content`` is the last state of the object.
    """

    content: JsonObject


@dataclass(frozen=True, slots=True)
class ObjectsUnreachable:
    """Event that reports that the server does not answer.

    The watcher's state may be outdated until the next :class:`ObjectsListed`.
    """

    reason: str


ObjectsEvent = ObjectsListed | ObjectChanged | ObjectGone | ObjectsUnreachable


def watch_objects(
    server: ApiServer,
    listing: Callable[..., Any],
    stop: threading.Event,
    convert_listed: Callable[[JsonObject], Any] = lambda found: found,
) -> Iterator[ObjectsEvent]:
    """Yield an event for each change of an object until ``stop`` is set.

    Args:
        server: The client that lists the objects. It should not retry requests, because the watch does.
        listing: A list function of the Kubernetes client, with all its arguments bound.
        stop: The event that ends the watch when it is set.
        convert_listed: A function that converts listed objects page by page. It may raise RecordsUnavailableError.
    """
    failures = 0
    while not stop.is_set():
        begun_seconds = time.monotonic()
        try:
            objects, resource_version = server.list_converted(listing, convert_listed)
        except RecordsUnavailableError as error:
            yield ObjectsUnreachable(str(error))
        else:
            yield ObjectsListed(tuple(objects))
            yield from _changes(listing, resource_version, stop)
        is_failure = time.monotonic() - begun_seconds < _SHORT_SECONDS
        failures = failures + 1 if is_failure else 0
        stop.wait(_pause_seconds(failures))


def _changes(listing: Callable[..., Any], resource_version: str, stop: threading.Event) -> Iterator[ObjectsEvent]:
    """Yield changes until the watch is stopped or may have missed a change."""
    watch = Watch(return_type="object")  # type: ignore[no-untyped-call]  # the library's
    watch.resource_version = resource_version
    with _stop_with(stop, watch):
        lasted_seconds = float("inf")
        while not stop.is_set() and lasted_seconds >= _SHORT_SECONDS:
            begun_seconds = time.monotonic()
            try:
                yield from _stream(watch, listing)
            except (urllib3.exceptions.HTTPError, ApiException, ConfigException, OSError, ValueError, LookupError):
                return  # if the problem persists, the next list reports it
            lasted_seconds = time.monotonic() - begun_seconds


def _stream(watch: Watch, listing: Callable[..., Any]) -> Iterator[ObjectsEvent]:
    """Yield the changes in the response to a single request.

    The watch remembers its position for the next request.
    """
    events = watch.stream(  # type: ignore[no-untyped-call]  # the library's
        listing,
        resource_version=watch.resource_version,
        allow_watch_bookmarks=True,
        timeout_seconds=WATCH_SECONDS,
        _request_timeout=(REQUEST_TIMEOUT_SECONDS[0], SILENCE_SECONDS),
    )
    for event in events:
        if event is None:
            raise ValueError("the response of the server was cut off")
        if event["type"] in _EVENT_TYPES and not is_object(event["object"]):
            raise ValueError("the server sent an event without an object")
        if event["type"] in _CHANGES:
            yield ObjectChanged(event["object"])
        elif event["type"] == "DELETED":
            yield ObjectGone(event["object"])


@contextmanager
def _stop_with(stop: threading.Event, watch: Watch) -> Iterator[None]:
    """Stop the watch when ``stop`` is set.

    Without this, a watch that is waiting for data would not be stopped.
    """

    def cut() -> None:
        while not thread.stopping.wait(_STOP_CHECK_SECONDS):
            if stop.is_set():
                watch.stop()  # type: ignore[no-untyped-call]  # the library's

    thread = BackgroundThread("watch-stop", cut)
    thread.start()
    try:
        yield
    finally:
        thread.stopping.set()


def _pause_seconds(failures: int) -> float:
    state = tenacity.RetryCallState(None, None, (), {})  # type: ignore[arg-type]  # only the attempt number is used
    state.attempt_number = failures + 1
    return _PAUSE(state)
