"""Session records: the durable objects that say who owns a session location.

Gateway replicas keep no truth of their own, and a reaper must prove that a session is dead. Both rely on session
records only. This module contains the values and the interface of their storage, :class:`SessionRecords`. The
implementations are :mod:`workspace.files.session_records` and :mod:`workspace.kubernetes.session_records`.

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

import enum
import hashlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NewType, Protocol

Principal = NewType("Principal", str)
"""Who authentication says the client is; today, the ``user_id`` that the client sends."""

ClientSessionId = NewType("ClientSessionId", str)
"""The session id that a client chose; unique per principal only, and never part of a path."""

SessionUuid = NewType("SessionUuid", str)
"""The random UUID that names a session location; the gateway chooses it."""

TableUuid = NewType("TableUuid", str)
"""The random UUID that names a directory of a temporary table in the session location."""

ReplicaId = NewType("ReplicaId", str)
"""The name of a gateway replica; each start of the process has a new one."""

RecordName = NewType("RecordName", str)
"""The name of a record in its storage; see :func:`record_name`."""

Version = NewType("Version", str)
"""An opaque identifier of one state of a record; each change makes a new one."""


class Phase(enum.StrEnum):
    """The phase of a session. ``ENDING`` is final: then the record is deleted."""

    ACTIVE = "Active"
    ENDING = "Ending"


class TableState(enum.StrEnum):
    """The state of a temporary table.

    ``CREATING`` reserves the name while the backend writes, ``DROPPING`` until all files are removed. Only a ``READY``
    table can be read.
    """

    CREATING = "Creating"
    READY = "Ready"
    DROPPING = "Dropping"


class WriteKind(enum.StrEnum):
    """The kind of a statement that writes rows.

    See :mod:`gateway.tables.execution` for the steps.
    """

    CREATION = "Creation"
    INSERTION = "Insertion"
    OVERWRITING = "Overwriting"


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """A write of rows into a table by a statement that is still running.

    Attributes:
        directory: The directory in the session location that the backend writes to.
        operation_id: The operation of the statement.
        replica: The replica that finishes the write. If it is lost, another replica takes over or undoes the write.
        schema: The schema of the table as Spark's JSON. A replica that takes over needs it to make the table visible.
        kind: The kind of the statement.
        is_published: Whether the record already contains the outcome. If so, any replica completes the write, and
            none undoes it.
        rows: The number of rows, once published.
        size_bytes: The size of the files, once published.
        replaced: The directories whose rows were replaced; they stay until the statement is complete.
        replaced_rows: The number of rows of the table before.
        replaced_bytes: The size of the files of the table before.
    """

    directory: TableUuid
    operation_id: str
    replica: ReplicaId
    schema: str = ""
    kind: WriteKind = WriteKind.INSERTION
    is_published: bool = False
    rows: int = 0
    size_bytes: int = 0
    replaced: tuple[TableUuid, ...] = ()
    replaced_rows: int = 0
    replaced_bytes: int = 0

    @property
    def directories(self) -> tuple[TableUuid, ...]:
        """The directories that must stay until the write is complete."""
        return (self.directory, *self.replaced)


@dataclass(frozen=True, slots=True)
class PendingDrop:
    """The drop of a table by a statement that is still running.

    Attributes:
        operation_id: The operation of the statement.
        replica: The replica that completes the drop. If it is lost, another replica completes the drop.
        schema: The schema of the table as Spark's JSON. Undoing the drop needs it to make the view again.
    """

    operation_id: str
    replica: ReplicaId
    schema: str = ""

    @property
    def is_published(self) -> bool:
        """Always true.

        A record that names a drop already contains the outcome of the drop.
        """
        return True


PendingChange = PendingWrite | PendingDrop


@dataclass(frozen=True, slots=True)
class TemporaryTable:
    """A temporary table of a session.

    Attributes:
        name: The name as the user wrote it; compared without letter case [temporary-tables §5.1.2].
        uuid: The UUID of the table, and the name of the first directory of its data.
        state: Whether the data is complete.
        storage_format: The data source name of the files, such as ``parquet``.
        parts: The directories in the session location that contain the rows; each insertion adds one.
        rows: The number of rows.
        size_bytes: The size of the files.
        created_at: Wall-clock time as ISO 8601 with a time zone, for people.
        partition_columns: The columns that name the subdirectories.
        options: The options of the storage format, by key.
        writes: The running creation or insertions.
        drop: The running drop; None if there is none.
    """

    name: str
    uuid: TableUuid
    state: TableState
    storage_format: str
    parts: tuple[TableUuid, ...] = ()
    rows: int = 0
    size_bytes: int = 0
    created_at: str = ""
    partition_columns: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    writes: tuple[PendingWrite, ...] = ()
    drop: PendingDrop | None = None

    @property
    def pending_changes(self) -> tuple[PendingChange, ...]:
        """All running changes: the writes, then the drop."""
        return self.writes if self.drop is None else (*self.writes, self.drop)

    @property
    def directories(self) -> frozenset[TableUuid]:
        """The directories of the session location that belong to the table now."""
        return frozenset(self.parts).union(*(write.directories for write in self.writes))


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a statement, for a client that asks again.

    Attributes:
        operation_id: The operation of the statement.
        values: The single row of the answer, by column; empty for an answer without rows.
    """

    operation_id: str
    values: tuple[tuple[str, bool | int | str], ...]


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """The owner and the contents of a session location.

    Attributes:
        session_uuid: The name of the session location.
        principal: The first half of the session's identity.
        client_session_id: The second half of the session's identity.
        backend: The configured address of the backend that runs the session (``sc://host:port``).
        phase: The phase of the session.
        created_at: Wall-clock time as ISO 8601 with a time zone, for people; no decision depends on it.
        holders: The gateway replicas that serve the session. An ``ACTIVE`` session without holders is an orphan that a
            replica may still adopt.
        tables: The temporary tables, in order of creation.
        answers: The answers to the last statements that changed tables, oldest first.
        writes: The running writes that belong to no temporary table.
    """

    session_uuid: SessionUuid
    principal: Principal
    client_session_id: ClientSessionId
    backend: str
    phase: Phase
    created_at: str
    holders: frozenset[ReplicaId] = frozenset()
    tables: tuple[TemporaryTable, ...] = field(default=())
    answers: tuple[Answer, ...] = field(default=())
    writes: tuple[PendingWrite, ...] = field(default=())

    @property
    def directories(self) -> frozenset[TableUuid]:
        """The directories of the session location that the record names."""
        own = frozenset(write.directory for write in self.writes)
        return own.union(*(table.directories for table in self.tables))

    @property
    def writers(self) -> frozenset[ReplicaId]:
        """The replicas with a write whose outcome is not yet published."""
        of_tables = (write for table in self.tables for write in table.writes)
        return frozenset(write.replica for write in (*of_tables, *self.writes) if not write.is_published)

    @property
    def name(self) -> RecordName:
        """The name of the record in its storage."""
        return record_name(self.principal, self.client_session_id)


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


def record_name(principal: Principal, client_session_id: ClientSessionId) -> RecordName:
    """Return the name of the record of a session.

    - The name always has 40 characters of ``[0-9a-f]``, so it is safe as a file name and as a Kubernetes object name.
    - One session always has the same name. So when two replicas see the first request of a session at the same time,
      the creation of the record decides between them.
    - Different sessions have different names. The hash includes the length of the principal, so no two pairs join to
      the same text.
    """
    identity = f"{len(principal)}:{principal}:{client_session_id}"
    return RecordName(hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:40])
