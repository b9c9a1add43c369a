"""Writes the status conditions of ConnectSession objects when they change.

Guarantees:

1. A status is written only if it differs from the status that was last written or read. Without changes, there are no
   writes, regardless of the number of sessions.
2. The work of the reaper never waits for a write. There are pauses between writes, so that the API server can process
   other requests.
3. A status is written only to the object that it describes, and never to a later object with the same name.

Not guaranteed: Intermediate statuses may not be written. The last status is eventually written.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import structlog

from reaper.kubernetes.backends import Availability
from reaper.kubernetes.conditions import Condition, FailedRemoval, conditions_of
from reaper.reports import ActionFailed, PassResult, Report
from workspace.background_thread import BackgroundThread
from workspace.identifiers import SessionUuid
from workspace.kubernetes.api_server import ApiStatusError, JsonObject, RetryPolicy
from workspace.kubernetes.connect_session_api import ConnectSessionApi
from workspace.kubernetes.connection import Connection
from workspace.record_store import RecordsUnavailableError, StoredRecord

_PAUSE_SECONDS = 0.02
_PAUSE_AFTER_FAILURE_SECONDS = 5.0
_FAILING_SECONDS = 150.0
"""The time without further attempts after which a failure counts as over. Attempts are less than half as far apart.
"""

_RETRY_POLICY = RetryPolicy(timeout_seconds=(2.0, 5.0), repeat_seconds=0.0)
_CHANGED_CONCURRENTLY = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY})

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _WrittenCondition:
    """A condition and the time at which its status last changed."""

    condition: Condition
    since: str


_Status = Mapping[str, _WrittenCondition]


class Statuses(BackgroundThread):
    """A context manager that writes statuses in its own thread.

    Args:
        connection: The connection to the API server.
        availability: A function that returns the availability of a backend, or None if it is unknown.
        may_write: A function that returns whether this reaper may act.
    """

    def __init__(
        self, connection: Connection, availability: Callable[[str], Availability | None], may_write: Callable[[], bool]
    ) -> None:
        super().__init__("statuses", self._run)
        self._availability = availability
        self._may_write = may_write
        self._api = ConnectSessionApi(connection, _RETRY_POLICY)
        self._changed = threading.Condition()
        self._written: dict[SessionUuid, _Status] | None = None
        self._waiting: dict[SessionUuid, StoredRecord] = {}
        self._failed: dict[SessionUuid, FailedRemoval] = {}

    def __exit__(self, *_: object) -> None:
        """Wait for the current write. The next reaper performs the others."""
        with self._changed:
            self.stopping.set()
            self._changed.notify_all()
        self.join()

    def take(self, report: Report) -> None:
        """Update the conditions after a pass, and store failures for the next update."""
        match report:
            case ActionFailed(action, reason, stored) if stored is not None:
                session_uuid = stored.record.session_uuid
                with self._changed:
                    before = self._failed.get(session_uuid)
                    attempts = 1 if before is None or before.action != action else before.attempts + 1
                    self._failed[session_uuid] = FailedRemoval(action, reason, attempts, time.monotonic())
            case PassResult():
                self._update_all(report)
            case _:
                pass

    def _update_all(self, result: PassResult) -> None:
        addresses = {stored.record.backend for stored in result.snapshot.records}
        backends = {address: self._availability(address) for address in addresses}
        with self._changed:
            if not self._may_write():
                self._written = None
                self._waiting.clear()
            if self._written is not None:
                self._forget_all_but({stored.record.session_uuid for stored in result.snapshot.records})
                self._forget_old_failures()
                for stored in result.snapshot.records:
                    self._update(self._written, stored, result, backends[stored.record.backend])
            self._changed.notify_all()

    def _update(
        self,
        written: dict[SessionUuid, _Status],
        stored: StoredRecord,
        result: PassResult,
        availability: Availability | None,
    ) -> None:
        session_uuid = stored.record.session_uuid
        status = written.get(session_uuid, {})
        before = {kind: one.condition for kind, one in status.items()}
        now = conditions_of(
            stored,
            result.snapshot,
            held=result.held,
            availability=availability,
            failed=self._failed.get(session_uuid),
            before=before,
        )
        if now != before:
            written[session_uuid] = {
                kind: _written_condition(condition, status.get(kind)) for kind, condition in now.items()
            }
            self._waiting[session_uuid] = stored

    def _forget_all_but(self, present: set[SessionUuid]) -> None:
        for known in (self._written or {}, self._waiting, self._failed):
            for session_uuid in known.keys() - present:
                del known[session_uuid]

    def _forget_old_failures(self) -> None:
        limit_seconds = time.monotonic() - _FAILING_SECONDS
        self._failed = {key: failed for key, failed in self._failed.items() if failed.seconds > limit_seconds}

    def _run(self) -> None:
        while not self.stopping.is_set():
            try:
                self._work()
            except (RecordsUnavailableError, ApiStatusError) as error:
                _log.debug("status_not_written", reason=str(error))
                self.stopping.wait(_PAUSE_AFTER_FAILURE_SECONDS)
            except Exception:  # noqa: BLE001 - a top loop, in which the next status must be written
                _log.exception("status_failed")
                self.stopping.wait(_PAUSE_AFTER_FAILURE_SECONDS)

    def _work(self) -> None:
        if not self._may_write():
            with self._changed:
                self._changed.wait_for(lambda: self.stopping.is_set() or self._may_write())
        elif self._written is None:
            found = self._read_all()
            with self._changed:
                self._written = found
        else:
            self._write_next()
            self.stopping.wait(_PAUSE_SECONDS)

    def _write_next(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.stopping.is_set() or self._waiting or self._written is None)
            if self.stopping.is_set() or not self._waiting or self._written is None:
                return
            session_uuid = next(iter(self._waiting))
            stored = self._waiting.pop(session_uuid)
            status = self._written[session_uuid]
        try:
            self._write(stored, status)
        except ApiStatusError as error:
            if error.status not in _CHANGED_CONCURRENTLY:
                raise
        except RecordsUnavailableError:
            with self._changed:
                if self._written is not None and session_uuid in self._written:
                    self._waiting.setdefault(session_uuid, stored)
            raise

    def _write(self, stored: StoredRecord, status: _Status) -> None:
        uid, _, generation = stored.version.rpartition(".")
        conditions = [_to_json(one, int(generation)) for _, one in sorted(status.items())]
        patch: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {
                "op": "add",
                "path": "/status",
                "value": {"observedGeneration": int(generation), "conditions": conditions},
            },
        ]
        self._api.patch_status(stored.record.name, patch)

    def _read_all(self) -> dict[SessionUuid, _Status]:
        """Read the conditions of all sessions from the API server."""
        return dict(self._api.list(lambda one: (SessionUuid(str(one["spec"].get("sessionUuid"))), _status_of(one))))


def _written_condition(condition: Condition, before: _WrittenCondition | None) -> _WrittenCondition:
    if before is not None and before.condition.status == condition.status:
        return _WrittenCondition(condition, before.since)
    return _WrittenCondition(condition, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))


def _to_json(written: _WrittenCondition, generation: int) -> Mapping[str, Any]:
    condition = written.condition
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": written.since,
        "observedGeneration": generation,
    }


def _status_of(found: JsonObject) -> _Status:
    conditions = (found.get("status") or {}).get("conditions") or ()
    return {
        one["type"]: _WrittenCondition(
            Condition(one["type"], one["status"], one["reason"], one["message"]), one["lastTransitionTime"]
        )
        for one in conditions
    }
