"""Session records, which describe the owner and the contents of session locations.

Gateway replicas do not store any durable state themselves, and a reaper must be certain that a session is dead before
it removes the session. Both rely only on session records. Records are stored with :mod:`workspace.record_store`.

Source: [architecture "Session records, leases and the reaper"].
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

from workspace.identifiers import ClientSessionId, Principal, RecordName, ReplicaId, SessionUuid, TableUuid, record_name

NO_REPLICA = ReplicaId("none")
"""The replica of a change that a stopping replica handed over. No replica has this name, so it never has a lease."""


class Phase(enum.StrEnum):
    """The phase of a session.

    ``ENDING`` is the final phase. It ends with the deletion of the record.
    """

    ACTIVE = "Active"
    ENDING = "Ending"


class TableState(enum.StrEnum):
    """The state of a temporary table.

    Attributes:
        CREATING: The name is reserved while the backend writes the table.
        READY: The table can be read.
        DROPPING: The name is reserved until all files of the table are removed.
    """

    CREATING = "Creating"
    READY = "Ready"
    DROPPING = "Dropping"


class WriteKind(enum.StrEnum):
    """The kind of a statement that writes rows to a table.

    For the steps of each kind, see :mod:`gateway.tables.execution`.

    Attributes:
        CREATION: The rows are those of a new table.
        INSERTION: The rows are added.
        OVERWRITING: The rows replace all rows that the table has when they are published.
        PARTITION_OVERWRITING: The rows replace those of some partitions when they are published.
        REWRITING: The rows replace those that the table had when the write began, or those of some of its partitions.
        MERGING: The rows are those of several parts that follow each other, in a single part. No statement of a client.
        ALTERATION: There are no rows. The table gets other columns.
        REPLACEMENT: The rows are those of a new table with the same name, which replaces the table.
        RENAMING: There are no rows. The table gets another name.
    """

    CREATION = "Creation"
    INSERTION = "Insertion"
    OVERWRITING = "Overwriting"
    PARTITION_OVERWRITING = "PartitionOverwriting"
    REWRITING = "Rewriting"
    MERGING = "Merging"
    ALTERATION = "Alteration"
    REPLACEMENT = "Replacement"
    RENAMING = "Renaming"


@dataclass(frozen=True, slots=True)
class Replacement:
    """Partitions of a table whose rows a part has replaced.

    Attributes:
        part: The directory of the part. The rows of the partitions in all parts before it are no longer visible.
        partitions: The paths of the partitions, such as ``a=1/b=x``. A path that names only the first partition columns
            stands for all partitions below it. The part has rows in no other partitions.
    """

    part: TableUuid
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """What determines how the parts of a table are read and written.

    For the attributes, see :class:`TemporaryTable`.
    """

    storage_format: str
    created_at: str = ""
    partition_columns: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    replacements: tuple[Replacement, ...] = ()
    schema: str = ""
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """A running statement that writes rows to a table.

    Attributes:
        directory: The directory in the session location to which the backend writes the rows.
        operation_id: The id of the statement's operation.
        replica: The replica that completes the write. If this replica is lost, another replica completes or undoes the
            write. ``NO_REPLICA`` if a stopping replica handed over the write.
        schema: The schema of the table as Spark's JSON. If another replica takes over the write, it needs the schema
            to create the view of the table.
        kind: The kind of the statement.
        is_published: Whether the record already contains the result of the write. A published write can be completed
            by any replica, but can no longer be undone.
        rows: The number of written rows. It is known when the write is published.
        size_bytes: The size of the written files. It is known when the write is published. With a quota for the size
            of tables, it is known before.
        replaced: The directories of the rows that were replaced. They are kept until the statement is complete. For a
            write that rewrites rows or merges parts, they are known when the write begins.
        replaced_rows: The number of rows that the write replaces. Insertions replace none.
        replaced_bytes: The size of the files that the write replaces.
        partitions: The partitions whose rows the write replaces, see :class:`Replacement`. Empty for a write that
            overwrites the partitions of its own rows, until it is published, and for other writes.
        former_schema: The schema of the table before a write that alters or replaces its columns, as Spark's JSON.
        definition: For a write that replaces the table, the definition of the new table. When the write is published,
            this becomes the definition of the replaced table.
        is_overtaken: Whether another write has replaced the table since the write began, so that it must fail.
        other_name: For a write that renames the table, the new name. When the write is published, this becomes the
            former name.
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
    partitions: tuple[str, ...] = ()
    former_schema: str = ""
    definition: TableDefinition | None = None
    is_overtaken: bool = False
    other_name: str = ""

    @property
    def replaces_all(self) -> bool:
        """Whether the write replaces all rows of the table, as of now or as of its beginning."""
        if self.kind is WriteKind.REWRITING:
            return not self.partitions
        return self.kind in {WriteKind.OVERWRITING, WriteKind.REPLACEMENT}

    @property
    def directories(self) -> tuple[TableUuid, ...]:
        """The directories that must be kept until the write is complete."""
        return (self.directory, *self.replaced)


@dataclass(frozen=True, slots=True)
class PendingDrop:
    """A running statement that drops a table.

    Attributes:
        operation_id: The id of the statement's operation.
        replica: The replica that completes the drop. If this replica is lost, another replica completes the drop.
        schema: The schema of the table as Spark's JSON. It is needed to create the view again if the drop is undone.
    """

    operation_id: str
    replica: ReplicaId
    schema: str = ""

    @property
    def is_published(self) -> bool:
        """Whether the record contains the result of the drop. Always True."""
        return True


PendingChange = PendingWrite | PendingDrop


@dataclass(frozen=True, slots=True)
class TemporaryTable:
    """A temporary table of a session.

    Attributes:
        name: The name as the user wrote it. Names are compared without regard to case [temporary-tables §5.1.2].
        uuid: The UUID of the table. It is also the name of the first directory with the table's data.
        state: The state of the table.
        storage_format: The name of the data source that reads and writes the files, such as ``parquet``.
        parts: The directories in the session location that contain the rows. Each insertion adds a directory at the
            end.
        rows: The number of rows in the table.
        size_bytes: The total size of the table's files.
        created_at: The time of creation, for people to read. Wall-clock time in ISO 8601 format with a time zone.
        partition_columns: The columns by whose values the files are divided into subdirectories.
        options: The keys and values of the storage format's options.
        writes: The running statements that write to the table.
        drop: The running statement that drops the table, or None.
        replacements: The partitions of which rows in earlier parts are no longer visible.
        schema: The schema of the table as Spark's JSON, if its columns have been altered. Otherwise empty.
        properties: The keys and values of the table's properties. A comment has the key ``comment``.
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
    replacements: tuple[Replacement, ...] = ()
    schema: str = ""
    properties: tuple[tuple[str, str], ...] = ()

    @property
    def definition(self) -> TableDefinition:
        """What determines how the parts are read and written."""
        return TableDefinition(**{each.name: getattr(self, each.name) for each in fields(TableDefinition)})

    def defined_as(self, definition: TableDefinition) -> "TemporaryTable":
        """Return the table with another definition."""
        return replace(self, **{each.name: getattr(definition, each.name) for each in fields(definition)})

    def written_by(self, write: PendingWrite) -> "TemporaryTable":
        """Return the table as a write that is not published yet writes it."""
        return self if write.definition is None or write.is_published else self.defined_as(write.definition)

    @property
    def visible_parts(self) -> tuple[tuple[TableUuid, tuple[str, ...]], ...]:
        """The parts that contain visible rows, each with the partitions of which its rows are not visible."""
        return self._parts_without(self.replacements)

    @property
    def hidden_parts(self) -> frozenset[TableUuid]:
        """The parts of which no rows are visible any more, even if all pending writes are undone."""
        pending = {write.directory for write in self.writes}
        lasting = [each for each in self.replacements if each.part not in pending]
        return frozenset(self.parts) - {part for part, _ in self._parts_without(lasting)}

    def _parts_without(self, replacements: Sequence[Replacement]) -> tuple[tuple[TableUuid, tuple[str, ...]], ...]:
        replaced = {each.part: each.partitions for each in replacements}
        found: list[tuple[TableUuid, tuple[str, ...]]] = []
        hidden: dict[str, None] = {}
        for part in reversed(self.parts):
            own = replaced.get(part, ())
            if not own or not hidden.keys() >= set(own):
                found.append((part, tuple(hidden)))
            hidden.update(dict.fromkeys(own))
        return tuple(reversed(found))

    @property
    def pending_changes(self) -> tuple[PendingChange, ...]:
        """All running changes of the table. A drop is the last."""
        return self.writes if self.drop is None else (*self.writes, self.drop)

    @property
    def other_names(self) -> tuple[str, ...]:
        """The names that the table gets from running statements, or had before them."""
        return tuple(write.other_name for write in self.writes if write.other_name)

    @property
    def directories(self) -> frozenset[TableUuid]:
        """All directories in the session location that belong to the table."""
        return frozenset(self.parts).union(*(write.directories for write in self.writes))


@dataclass(frozen=True, slots=True)
class Answer:
    """The stored answer to a statement, in case the client repeats its request.

    Attributes:
        operation_id: The id of the statement's operation.
        values: The columns and values of the answer's only row. Empty if the answer has no rows.
    """

    operation_id: str
    values: tuple[tuple[str, bool | int | str], ...]


class Refusal(enum.StrEnum):
    """What gateways refuse because of a suspected request.

    Attributes:
        NOTHING: Nothing yet.
        OPERATION: The operation, which clients send again by themselves.
        REQUEST: The operation, and each equal request of the session.
    """

    NOTHING = "Nothing"
    OPERATION = "Operation"
    REQUEST = "Request"


@dataclass(frozen=True, slots=True)
class SuspectedRequest:
    """A request on which a gateway worked when it was lost.

    Attributes:
        operation_id: The operation that the request started or referred to. Empty if there was none.
        digest: The digest of the request.
        losses: The number of gateways that were lost while they worked on the request.
        refusal: What gateways refuse.
        last_loss: The name of the last loss that was counted.
    """

    operation_id: str
    digest: str
    losses: int
    refusal: Refusal
    last_loss: str


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """The owner and the contents of a session location.

    Attributes:
        session_uuid: The UUID of the session, which is the name of the session location.
        principal: The principal that owns the session. The principal and the client session id identify the session.
        client_session_id: The session id that the client chose.
        backend: The address of the backend that runs the session (``sc://host:port``).
        phase: The phase of the session.
        created_at: The time of creation, for people to read. Wall-clock time in ISO 8601 format with a time zone. No
            decision depends on it.
        holders: The gateway replicas that serve the session. If an ``ACTIVE`` session has no holders, a replica can
            still adopt it.
        tables: The temporary tables, in order of creation.
        answers: The answers to the last statements that changed tables, oldest first.
        writes: The running writes that do not belong to a temporary table.
        suspects: The requests on which gateways worked when they were lost, oldest first.
        relations: The ids of operations whose statement is the root relation of a plan, so that their clients expect
            rows.
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
    suspects: tuple[SuspectedRequest, ...] = field(default=())
    relations: tuple[str, ...] = field(default=())

    @property
    def directories(self) -> frozenset[TableUuid]:
        """All directories in the session location to which the record refers."""
        own = frozenset(write.directory for write in self.writes)
        return own.union(*(table.directories for table in self.tables))

    @property
    def writers(self) -> frozenset[ReplicaId]:
        """The replicas with an unpublished write."""
        of_tables = (write for table in self.tables for write in table.writes)
        return frozenset(write.replica for write in (*of_tables, *self.writes) if not write.is_published)

    @property
    def name(self) -> RecordName:
        """The name of the record in the storage."""
        return record_name(self.principal, self.client_session_id)
