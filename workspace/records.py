"""The values of session records, which say who owns a session location and what is in it.

Gateway replicas keep no truth of their own, and a reaper must prove that a session is dead. Both rely on session
records only. :mod:`workspace.record_store` stores them.

Source: [architecture "Session records, leases and the reaper"].
"""

import enum
from dataclasses import dataclass, field

from workspace.identifiers import ClientSessionId, Principal, RecordName, ReplicaId, SessionUuid, TableUuid, record_name


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
