"""What the reaper removed, as Kubernetes Events, where ``kubectl get events`` and ``kubectl describe`` show it.

An Event stands at the ConnectSession that it is about, also after that is gone. What belongs to no session any more
stands at the reapers' Lease.

Guarantees:

1. Recording waits for nothing: an Event that cannot be stored soon is dropped and counted, and no work waits for it.
2. A failure that lasts is told at its first, second, fourth, … attempt.

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
    HeldBack,
    OrphanRemoved,
    OrphanTableRemoved,
    Report,
    SessionReaped,
    WentOn,
    WritesUndone,
)
from workspace.kubernetes.connection import Connection
from workspace.kubernetes.labels import labels_of
from workspace.kubernetes.server import Patience, RefusalError, Server
from workspace.kubernetes.session_objects import API_VERSION, GROUP, KIND, object_name
from workspace.places import deletion_message
from workspace.records import RecordsUnavailableError, StoredRecord

CONTROLLER = "sparklodge.io/reaper"

_LONGEST_NOTE_CHARACTERS = 1024
_MOST_WAITING = 10_000
_PATIENCE = Patience(timeout_seconds=(2.0, 5.0), repeat_seconds=2.0)
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
        case ActionFailed(action, reason, stored):
            yield News(stored, "RemovalFailed", _capitalised(action), reason, is_warning=True)
        case HeldBack(kind, reason):
            yield News(None, f"HeldBack{_capitalised(kind)}", "Wait", reason, is_warning=True)
        case WentOn(kind):
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
        self._server = Server(connection, "Events", "events", _PATIENCE)
        self._api = EventsV1Api(connection.api_client)
        self._waiting: queue.Queue[News | None] = queue.Queue(_MOST_WAITING)
        self._attempts: dict[tuple[str, str], int] = {}
        self._dropped = 0
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    @property
    def dropped(self) -> int:
        """How many could not be stored."""
        return self._dropped

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
                self._dropped += 1

    def _is_told_now(self, failed: ActionFailed) -> bool:
        about = "" if failed.stored is None else failed.stored.record.session_uuid
        key = (about, failed.action if failed.stored is not None else failed.reason)
        attempts = self._attempts[key] = self._attempts.pop(key, 0) + 1
        while len(self._attempts) > _MOST_WAITING:
            self._attempts.pop(next(iter(self._attempts)))
        return attempts & (attempts - 1) == 0

    def _run(self) -> None:
        while (news := self._waiting.get()) is not None:
            try:
                self._store(news)
            except (RecordsUnavailableError, RefusalError) as error:
                self._dropped += 1
                _log.debug("event_dropped", reason=str(error), note=news.note)
            except Exception:  # noqa: BLE001 - a top loop: the next Event must be stored
                _log.exception("event_failed")

    def _store(self, news: News) -> None:
        about = self._fallback() if news.about is None else self._reference(news.about)
        if about is None:
            self._dropped += 1
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
        self._server.ask(partial(self._api.create_namespaced_event, self._connection.namespace, body))

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
