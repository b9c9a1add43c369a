"""Writes ``status.conditions`` of ConnectSession objects, when they change.

Guarantees:

1. A status is written only if it is another one than was written or found last; where nothing happens, nothing is
   written, however many sessions there are.
2. Nobody waits for it, and writing is slow enough to leave the API server to others.
3. What is written is of the object that was looked at, never of a later one of the same name.

Not guaranteed: that each status is written that there was; the last one is, sooner or later.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Self

import structlog

from reaper.kubernetes.backends import Availability
from reaper.kubernetes.conditions import Condition, FailedRemoval, conditions_of
from reaper.reaper import PassResult
from reaper.reports import ActionFailed, Report
from workspace.kubernetes.api_server import ApiStatusError, JsonObject, RetryPolicy
from workspace.kubernetes.connect_session_api import ConnectSessionApi
from workspace.kubernetes.connection import Connection
from workspace.records import RecordsUnavailableError, SessionUuid, StoredRecord

_PAUSE_SECONDS = 0.02
_PAUSE_AFTER_FAILURE_SECONDS = 5.0
_FAILING_SECONDS = 150.0
"""What did not fail for so long is over: attempts are less than half as far apart."""

_PATIENCE = RetryPolicy(timeout_seconds=(2.0, 5.0), repeat_seconds=0.0)
_CHANGED_MEANWHILE = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY})

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Told:
    """A condition, and since when it has its status."""

    condition: Condition
    since: str


_Status = Mapping[str, _Told]


class Statuses:
    """For ``with``; see the module's guarantees.

    Args:
        connection: To the API server.
        availability: Whether the backend of an address is there; None if that cannot be known.
        may_write: Whether this reaper is the one that acts.
    """

    def __init__(
        self,
        connection: Connection,
        availability: Callable[[str], Availability | None],
        may_write: Callable[[], bool],
    ) -> None:
        self._availability = availability
        self._may_write = may_write
        self._api = ConnectSessionApi(connection, _PATIENCE)
        self._changed = threading.Condition()
        self._told: dict[SessionUuid, _Status] | None = None
        self._waiting: dict[SessionUuid, StoredRecord] = {}
        self._failed: dict[SessionUuid, FailedRemoval] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="statuses", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Waits for the status that is being written; the others are for the next reaper."""
        with self._changed:
            self._stop.set()
            self._changed.notify_all()
        self._thread.join()

    def take(self, report: Report) -> None:
        """Remembers what failed."""
        match report:
            case ActionFailed(action, reason, stored) if stored is not None:
                session_uuid = stored.record.session_uuid
                with self._changed:
                    before = self._failed.get(session_uuid)
                    attempts = 1 if before is None or before.action != action else before.attempts + 1
                    self._failed[session_uuid] = FailedRemoval(action, reason, attempts, time.monotonic())
            case _:
                pass

    def show(self, seen: PassResult) -> None:
        """Has the conditions written that follow from the last look, where they are others than before."""
        addresses = {stored.record.backend for stored in seen.snapshot.records}
        backends = {address: self._availability(address) for address in addresses}
        with self._changed:
            if not self._may_write():
                self._told = None
                self._waiting.clear()
            if self._told is not None:
                self._forget_all_but({stored.record.session_uuid for stored in seen.snapshot.records})
                self._forget_failures_that_are_over()
                for stored in seen.snapshot.records:
                    self._show(self._told, stored, seen, backends[stored.record.backend])
            self._changed.notify_all()

    def _show(
        self,
        told: dict[SessionUuid, _Status],
        stored: StoredRecord,
        seen: PassResult,
        availability: Availability | None,
    ) -> None:
        session_uuid = stored.record.session_uuid
        status = told.get(session_uuid, {})
        before = {kind: one.condition for kind, one in status.items()}
        now = conditions_of(
            stored,
            seen.snapshot,
            held=seen.held,
            availability=availability,
            failed=self._failed.get(session_uuid),
            before=before,
        )
        if now != before:
            told[session_uuid] = {kind: _told(condition, status.get(kind)) for kind, condition in now.items()}
            self._waiting[session_uuid] = stored

    def _forget_all_but(self, present: set[SessionUuid]) -> None:
        for known in (self._told or {}, self._waiting, self._failed):
            for session_uuid in known.keys() - present:
                del known[session_uuid]

    def _forget_failures_that_are_over(self) -> None:
        limit_seconds = time.monotonic() - _FAILING_SECONDS
        self._failed = {key: failed for key, failed in self._failed.items() if failed.seconds > limit_seconds}

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._work()
            except (RecordsUnavailableError, ApiStatusError) as error:
                _log.debug("status_not_written", reason=str(error))
                self._stop.wait(_PAUSE_AFTER_FAILURE_SECONDS)
            except Exception:  # noqa: BLE001 - a top loop: the next status must be written
                _log.exception("status_failed")
                self._stop.wait(_PAUSE_AFTER_FAILURE_SECONDS)

    def _work(self) -> None:
        if not self._may_write():
            with self._changed:
                self._changed.wait_for(lambda: self._stop.is_set() or self._may_write())
        elif self._told is None:
            found = self._found()
            with self._changed:
                self._told = found
        else:
            self._write_next()
            self._stop.wait(_PAUSE_SECONDS)

    def _write_next(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stop.is_set() or self._waiting or self._told is None)
            if self._stop.is_set() or not self._waiting or self._told is None:
                return
            session_uuid = next(iter(self._waiting))
            stored = self._waiting.pop(session_uuid)
            status = self._told[session_uuid]
        try:
            self._write(stored, status)
        except ApiStatusError as error:
            if error.status not in _CHANGED_MEANWHILE:
                raise
        except RecordsUnavailableError:
            with self._changed:
                if self._told is not None and session_uuid in self._told:
                    self._waiting.setdefault(session_uuid, stored)
            raise

    def _write(self, stored: StoredRecord, status: _Status) -> None:
        uid, _, generation = stored.version.rpartition(".")
        conditions = [_spelled(one, int(generation)) for _, one in sorted(status.items())]
        patch: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {
                "op": "add",
                "path": "/status",
                "value": {"observedGeneration": int(generation), "conditions": conditions},
            },
        ]
        self._api.patch_status(stored.record.name, patch)

    def _found(self) -> dict[SessionUuid, _Status]:
        """What stands in the objects now."""
        return {SessionUuid(str(one["spec"].get("sessionUuid"))): _status_of(one) for one in self._api.list()}


def _told(condition: Condition, before: _Told | None) -> _Told:
    if before is not None and before.condition.status == condition.status:
        return _Told(condition, before.since)
    return _Told(condition, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))


def _spelled(told: _Told, generation: int) -> Mapping[str, Any]:
    condition = told.condition
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": told.since,
        "observedGeneration": generation,
    }


def _status_of(found: JsonObject) -> _Status:
    conditions = (found.get("status") or {}).get("conditions") or ()
    return {
        one["type"]: _Told(
            Condition(one["type"], one["status"], one["reason"], one["message"]), one["lastTransitionTime"]
        )
        for one in conditions
    }
