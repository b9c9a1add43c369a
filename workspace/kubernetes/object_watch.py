"""Watching objects of the Kubernetes API: what there is, then what changes, for as long as one likes.

Why it exists: a watch ends all the time: the server ends it, restarts, forgets where the watcher was (``410 Gone``), or
falls silent while the connection seems to live. The shared informer of the Kubernetes client waits for ever on a
connection that fell silent, tries again without a pause, takes a list of custom objects for an empty one, and does not
tell whether what it knows is current. Its ``Watch`` does the reading here.

Guarantees:

1. The first event is :class:`ObjectsListed`, or :class:`ObjectsUnreachable` and then that. Objects are listed anew
   whenever a change may have been missed: only a watch that the server ended in order is taken up where it was.
2. A silence of the server is noticed after :data:`SILENCE_SECONDS` at most.
3. When watching is stopped, the watch ends at once, except while a list is being read.
4. Between attempts that fail, and watches that end as soon as they begin, there are pauses that grow up to
   :data:`LONGEST_PAUSE_SECONDS`.

Source: Kubernetes API concepts, "Efficient detection of changes".
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
from workspace.records import RecordsUnavailableError

WATCH_SECONDS = 20
"""After so long the server ends a watch, and it is taken up again."""

SILENCE_SECONDS = 25.0
LONGEST_PAUSE_SECONDS = 5.0

_SHORT_SECONDS = 1.0
_STOP_CHECK_SECONDS = 0.2
_PAUSE = tenacity.wait_random_exponential(multiplier=0.1, max=LONGEST_PAUSE_SECONDS)
_CHANGES = frozenset({"ADDED", "MODIFIED"})
_TOLD = _CHANGES | {"DELETED"}


@dataclass(frozen=True, slots=True)
class ObjectsListed:
    """All objects there are. Whatever was told before counts no more."""

    objects: tuple[JsonObject, ...]


@dataclass(frozen=True, slots=True)
class ObjectChanged:
    """An object is new, or has changed."""

    content: JsonObject


@dataclass(frozen=True, slots=True)
class ObjectGone:
    """An object was deleted; this is what it was last."""

    content: JsonObject


@dataclass(frozen=True, slots=True)
class ObjectsUnreachable:
    """The server does not answer; what was told may be old until the next :class:`ObjectsListed`."""

    reason: str


ObjectsEvent = ObjectsListed | ObjectChanged | ObjectGone | ObjectsUnreachable


def watch_objects(server: ApiServer, listing: Callable[..., Any], stop: threading.Event) -> Iterator[ObjectsEvent]:
    """Tells of objects until it is stopped.

    Args:
        server: Lists them; should repeat nothing, since this does.
        listing: A listing function of the Kubernetes client, with all it needs.
        stop: Set to end it.
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
    """Ends when it is stopped, and when a change may have been missed."""
    watch = Watch(return_type="object")  # type: ignore[no-untyped-call]  # the library's
    watch.resource_version = resource_version
    with _stopped_by(stop, watch):
        lasted_seconds = float("inf")
        while not stop.is_set() and lasted_seconds >= _SHORT_SECONDS:
            begun_seconds = time.monotonic()
            try:
                yield from _until_ended(watch, listing)
            except (urllib3.exceptions.HTTPError, ApiException, ConfigException, OSError, ValueError, LookupError):
                return  # the list that follows tells what is wrong, if it lasts
            lasted_seconds = time.monotonic() - begun_seconds


def _until_ended(watch: Watch, listing: Callable[..., Any]) -> Iterator[ObjectsEvent]:
    """One request; the watch remembers how far it came."""
    events = watch.stream(  # type: ignore[no-untyped-call]  # the library's
        listing,
        resource_version=watch.resource_version,
        allow_watch_bookmarks=True,
        timeout_seconds=WATCH_SECONDS,
        _request_timeout=(REQUEST_TIMEOUT_SECONDS[0], SILENCE_SECONDS),
    )
    for event in events:
        if event is None:
            raise ValueError("what the server said was cut off")
        if event["type"] in _TOLD and not is_object(event["object"]):
            raise ValueError("what the server told of is no object")
        if event["type"] in _CHANGES:
            yield ObjectChanged(event["object"])
        elif event["type"] == "DELETED":
            yield ObjectGone(event["object"])


@contextmanager
def _stopped_by(stop: threading.Event, watch: Watch) -> Iterator[None]:
    """Cuts the watch off when ``stop`` is set, which one that waits for data would not see."""
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
