"""Session records: the durable entries that say who owns a session location.

Why it exists: replicas of the gateway hold no truth of their own, and a reaper must be able to prove what is dead.
Both agree through these records and nothing else. This module has the values and the interface; the storage of
records lies behind :class:`SessionRecords` (files: :mod:`workspace.files.session_records`).

Guarantees of every implementation, held by one contract test suite:

1. ``create`` succeeds once for a name, whoever else tries at the same time.
2. ``replace`` and ``delete`` succeed only if the record is still at the version that the caller read
   (compare-and-swap); of several callers with one version, one wins.
3. A reader sees a whole record or none, never a part.
4. ``watch`` begins with :class:`RecordsListed`, or with :class:`RecordsUnreachable` and then that. After each change it
   tells the record's last state sooner or later; whenever it may have missed one, it lists all of them anew.
5. After RecordsUnavailableError a change has taken effect or not.

Not guaranteed: that ``list`` is one point in time. A record created while it runs may be missing, which is why the
reaper lists locations first and records second. Nor that ``watch`` tells of every change: of several in a row it may
tell the last one only, and it may be late. Before something is deleted for want of a record, ``list`` or ``find`` must
be asked.

Source: design, "Session records, leases and the reaper".
"""

import enum
import hashlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NewType, Protocol

Principal = NewType("Principal", str)
"""Who authentication says the client is; today the ``user_id`` the client sends."""

ClientSessionId = NewType("ClientSessionId", str)
"""The session id a client chose: unique per principal only, and never used as a path."""

SessionUuid = NewType("SessionUuid", str)
"""The random UUID that names a session location; chosen by the gateway."""

TableUuid = NewType("TableUuid", str)
"""The random UUID that names a temporary table's directory in the session location."""

ReplicaId = NewType("ReplicaId", str)
"""A gateway replica's name, new at each start of the process."""

RecordName = NewType("RecordName", str)
"""A record's name in its storage; see :func:`record_name`."""

Version = NewType("Version", str)
"""An opaque mark of one state of a record; differs after each change."""


class Phase(enum.StrEnum):
    """Where a session is in its life; it only moves forward, and after ``ENDING`` the record is deleted."""

    ACTIVE = "Active"
    ENDING = "Ending"


class TableState(enum.StrEnum):
    """``CREATING`` holds the name while the backend writes, ``DROPPING`` until all is removed; only a ``READY`` table
    can be read."""

    CREATING = "Creating"
    READY = "Ready"
    DROPPING = "Dropping"


class WriteKind(enum.StrEnum):
    """What a statement does to a table; see :mod:`gateway.tables.writes` for the steps."""

    CREATION = "Creation"
    INSERTION = "Insertion"
    OVERWRITING = "Overwriting"
    DROP = "Drop"


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """A change of a table that is under way for one statement.

    Attributes:
        directory: Where the backend writes, in the session location; of a drop, one that is never made.
        operation_id: The statement's operation.
        replica: Who follows the write to its end; if that replica is lost, another may take over, or it is undone.
        schema: Of the table, as Spark's JSON: what a replica that takes over needs to make it visible.
        kind: What the statement does.
        is_published: Whether the record holds the outcome already. Then it is not undone any more by others, but
            completed, by whichever replica comes first.
        rows: The number of rows, once published.
        size_bytes: The size of the files, once published.
        replaced: Directories whose rows were replaced; kept until the statement is complete.
        replaced_rows: The table's number of rows before.
        replaced_bytes: The size of the table's files before.
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
        """All directories that must stay while it is under way."""
        return (self.directory, *self.replaced)


@dataclass(frozen=True, slots=True)
class TemporaryTable:
    """One temporary table of a session.

    Attributes:
        name: As the user wrote it; compared without letter case (seed 001, 5.1.2).
        uuid: Its own, and the name of the first directory of its data.
        state: Whether its data is complete.
        storage_format: The data source name of its files, for instance ``parquet``.
        parts: The directories in the session location that hold its rows; each insertion adds one.
        rows: The number of rows in them.
        size_bytes: The size of the files in them.
        created_at: Wall clock, ISO 8601 with zone, for people to read.
        partition_columns: The columns that its directories are named by.
        options: Of its storage format, by key.
        writes: What is being written: the creation, or insertions.
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

    @property
    def directories(self) -> frozenset[TableUuid]:
        """All directories of the session location that are its own now."""
        return frozenset(self.parts).union(*(write.directories for write in self.writes))


@dataclass(frozen=True, slots=True)
class Answer:
    """What a statement was answered, kept for a client that asks again.

    Attributes:
        operation_id: The statement's operation.
        values: The one row of the answer, by column; empty if the answer has none.
    """

    operation_id: str
    values: tuple[tuple[str, bool | int | str], ...]


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """Who owns a session location, and what lies in it.

    Attributes:
        session_uuid: Names the session location.
        principal: First half of the session's identity.
        client_session_id: Second half of the session's identity.
        backend: Address of the backend that has the session, as configured (``sc://host:port``).
        phase: See :class:`Phase`.
        holders: The gateway replicas that serve the session now. Empty while ``ACTIVE`` means an orphan that a
            replica may still adopt.
        tables: The session's temporary tables, in order of creation.
        answers: The last statements that changed them, oldest first.
        created_at: Wall clock, ISO 8601 with zone, for people to read; never used to decide anything.
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
        """All directories of the session location that it names."""
        own = frozenset(write.directory for write in self.writes)
        return own.union(*(table.directories for table in self.tables))

    @property
    def writers(self) -> frozenset[ReplicaId]:
        """The replicas that follow a write to its end whose outcome the record does not hold yet."""
        of_tables = (write for table in self.tables for write in table.writes)
        return frozenset(write.replica for write in (*of_tables, *self.writes) if not write.is_published)

    @property
    def name(self) -> RecordName:
        return record_name(self.principal, self.client_session_id)


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record together with the version that a later ``replace`` or ``delete`` must name.

    Attributes:
        record: As it was read.
        version: Of the record as it was read.
        is_deletion_requested: Whether someone has asked the storage for the session's end (``kubectl delete``).
            No part of the version: asking changes nothing that a ``replace`` could lose.
    """

    record: SessionRecord
    version: Version
    is_deletion_requested: bool = False


@dataclass(frozen=True, slots=True)
class RecordsListed:
    """All records there are. Whatever a watcher knew before counts no more."""

    records: tuple[StoredRecord, ...]


@dataclass(frozen=True, slots=True)
class RecordChanged:
    """A record is new, or has changed."""

    stored: StoredRecord


@dataclass(frozen=True, slots=True)
class RecordGone:
    """A record was deleted."""

    name: RecordName


@dataclass(frozen=True, slots=True)
class RecordsUnreachable:
    """The storage does not answer; what a watcher knows may be old until the next :class:`RecordsListed`."""

    reason: str


RecordsEvent = RecordsListed | RecordChanged | RecordGone | RecordsUnreachable


class RecordError(Exception):
    """Base of what a record store raises::

    RecordError
    ├── RecordExistsError       create: the name is taken
    ├── RecordNotFoundError     read, replace, delete: no such record
    ├── RecordConflictError     replace, delete: changed since it was read
    ├── RecordTooLargeError     create, replace: the storage takes no record of that size
    └── RecordsUnavailableError the truth cannot be read now; nothing may be deleted on the strength of it
    """

    def __init__(self, name: RecordName | None, message: str) -> None:
        super().__init__(message)
        self.name = name


class RecordExistsError(RecordError):
    pass


class RecordNotFoundError(RecordError):
    pass


class RecordConflictError(RecordError):
    pass


class RecordTooLargeError(RecordError):
    pass


class RecordsUnavailableError(RecordError):
    pass


class SessionRecords(Protocol):
    """The storage of session records. All methods block; callers in an event loop use an executor."""

    def create(self, record: SessionRecord) -> StoredRecord:
        """Raises: RecordExistsError, RecordTooLargeError, RecordsUnavailableError."""
        ...

    def read(self, name: RecordName) -> StoredRecord:
        """Raises: RecordNotFoundError, RecordsUnavailableError."""
        ...

    def list(self) -> Sequence[StoredRecord]:
        """All records, in no order. Raises: RecordsUnavailableError."""
        ...

    def find(self, session_uuid: SessionUuid) -> StoredRecord | None:
        """The record that names this session location, as it is now; None if there is none.

        Raises: RecordsUnavailableError.
        """
        ...

    def watch(self, stop: threading.Event) -> Iterator[RecordsEvent]:
        """Tells of changes until it is stopped; see guarantee 4. Raises nothing of its own."""
        ...

    def replace(self, record: SessionRecord, version: Version) -> StoredRecord:
        """Raises: RecordConflictError, RecordNotFoundError, RecordTooLargeError, RecordsUnavailableError."""
        ...

    def delete(self, name: RecordName, version: Version) -> None:
        """Raises: RecordConflictError, RecordNotFoundError, RecordsUnavailableError."""
        ...


def record_name(principal: Principal, client_session_id: ClientSessionId) -> RecordName:
    """The name of the record of a session.

    Always 40 characters of ``[0-9a-f]``, whatever the inputs hold, so it is safe as a file name and as a Kubernetes
    object name. The same session always has the same name, so that creating a record is what decides between two
    replicas that see a session's first request at the same time. Distinct sessions have distinct names: the
    principal's length is part of what is hashed, so no two pairs join to the same text.
    """
    identity = f"{len(principal)}:{principal}:{client_session_id}"
    return RecordName(hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:40])
