"""The interface of the storage of session records, its errors and its events.

The implementations are :mod:`workspace.files.session_records` and :mod:`workspace.kubernetes.session_records`.

Guarantees of every implementation, checked by one contract test suite:

1. Of several concurrent calls of ``create`` for one name, one succeeds.
2. ``replace`` and ``delete`` succeed only if the record is still at the version that the caller read
   (compare-and-swap). Of several callers with the same version, one succeeds.
3. A reader sees a complete record or none.
4. ``watch`` starts with :class:`RecordsListed`, or with :class:`RecordsUnreachable` and then that. It eventually
   reports the last state of a changed record. It lists all records again whenever it may have missed a change.
5. After RecordsUnavailableError, a change may or may not have taken effect.

Not guaranteed:

- That ``list`` shows one point in time. It may miss a record that is created while it runs, so the reaper lists
  locations first and records second.
- That ``watch`` reports every change, or reports it at once. Of several changes in a row it may report only the last.
  Before you delete something because it has no record, ask ``list`` or ``find``.

Source: [architecture "Session records, leases and the reaper"].
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NewType, Protocol

from workspace.identifiers import RecordName, SessionUuid
from workspace.records import SessionRecord

Version = NewType("Version", str)
"""An opaque identifier of one state of a record; each change makes a new one."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record with the version that a later ``replace`` or ``delete`` must name.

    Attributes:
        record: The record as it was read.
        version: The version of the record as it was read.
        is_deletion_requested: Whether someone has asked the storage to end the session (``kubectl delete``). A request
            does not change the version, because ``replace`` cannot lose it.
    """

    record: SessionRecord
    version: Version
    is_deletion_requested: bool = False


@dataclass(frozen=True, slots=True)
class RecordsListed:
    """The list of all records. Replaces the previous state of the watcher."""

    records: tuple[StoredRecord, ...]


@dataclass(frozen=True, slots=True)
class RecordChanged:
    """A record was created or changed."""

    stored: StoredRecord


@dataclass(frozen=True, slots=True)
class RecordGone:
    """A record was deleted."""

    name: RecordName


@dataclass(frozen=True, slots=True)
class RecordsUnreachable:
    """The storage does not answer.

    The state of a watcher may be stale until the next :class:`RecordsListed`.
    """

    reason: str


RecordsEvent = RecordsListed | RecordChanged | RecordGone | RecordsUnreachable


class RecordError(Exception):
    """The base class of the errors of a record store.

    ::

        RecordError
        ├── RecordExistsError        create: the name is taken
        ├── RecordNotFoundError      read, replace, delete: there is no such record
        ├── RecordConflictError      replace, delete: the record has changed since it was read
        ├── RecordTooLargeError      create, replace: the storage does not accept a record of that size
        └── RecordsUnavailableError  the storage cannot answer now; nothing may be deleted on this basis

    Attributes:
        name: The name of the record; None if the error concerns all records.
    """

    def __init__(self, name: RecordName | None, message: str) -> None:
        super().__init__(message)
        self.name = name


class RecordExistsError(RecordError):
    """A record of that name exists already."""


class RecordNotFoundError(RecordError):
    """There is no record of that name."""


class RecordConflictError(RecordError):
    """The record has changed since it was read."""


class RecordTooLargeError(RecordError):
    """The record is larger than the storage accepts."""


class RecordsUnavailableError(RecordError):
    """The storage cannot answer now."""


class SessionRecords(Protocol):
    """The storage of session records.

    All methods block; callers in an event loop use an executor.
    """

    def create(self, record: SessionRecord) -> StoredRecord:
        """Store a new record.

        Raises:
            RecordExistsError: If the name is taken.
            RecordTooLargeError: If the storage does not accept a record of that size.
            RecordsUnavailableError: If the storage cannot answer now.
        """
        ...

    def read(self, name: RecordName) -> StoredRecord:
        """Return the current state of a record.

        Raises:
            RecordNotFoundError: If there is no such record.
            RecordsUnavailableError: If the storage cannot answer now.
        """
        ...

    def list(self) -> Sequence[StoredRecord]:
        """Return all records, in no order.

        Raises:
            RecordsUnavailableError: If the storage cannot answer now.
        """
        ...

    def find(self, session_uuid: SessionUuid) -> StoredRecord | None:
        """Return the current record that names a session location; None if there is none.

        Raises:
            RecordsUnavailableError: If the storage cannot answer now.
        """
        ...

    def watch(self, stop: threading.Event) -> Iterator[RecordsEvent]:
        """Yield changes until ``stop`` is set; see guarantee 4. Raises nothing of its own."""
        ...

    def replace(self, record: SessionRecord, version: Version) -> StoredRecord:
        """Replace a record that is still at a version.

        Raises:
            RecordConflictError: If the record has changed since.
            RecordNotFoundError: If there is no such record.
            RecordTooLargeError: If the storage does not accept a record of that size.
            RecordsUnavailableError: If the storage cannot answer now.
        """
        ...

    def delete(self, name: RecordName, version: Version) -> None:
        """Delete a record that is still at a version.

        Raises:
            RecordConflictError: If the record has changed since.
            RecordNotFoundError: If there is no such record.
            RecordsUnavailableError: If the storage cannot answer now.
        """
        ...
