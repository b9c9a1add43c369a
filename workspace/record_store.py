"""The interface of the storage of session records, with its errors and events.

The interface is implemented in :mod:`workspace.files.session_records` and :mod:`workspace.kubernetes.session_records`.

Guarantees of every implementation, checked by the same contract tests:

1. If ``create`` is called for the same name several times concurrently, only one call succeeds.
2. ``replace`` and ``delete`` succeed only if the record still has the version that the caller read (compare-and-swap).
   Of several callers with the same version, only one succeeds.
3. A reader gets a complete record or no record.
4. ``watch`` first yields :class:`RecordsListed`, possibly after :class:`RecordsUnreachable`. It eventually reports the
   last state of a changed record. It lists all records again whenever it may have missed a change.
5. If a change raises RecordsUnavailableError, the change may or may not have taken effect.
6. ``list_of_principal`` and ``list_held`` return all matching records that ``list`` would return.
7. A watch for a replica reports only records that concern the replica; see :func:`concerns`. It reports the last state
   of each record that concerns the replica, and a record that no longer concerns it as :class:`RecordGone`.

Not guaranteed:

- ``list`` does not return the state at a single point in time. It may miss a record that is created while ``list``
  runs. Therefore, the reaper lists locations before records.
- ``watch`` does not report every change, and may report changes with a delay. Of several changes in a row, it may
  report only the last. Before you delete something because it has no record, call ``list`` or ``find``.

Source: [architecture "Session records, leases and the reaper"].
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NewType, Protocol

from workspace.identifiers import Principal, RecordName, ReplicaId, SessionUuid
from workspace.records import SessionRecord

Version = NewType("Version", str)
"""An opaque value that identifies one state of a record. Each change generates a new version."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record and its version in the storage.

    Attributes:
        record: The record as it was read.
        version: The version of the record as it was read. ``replace`` and ``delete`` need this version.
        is_deletion_requested: Whether the deletion of the record was requested in the storage (``kubectl delete``).
            Such a request need not change the version, because ``replace`` cannot overwrite it.
    """

    record: SessionRecord
    version: Version
    is_deletion_requested: bool = False


@dataclass(frozen=True, slots=True)
class RecordsListed:
    """Event with a list of all records, which replaces the watcher's previous state."""

    records: tuple[StoredRecord, ...]


@dataclass(frozen=True, slots=True)
class RecordChanged:
    """Event for a record that was created or changed."""

    stored: StoredRecord


@dataclass(frozen=True, slots=True)
class RecordGone:
    """Event for a record that was deleted.

    In a watch for a replica, the record may also exist and no longer concern the replica. Read the record before you
    conclude that its session has ended.
    """

    name: RecordName


@dataclass(frozen=True, slots=True)
class RecordsUnreachable:
    """Event that reports that the storage does not answer.

    The watcher's state may be outdated until the next :class:`RecordsListed`.
    """

    reason: str


RecordsEvent = RecordsListed | RecordChanged | RecordGone | RecordsUnreachable


def concerns(record: SessionRecord, replica: ReplicaId | None) -> bool:
    """Return whether a watch for a replica reports a record.

    A record concerns its holders. A record with several holders, or with none, concerns all replicas. Without a
    replica, the result is always True.
    """
    return replica is None or len(record.holders) != 1 or replica in record.holders


def filter_events(events: Iterator[RecordsEvent], replica: ReplicaId | None) -> Iterator[RecordsEvent]:
    """Yield the events of a watch of all records that concern a replica."""
    if replica is None:
        yield from events
        return
    concerning: set[RecordName] = set()
    for event in events:
        match event:
            case RecordsListed(records):
                found = tuple(stored for stored in records if concerns(stored.record, replica))
                concerning = {stored.record.name for stored in found}
                yield RecordsListed(found)
            case RecordChanged(stored) if concerns(stored.record, replica):
                concerning.add(stored.record.name)
                yield event
            case RecordChanged(StoredRecord(record)) if record.name in concerning:
                concerning.remove(record.name)
                yield RecordGone(record.name)
            case RecordGone(name) if name in concerning:
                concerning.remove(name)
                yield event
            case RecordsUnreachable():
                yield event


class RecordError(Exception):
    """Base class for errors of the record storage.

    ::

        RecordError
        ├── RecordExistsError        create: a record with the same name exists
        ├── RecordNotFoundError      read, replace, delete: the record does not exist
        ├── RecordConflictError      replace, delete: the record has changed since it was read
        ├── RecordTooLargeError      create, replace: the record is larger than the storage accepts
        └── RecordsUnavailableError  the storage cannot answer now; do not delete anything because of this error

    Attributes:
        name: The name of the record, or None if the error concerns all records.
    """

    def __init__(self, name: RecordName | None, message: str) -> None:
        super().__init__(message)
        self.name = name


class RecordExistsError(RecordError):
    """Raised if a record with the same name already exists."""


class RecordNotFoundError(RecordError):
    """Raised if a record does not exist."""


class RecordConflictError(RecordError):
    """Raised if a record has changed since it was read."""


class RecordTooLargeError(RecordError):
    """Raised if a record is larger than the storage accepts."""


class RecordsUnavailableError(RecordError):
    """Raised if the storage cannot answer now."""


class SessionRecords(Protocol):
    """The storage of session records.

    All methods block. Callers in an event loop must use an executor.
    """

    def create(self, record: SessionRecord) -> StoredRecord:
        """Store a new record.

        Raises:
            RecordExistsError: If a record with the same name exists.
            RecordTooLargeError: If the record is larger than the storage accepts.
            RecordsUnavailableError: If the storage cannot answer now.
        """
        ...

    def read(self, name: RecordName) -> StoredRecord:
        """Return the current state of a record.

        Raises:
            RecordNotFoundError: If the record does not exist.
            RecordsUnavailableError: If the storage cannot answer now.
        """
        ...

    def list(self) -> Sequence[StoredRecord]:
        """Return all records, in no particular order.

        Raises:
            RecordsUnavailableError: If the storage cannot answer now.
        """
        ...

    def list_of_principal(self, principal: Principal) -> Sequence[StoredRecord]:
        """Return all records of a principal, in no particular order.

        Raises:
            RecordsUnavailableError: If the storage cannot answer now.
        """
        ...

    def list_held(self, replica: ReplicaId) -> Sequence[StoredRecord]:
        """Return all records that have a replica among their holders, in no particular order.

        Raises:
            RecordsUnavailableError: If the storage cannot answer now.
        """
        ...

    def find(self, session_uuid: SessionUuid) -> StoredRecord | None:
        """Return the current record of a session, or None if it does not exist.

        Raises:
            RecordsUnavailableError: If the storage cannot answer now.
        """
        ...

    def watch(self, stop: threading.Event, replica: ReplicaId | None = None) -> Iterator[RecordsEvent]:
        """Yield an event for each change until ``stop`` is set; see guarantees 4 and 7.

        Errors of the storage are reported as events and do not raise exceptions.

        Args:
            stop: The event that ends the watch when it is set.
            replica: The replica whose records are watched, or None to watch all records.
        """
        ...

    def replace(self, record: SessionRecord, version: Version) -> StoredRecord:
        """Replace a record that still has the given version.

        Raises:
            RecordConflictError: If the record has changed since that version.
            RecordNotFoundError: If the record does not exist.
            RecordTooLargeError: If the record is larger than the storage accepts.
            RecordsUnavailableError: If the storage cannot answer now.
        """
        ...

    def delete(self, name: RecordName, version: Version) -> None:
        """Delete a record that still has the given version.

        Raises:
            RecordConflictError: If the record has changed since that version.
            RecordNotFoundError: If the record does not exist.
            RecordsUnavailableError: If the storage cannot answer now.
        """
        ...
