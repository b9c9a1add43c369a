"""Kubernetes Events about the work of the reaper.

An Event refers to the ConnectSession object of its session, even after the object is deleted. An Event without a
session refers to the reapers' Lease.

Guarantees:

1. Recording an Event never blocks the work of the reaper. If an Event cannot be stored soon, it is dropped. A warning
   is logged for the first Event that is dropped.
2. For an error that persists, an Event is recorded at the first, second, fourth, … attempt, even if the error message
   changes.

Source: events.k8s.io/v1.
"""

import queue
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import structlog
from kubernetes.client import EventsV1Api

from reaper import reports
from workspace.background_thread import BackgroundThread
from workspace.kubernetes.api_server import ApiServer, ApiStatusError, RetryPolicy
from workspace.kubernetes.connect_session_objects import API_VERSION, GROUP, KIND, object_name
from workspace.kubernetes.connection import Connection
from workspace.kubernetes.labels import labels_of
from workspace.record_store import RecordsUnavailableError, StoredRecord
from workspace.storage_paths import deletion_message

CONTROLLER = "sparklodge.io/reaper"

_LONGEST_NOTE_CHARACTERS = 1024
_MOST_WAITING = 10_000
_RETRY_POLICY = RetryPolicy(timeout_seconds=(2.0, 5.0), repeat_seconds=2.0)
_STOP_SECONDS = 2.0

Reference = Mapping[str, str]

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class EventContent:
    """The content of a Kubernetes Event.

    Attributes:
        about: The record of the session. None if the Event does not concern a session.
        reason: The reason in one word.
        action: The action in one word.
        note: The description of the Event.
        is_warning: Whether the Event requires the attention of a person.
    """

    about: StoredRecord | None
    reason: str
    action: str
    note: str
    is_warning: bool = False


def events_for(report: reports.Report) -> Iterator[EventContent]:
    """Yield the contents of the Events for a report."""
    match report:
        case reports.SessionReaped(stored, reason, locations):
            for location in locations:
                yield EventContent(stored, "LocationDeleted", "Delete", deletion_message(location))
            if not locations:
                note = f"Ended session {stored.record.session_uuid}, which had no session location ({reason})"
                yield EventContent(stored, "SessionEnded", "Delete", note)
        case reports.OrphanRemoved(_, location):
            yield EventContent(None, "OrphanLocationDeleted", "Delete", deletion_message(location))
        case reports.OrphanTableRemoved(stored, table_uuid):
            note = f"Deleted the directory {table_uuid}, which does not belong to a temporary table of the session"
            yield EventContent(stored, "OrphanTableDeleted", "Delete", note)
        case reports.WritesUndone(stored, replicas, tables):
            what = ", ".join(tables) or "permanent tables"
            note = f"Undid unfinished writes of lost gateways ({', '.join(sorted(replicas))}): {what}"
            yield EventContent(stored, "WritesUndone", "Undo", note, is_warning=True)
        case reports.ActionFailed(action, reason, stored, about):
            note = reason if stored is not None or not about else f"{about}: {reason}"
            yield EventContent(stored, "RemovalFailed", _camel_case(action), note, is_warning=True)
        case reports.HoldBegan(kind, reason):
            yield EventContent(None, f"HeldBack{_camel_case(kind)}", "Wait", reason, is_warning=True)
        case reports.HoldEnded(kind):
            yield EventContent(None, f"Resumed{_camel_case(kind)}", "Resume", "The reaper is no longer on hold")


class EventRecorder(BackgroundThread):
    """A context manager that stores Events in its own thread.

    Args:
        connection: The connection to the API server.
        instance: The name of this process.
        fallback: A function that returns the object for Events without a session, or None while the object is unknown.
    """

    def __init__(self, connection: Connection, instance: str, fallback: Callable[[], Reference | None]) -> None:
        super().__init__("events", self._run)
        self._connection = connection
        self._reporter = instance
        self._fallback = fallback
        self._server = ApiServer(connection, "Events", "events", _RETRY_POLICY)
        self._api = EventsV1Api(connection.api_client)
        self._waiting: queue.Queue[EventContent | None] = queue.Queue(_MOST_WAITING)
        self._lock = threading.Lock()
        self._attempts: dict[tuple[str, str], int] = {}
        self._is_dropping = False

    def __exit__(self, *_: object) -> None:
        """Wait at most ``_STOP_SECONDS`` until the remaining Events are stored."""
        try:
            self._waiting.put(None, timeout=_STOP_SECONDS)
        except queue.Full:
            return
        self.join(_STOP_SECONDS)

    def take(self, report: reports.Report) -> None:
        """Record the Events for a report."""
        if isinstance(report, reports.ActionFailed) and not self._should_record(report):
            return
        for content in events_for(report):
            try:
                self._waiting.put_nowait(content)
            except queue.Full:
                self._drop(content, "Too many Events are waiting to be stored.")

    def _should_record(self, failed: reports.ActionFailed) -> bool:
        key = (failed.action, failed.about)
        with self._lock:
            attempts = self._attempts[key] = self._attempts.pop(key, 0) + 1
            while len(self._attempts) > _MOST_WAITING:
                self._attempts.pop(next(iter(self._attempts)))
        return attempts & (attempts - 1) == 0

    def _drop(self, content: EventContent, reason: str) -> None:
        """Drop an Event, and log a warning if it is the first of several dropped Events."""
        with self._lock:
            was_dropping, self._is_dropping = self._is_dropping, True
        log = _log.debug if was_dropping else _log.warning
        log("event_dropped", reason=reason, note=content.note)

    def _run(self) -> None:
        while (content := self._waiting.get()) is not None:
            try:
                self._store(content)
            except (RecordsUnavailableError, ApiStatusError) as error:
                self._drop(content, str(error))
            except Exception:  # noqa: BLE001 - a top loop, in which the next Event must be stored
                _log.exception("event_failed")

    def _store(self, content: EventContent) -> None:
        about = self._fallback() if content.about is None else self._reference(content.about)
        if about is None:
            self._drop(content, "The Lease of the reapers has not been read yet.")
            return
        body: Any = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": f"{about['name']}.{secrets.token_hex(8)}",
                "namespace": self._connection.namespace,
                "labels": labels_of(self._connection.instance),
            },
            "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": CONTROLLER,
            "reportingInstance": self._reporter,
            "regarding": dict(about),
            "reason": content.reason,
            "action": content.action,
            "note": content.note[:_LONGEST_NOTE_CHARACTERS],
            "type": "Warning" if content.is_warning else "Normal",
        }
        self._server.request(partial(self._api.create_namespaced_event, self._connection.namespace, body))
        with self._lock:
            self._is_dropping = False

    def _reference(self, stored: StoredRecord) -> Reference:
        return {
            "apiVersion": f"{GROUP}/{API_VERSION}",
            "kind": KIND,
            "name": object_name(self._connection.instance, stored.record.name),
            "namespace": self._connection.namespace,
            "uid": stored.version.rpartition(".")[0],
        }


def _camel_case(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))
