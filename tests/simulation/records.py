"""Session records and leases of one process, kept by the model's API server.

Why it exists: this is to the model what :mod:`workspace.kubernetes` is to a cluster. Each request is a call on the
wires, so anything may happen between the two requests of one deletion.

Held by the contract suites of session records and of leases.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from tests.simulation.api_server import AlreadyExistsError, ApiServer, ConflictError, NotFoundError, Stored
from tests.simulation.schedule import Action, Process, Schedule
from tests.simulation.threads import ModelEvent
from tests.simulation.wires import Wires
from workspace.identifiers import check_record_name, check_replica_id, check_uuid
from workspace.leases import RenewalMark
from workspace.records import (
    RecordChanged,
    RecordConflictError,
    RecordExistsError,
    RecordGone,
    RecordName,
    RecordNotFoundError,
    RecordsEvent,
    RecordsListed,
    RecordsUnavailableError,
    RecordsUnreachable,
    ReplicaId,
    SessionRecord,
    SessionUuid,
    StoredRecord,
    Version,
)

_Result = TypeVar("_Result")
_RETRY_SECONDS = 1.0
_SILENCE_SECONDS = 6.0


class ModelSessionRecords:
    """Implements :class:`workspace.records.SessionRecords`.

    Args:
        process: Who calls.
        api: Where the records are.
        wires: What lies between.
        is_torn: Whether a list is made of one read for each record, as it is of files.
    """

    def __init__(self, process: Process, api: ApiServer, wires: Wires, *, is_torn: bool = False) -> None:
        self._process = process
        self._api = api
        self._wires = wires
        self._is_torn = is_torn

    def create(self, record: SessionRecord) -> StoredRecord:
        _check(record)
        try:
            return _stored(self._call("create record", lambda: self._api.create(record.name, record)))
        except AlreadyExistsError:
            raise RecordExistsError(record.name, "There is such a record.") from None

    def read(self, name: RecordName) -> StoredRecord:
        return _stored(self._read(check_record_name(name)))

    def list(self) -> Sequence[StoredRecord]:
        if not self._is_torn:
            return [_stored(each) for each in self._call("list records", lambda: list(self._api.records.values()))]
        found: list[StoredRecord] = []
        for name in self._call("list names", lambda: list(self._api.records)):
            try:
                found.append(self.read(name))
            except RecordNotFoundError:
                continue
        return found

    def find(self, session_uuid: SessionUuid) -> StoredRecord | None:
        return next((each for each in self.list() if each.record.session_uuid == session_uuid), None)

    def replace(self, record: SessionRecord, version: Version) -> StoredRecord:
        _check(record)
        name, (uid, generation) = record.name, _parts(version)
        try:
            return _stored(self._call("update record", lambda: self._api.patch(name, uid, generation, record)))
        except ConflictError:
            raise _changed(name) from None
        except NotFoundError:
            raise _not_found(name) from None

    def delete(self, name: RecordName, version: Version) -> None:
        found = self._read(check_record_name(name))
        if _version(found) != version:
            raise _changed(name)
        while True:
            try:
                self._delete(name, found)
            except ConflictError:
                now = self._read(name)
                if (now.uid, now.spec) != (found.uid, found.spec):
                    raise _changed(name) from None
                found = now
            except NotFoundError:
                raise _not_found(name) from None
            else:
                return

    def _delete(self, name: RecordName, found: Stored) -> None:
        if not found.is_deleting:
            before = found
            found = self._call("delete record", lambda: self._api.delete(name, before.resource_version))
        self._call("take finalizer off", lambda: self._api.let_go(name, found.uid, found.generation))

    def watch(self, stop: threading.Event) -> Iterator[RecordsEvent]:
        schedule = self._process.schedule
        while not stop.is_set():
            news = _News(schedule, self._wires)
            self._api.watchers.append(news.tell)
            try:
                yield RecordsListed(tuple(self.list()))
                while not stop.is_set():
                    news.wait(stop)
                    self._call("watch", lambda: None)
                    yield from news.taken()
            except RecordsUnavailableError as error:
                yield RecordsUnreachable(str(error))
                schedule.wait(_RETRY_SECONDS)
            finally:
                self._api.watchers.remove(news.tell)

    def _read(self, name: RecordName) -> Stored:
        try:
            return self._call("read record", lambda: self._api.get(name))
        except NotFoundError:
            raise _not_found(name) from None

    def _call(self, what: str, effect: Callable[[], _Result]) -> _Result:
        return self._wires.call(self._process, self._api, what, effect)


class _News:
    """What one watch is told of, each thing some time after it happened, in order."""

    def __init__(self, schedule: Schedule, wires: Wires) -> None:
        self._schedule = schedule
        self._wires = wires
        self._under_way_until = 0.0
        self._arrived: deque[RecordsEvent] = deque()
        self._wake: Action = lambda: None

    def tell(self, stored: Stored, is_gone: bool) -> None:
        event = RecordGone(stored.name) if is_gone else RecordChanged(_stored(stored))
        self._under_way_until = max(self._under_way_until, self._schedule.now + self._wires.news_seconds())
        self._schedule.at(self._under_way_until, partial(self._arrive, event))

    def wait(self, stop: threading.Event) -> None:
        """Waits for news, or until it is stopped, or until it is time to see whether the connection still lives."""
        if not self._arrived:
            self._schedule.park(partial(self._woken_by, stop))

    def taken(self) -> Iterator[RecordsEvent]:
        while self._arrived:
            yield self._arrived.popleft()

    def _arrive(self, event: RecordsEvent) -> None:
        self._arrived.append(event)
        self._wake()

    def _woken_by(self, stop: threading.Event, wake: Action) -> None:
        self._wake = wake
        self._schedule.after(_SILENCE_SECONDS, wake)
        if isinstance(stop, ModelEvent):
            stop.when_set(wake)


class ModelLeases:
    """Implements :class:`workspace.leases.Leases`."""

    def __init__(self, process: Process, api: ApiServer, wires: Wires) -> None:
        self._process = process
        self._api = api
        self._wires = wires

    def renew(self, replica: ReplicaId) -> None:
        check_replica_id(replica)
        self._wires.call(self._process, self._api, "renew lease", lambda: self._api.renew(replica))

    def list(self) -> Mapping[ReplicaId, RenewalMark]:
        marks = self._wires.call(self._process, self._api, "list leases", self._api.leases)
        return {replica: RenewalMark(str(mark)) for replica, mark in marks.items()}

    def delete(self, replica: ReplicaId) -> None:
        check_replica_id(replica)
        self._wires.call(self._process, self._api, "delete lease", lambda: self._api.forget(replica))


def _check(record: SessionRecord) -> None:
    """Raises: ValueError if it could not be read again."""
    check_uuid(record.session_uuid)
    record.principal.encode()


def _stored(found: Stored) -> StoredRecord:
    return StoredRecord(found.spec, _version(found), found.is_deleting)


def _version(found: Stored) -> Version:
    return Version(f"{found.uid}.{found.generation}")


def _parts(version: Version) -> tuple[int, int]:
    """The uid and generation that a version is made of; of what is none, those of no object."""
    uid, _, generation = version.partition(".")
    return (int(uid), int(generation)) if uid.isdigit() and generation.isdigit() else (0, 0)


def _changed(name: RecordName) -> RecordConflictError:
    return RecordConflictError(name, "The record has changed.")


def _not_found(name: RecordName) -> RecordNotFoundError:
    return RecordNotFoundError(name, "There is no such record.")
