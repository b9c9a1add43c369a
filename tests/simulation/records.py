"""Session records and leases of one process, stored in the simulated API server.

They correspond to :mod:`workspace.kubernetes`. Each request is a call through the network, so a fault can happen
between the two requests of one deletion. The contract test suites of session records and of leases run against them.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from tests.simulation.api_server import AlreadyExistsError, ApiServer, ConflictError, NotFoundError, StoredObject
from tests.simulation.network import Network
from tests.simulation.schedule import Action, Process, Schedule
from tests.simulation.threads import ModelEvent
from workspace import record_store
from workspace.identifiers import (
    Principal,
    RecordName,
    ReplicaId,
    SessionUuid,
    check_record_name,
    check_replica_id,
    check_uuid,
)
from workspace.leases import STOPPED, LeaseStoppedError, RenewalMark
from workspace.records import SessionRecord

_Result = TypeVar("_Result")
_RETRY_SECONDS = 1.0
_LATE_RENEWAL_SECONDS = 0.5
_WATCH_TIMEOUT_SECONDS = 6.0


class ModelSessionRecords:
    """Implementation of :class:`workspace.record_store.SessionRecords`.

    Args:
        process: The calling process.
        api: Stores the records.
        network: Carries the requests.
        lists_one_by_one: Whether a list reads each record by a request of its own, as a list of files does.
    """

    def __init__(self, process: Process, api: ApiServer, network: Network, *, lists_one_by_one: bool = False) -> None:
        self._process = process
        self._api = api
        self._network = network
        self._lists_one_by_one = lists_one_by_one

    def create(self, record: SessionRecord) -> record_store.StoredRecord:
        _check_record(record)
        try:
            return _to_stored_record(self._call("create record", lambda: self._api.create(record.name, record)))
        except AlreadyExistsError:
            raise record_store.RecordExistsError(record.name, "The record exists already.") from None

    def read(self, name: RecordName) -> record_store.StoredRecord:
        return _to_stored_record(self._read(check_record_name(name)))

    def list(self) -> Sequence[record_store.StoredRecord]:
        if not self._lists_one_by_one:
            return [
                _to_stored_record(each) for each in self._call("list records", lambda: list(self._api.records.values()))
            ]
        found: list[record_store.StoredRecord] = []
        for name in self._call("list record names", lambda: list(self._api.records)):
            try:
                found.append(self.read(name))
            except record_store.RecordNotFoundError:
                continue
        return found

    def find(self, session_uuid: SessionUuid) -> record_store.StoredRecord | None:
        return next((each for each in self.list() if each.record.session_uuid == session_uuid), None)

    def list_of_principal(self, principal: Principal) -> Sequence[record_store.StoredRecord]:
        return [each for each in self.list() if each.record.principal == principal]

    def list_held(self, replica: ReplicaId) -> Sequence[record_store.StoredRecord]:
        return [each for each in self.list() if replica in each.record.holders]

    def replace(self, record: SessionRecord, version: record_store.Version) -> record_store.StoredRecord:
        _check_record(record)
        name, (uid, generation) = record.name, _parse_version(version)
        try:
            return _to_stored_record(
                self._call("update record", lambda: self._api.patch(name, uid, generation, record))
            )
        except ConflictError:
            raise _conflict_error(name) from None
        except NotFoundError:
            raise _not_found_error(name) from None

    def delete(self, name: RecordName, version: record_store.Version) -> None:
        found = self._read(check_record_name(name))
        if _version_of(found) != version:
            raise _conflict_error(name)
        while True:
            try:
                self._delete(name, found)
            except ConflictError:
                now = self._read(name)
                if (now.uid, now.spec) != (found.uid, found.spec):
                    raise _conflict_error(name) from None
                found = now
            except NotFoundError:
                raise _not_found_error(name) from None
            else:
                return

    def _delete(self, name: RecordName, found: StoredObject) -> None:
        if not found.is_deleting:
            before = found
            found = self._call("delete record", lambda: self._api.delete(name, before.resource_version))
        self._call("remove finalizer", lambda: self._api.remove_finalizer(name, found.uid, found.generation))

    def watch(self, stop: threading.Event, replica: ReplicaId | None = None) -> Iterator[record_store.RecordsEvent]:
        return record_store.filter_events(self._watch(stop), replica)

    def _watch(self, stop: threading.Event) -> Iterator[record_store.RecordsEvent]:
        schedule = self._process.schedule
        while not stop.is_set():
            stream = _WatchStream(schedule, self._network)
            self._api.watchers.append(stream.send)
            try:
                yield record_store.RecordsListed(tuple(self.list()))
                while not stop.is_set():
                    stream.wait(stop)
                    self._call("watch", lambda: None)
                    yield from stream.drain()
            except record_store.RecordsUnavailableError as error:
                yield record_store.RecordsUnreachable(str(error))
                schedule.wait(_RETRY_SECONDS)
            finally:
                self._api.watchers.remove(stream.send)

    def _read(self, name: RecordName) -> StoredObject:
        try:
            return self._call("read record", lambda: self._api.get(name))
        except NotFoundError:
            raise _not_found_error(name) from None

    def _call(self, operation: str, effect: Callable[[], _Result]) -> _Result:
        return self._network.call(self._process, self._api, operation, effect)


class _WatchStream:
    """The events of one watch. They arrive in order, each after a delay."""

    def __init__(self, schedule: Schedule, network: Network) -> None:
        self._schedule = schedule
        self._network = network
        self._last_delivery_seconds = 0.0
        self._delivered: deque[record_store.RecordsEvent] = deque()
        self._wake: Action = lambda: None

    def send(self, stored: StoredObject, is_gone: bool) -> None:
        event = (
            record_store.RecordGone(stored.name) if is_gone else record_store.RecordChanged(_to_stored_record(stored))
        )
        self._last_delivery_seconds = max(
            self._last_delivery_seconds, self._schedule.now + self._network.watch_delay_seconds()
        )
        self._schedule.at(self._last_delivery_seconds, partial(self._deliver, event))

    def wait(self, stop: threading.Event) -> None:
        """Wait for an event, for ``stop``, or for the time of the next connection check."""
        if not self._delivered:
            self._schedule.park(partial(self._register_wake, stop))

    def drain(self) -> Iterator[record_store.RecordsEvent]:
        while self._delivered:
            yield self._delivered.popleft()

    def _deliver(self, event: record_store.RecordsEvent) -> None:
        self._delivered.append(event)
        self._wake()

    def _register_wake(self, stop: threading.Event, wake: Action) -> None:
        self._wake = wake
        self._schedule.after(_WATCH_TIMEOUT_SECONDS, wake)
        if isinstance(stop, ModelEvent):
            stop.call_when_set(wake)


class ModelLeases:
    """Implementation of :class:`workspace.leases.Leases`."""

    def __init__(self, process: Process, api: ApiServer, network: Network) -> None:
        self._process = process
        self._api = api
        self._network = network

    def renew(self, replica: ReplicaId) -> None:
        check_replica_id(replica)
        if not self._network.call(self._process, self._api, "renew lease", lambda: self._api.renew(replica)):
            raise LeaseStoppedError(replica)

    def stop(self, replica: ReplicaId) -> None:
        check_replica_id(replica)
        self._network.call(self._process, self._api, "stop lease", lambda: self._api.stop_lease(replica))
        self._process.schedule.after(_LATE_RENEWAL_SECONDS, partial(self._renew_late, replica))

    def _renew_late(self, replica: ReplicaId) -> None:
        """Deliver a renewal that its sender gave up before it stopped the lease."""
        if replica in self._api.lease_marks:
            self._api.renew(replica)

    def list(self) -> Mapping[ReplicaId, RenewalMark]:
        lease_marks = self._network.call(self._process, self._api, "list leases", self._api.leases)
        return {replica: STOPPED if mark is None else RenewalMark(str(mark)) for replica, mark in lease_marks.items()}

    def delete(self, replica: ReplicaId) -> None:
        check_replica_id(replica)
        self._network.call(self._process, self._api, "delete lease", lambda: self._api.delete_lease(replica))

    def check_writable(self) -> None:
        if self._network.is_read_only(self._api):
            raise self._api.create_unavailable_error("it is read-only")


def _check_record(record: SessionRecord) -> None:
    """Check the identifiers of a record.

    Raises:
        ValueError: A store could not read the record back.
    """
    check_uuid(record.session_uuid)
    record.principal.encode()


def _to_stored_record(found: StoredObject) -> record_store.StoredRecord:
    return record_store.StoredRecord(found.spec, _version_of(found), found.is_deleting)


def _version_of(found: StoredObject) -> record_store.Version:
    return record_store.Version(f"{found.uid}.{found.generation}")


def _parse_version(version: record_store.Version) -> tuple[int, int]:
    """Return the uid and generation of a version; zeros for any other text."""
    uid, _, generation = version.partition(".")
    return (int(uid), int(generation)) if uid.isdigit() and generation.isdigit() else (0, 0)


def _conflict_error(name: RecordName) -> record_store.RecordConflictError:
    return record_store.RecordConflictError(name, "The record has changed.")


def _not_found_error(name: RecordName) -> record_store.RecordNotFoundError:
    return record_store.RecordNotFoundError(name, "The record does not exist.")
