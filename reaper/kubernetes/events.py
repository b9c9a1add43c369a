"""What the reaper removed, as Kubernetes Events, where ``kubectl get events`` and ``kubectl describe`` show it.

An Event stands at the ConnectSession that it is about, also after that is gone. What belongs to no session any more
stands at the reapers' Lease.

Guarantees:

1. Recording waits for nothing: an Event that cannot be stored soon is dropped, and no work waits for it. The log tells
   when that begins.
2. A failure that lasts is told at its first, second, fourth, … attempt, whatever the error says each time.

Source: events.k8s.io/v1.
"""

import queue
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Self

import structlog
from kubernetes.client import EventsV1Api

from reaper.reports import (
    ActionFailed,
    HoldBegan,
    HoldEnded,
    OrphanRemoved,
    OrphanTableRemoved,
    Report,
    SessionReaped,
    WritesUndone,
)
from workspace.kubernetes.api_server import ApiServer, ApiStatusError, RetryPolicy
from workspace.kubernetes.connect_session_objects import API_VERSION, GROUP, KIND, object_name
from workspace.kubernetes.connection import Connection
from workspace.kubernetes.labels import labels_of
from workspace.records import RecordsUnavailableError, StoredRecord
from workspace.storage_paths import deletion_message

CONTROLLER = "sparklodge.io/reaper"

_LONGEST_NOTE_CHARACTERS = 1024
_MOST_WAITING = 10_000
_PATIENCE = RetryPolicy(timeout_seconds=(2.0, 5.0), repeat_seconds=2.0)
_STOP_SECONDS = 2.0

Reference = Mapping[str, str]

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class News:
    """What an Event says.

    Attributes:
        about: The record of the session; None if there is none.
        reason: In one word.
        action: What was done.
        note: For people.
        is_warning: Whether somebody should look.
    """

    about: StoredRecord | None
    reason: str
    action: str
    note: str
    is_warning: bool = False


def news_of(report: Report) -> Iterator[News]:
    """What of a report is worth an Event."""
    match report:
        case SessionReaped(stored, reason, locations):
            for location in locations:
                yield News(stored, "LocationDeleted", "Delete", deletion_message(location))
            if not locations:
                note = f"Ended session {stored.record.session_uuid}, which had no location ({reason})"
                yield News(stored, "SessionEnded", "Delete", note)
        case OrphanRemoved(_, location):
            yield News(None, "OrphanLocationDeleted", "Delete", deletion_message(location))
        case OrphanTableRemoved(stored, table_uuid):
            note = f"Deleted directory {table_uuid}, which no temporary table of the session names"
            yield News(stored, "OrphanTableDeleted", "Delete", note)
        case WritesUndone(stored, replicas, tables):
            what = ", ".join(tables) or "permanent tables"
            note = f"Undid what lost gateways ({', '.join(sorted(replicas))}) were writing: {what}"
            yield News(stored, "WritesUndone", "Undo", note, is_warning=True)
        case ActionFailed(action, reason, stored, about):
            note = reason if stored is not None or not about else f"{about}: {reason}"
            yield News(stored, "RemovalFailed", _capitalised(action), note, is_warning=True)
        case HoldBegan(kind, reason):
            yield News(None, f"HeldBack{_capitalised(kind)}", "Wait", reason, is_warning=True)
        case HoldEnded(kind):
            yield News(None, f"WentOn{_capitalised(kind)}", "GoOn", "What held the reaper back is over")


class EventRecorder:
    """Stores Events, in a thread of its own; for ``with``.

    Args:
        connection: To the API server.
        instance: The name of this process.
        fallback: The object of what belongs to no session; None while there is none.
    """

    def __init__(self, connection: Connection, instance: str, fallback: Callable[[], Reference | None]) -> None:
        self._connection = connection
        self._reporter = instance
        self._fallback = fallback
        self._server = ApiServer(connection, "Events", "events", _PATIENCE)
        self._api = EventsV1Api(connection.api_client)
        self._waiting: queue.Queue[News | None] = queue.Queue(_MOST_WAITING)
        self._lock = threading.Lock()
        self._attempts: dict[tuple[str, str], int] = {}
        self._is_dropping = False
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Waits a little for what is still to be stored."""
        try:
            self._waiting.put(None, timeout=_STOP_SECONDS)
        except queue.Full:
            return
        self._thread.join(_STOP_SECONDS)

    def take(self, report: Report) -> None:
        """Records what of a report is worth it; see the module's guarantees."""
        if isinstance(report, ActionFailed) and not self._is_told_now(report):
            return
        for news in news_of(report):
            try:
                self._waiting.put_nowait(news)
            except queue.Full:
                self._drop(news, "too many wait to be stored")

    def _is_told_now(self, failed: ActionFailed) -> bool:
        key = (failed.action, failed.about)
        with self._lock:
            attempts = self._attempts[key] = self._attempts.pop(key, 0) + 1
            while len(self._attempts) > _MOST_WAITING:
                self._attempts.pop(next(iter(self._attempts)))
        return attempts & (attempts - 1) == 0

    def _drop(self, news: News, reason: str) -> None:
        """Warns when Events begin to be lost, not of each of them."""
        with self._lock:
            is_told, self._is_dropping = self._is_dropping, True
        tell = _log.debug if is_told else _log.warning
        tell("event_dropped", reason=reason, note=news.note)

    def _run(self) -> None:
        while (news := self._waiting.get()) is not None:
            try:
                self._store(news)
            except (RecordsUnavailableError, ApiStatusError) as error:
                self._drop(news, str(error))
            except Exception:  # noqa: BLE001 - a top loop: the next Event must be stored
                _log.exception("event_failed")

    def _store(self, news: News) -> None:
        about = self._fallback() if news.about is None else self._reference(news.about)
        if about is None:
            self._drop(news, "the reapers' Lease was not seen yet")
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
            "reason": news.reason,
            "action": news.action,
            "note": news.note[:_LONGEST_NOTE_CHARACTERS],
            "type": "Warning" if news.is_warning else "Normal",
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


def _capitalised(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))
