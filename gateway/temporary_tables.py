"""``CREATE TEMPORARY TABLE … AS`` and ``DROP TABLE``: what the session's temporary tables are made of.

Why it exists: Spark refuses temporary tables. Here one becomes a write by the backend into the session location, then a
temporary view of the table's name in the backend's session, so that every route to the name resolves it with Spark's
own rules.

Guarantees:

1. A name is claimed in the session record before anything is written, so of two statements that create it, one wins.
2. A creation that fails or is interrupted leaves no name, no view and no file.
3. The table can be read only when all of its data is written.
4. Directories have mode 0700 and files 0600, whatever the umask of the backend.

Not guaranteed yet: that the gateway's own death in the middle is made good before the session ends.

Source: seed 001, 5.1.1-5.1.8, 5.1.13 and 5.4; design, "Temporary tables".
"""

import asyncio
import io
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import structlog
from pyspark.sql.connect.proto import base_pb2, commands_pb2, expressions_pb2, relations_pb2
from pyspark.sql.types import StructType

from gateway.backend_session import BackendSession, schema_json
from gateway.errors import LodgeError, session_closed, table_not_found
from gateway.operations import Operation
from gateway.session_settings import SessionSettings
from gateway.sessions import Session, Sessions, Storage
from gateway.sql.names import quoted
from gateway.sql.statements import CreateTemporaryTable, DropTable
from gateway.workspace_names import Names, invalid_schema
from workspace.records import (
    RecordConflictError,
    RecordNotFoundError,
    SessionRecord,
    TableState,
    TableUuid,
    TemporaryTable,
)
from workspace.sessions import SessionEndingError, table_named, with_table, without_table
from workspace.workspaces import Workspaces

SqlCommandResult = base_pb2.ExecutePlanResponse.SqlCommandResult

_STORAGE_FORMATS = ("parquet",)
_ROWS_WRITTEN = "lodge_rows_written"
_PRIVATE_FILES = {"fs.permissions.umask-mode": "077", "fs.file.impl.disable.cache": "true"}

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Creation:
    """One ``CREATE TEMPORARY TABLE`` on its way.

    Attributes:
        statement: As recognised.
        query: The client's own relation, with the text of the inner query alone; resolved.
        operation: The operation under which the client sees it.
        backend: The client's session at the backend.
    """

    statement: CreateTemporaryTable
    query: relations_pb2.Relation
    operation: Operation
    backend: BackendSession


class AlreadyExistsError(LodgeError):
    """Seed 001, 5.4: a duplicated table or view name."""

    def __init__(self, name: str, schema: str) -> None:
        self.text = f"A table or view with given name [{name}] already exists in schema [{schema}]."
        super().__init__("TABLE_OR_VIEW_ALREADY_EXISTS", "42P07", self.text)


class TemporaryTables:
    """Creates and drops temporary tables of the sessions of this replica."""

    def __init__(self, storage: Storage, sessions: Sessions, workspaces: Workspaces) -> None:
        self._storage = storage
        self._sessions = sessions
        self._workspaces = workspaces

    async def names(self, session: Session, settings: SessionSettings) -> Names:
        """What names mean in the session now."""
        record = await self._record(session)
        return Names(self._workspaces, record.tables, settings)

    async def create(self, session: Session, creation: Creation) -> SqlCommandResult:
        """Raises: LodgeError, after everything that was begun is undone."""
        statement = creation.statement
        name = self._temporary_name(statement.name)
        storage_format = (statement.storage_format or "parquet").lower()
        if storage_format not in _STORAGE_FORMATS:
            raise LodgeError(
                "LODGE_STORAGE_FORMAT",
                "0A000",
                f"Temporary table [{name}] cannot be stored as [{storage_format}]. Supported: "
                f"{', '.join(_STORAGE_FORMATS)}.",
            )
        schema = await creation.backend.schema(creation.query)
        _check_columns(statement, schema)
        await self._check_persistent(name)
        table = TemporaryTable(name, TableUuid(str(uuid.uuid4())), TableState.CREATING, storage_format)
        log.info(
            "temporary_table_creation_started",
            message=f"Temporary table [{name}] is being created.",
            table=name,
            table_uuid=table.uuid,
        )
        self._sessions.require_lease()
        try:
            await self._change(session, lambda record: self._claimed(record, table))
        except AlreadyExistsError as error:
            if statement.if_not_exists:
                return _ok(False, error.text)
            raise
        try:
            rows = await self._write(session, creation, table, schema)
        except BaseException as error:
            await asyncio.shield(self._undo(session, table))
            if not isinstance(error, (LodgeError, asyncio.CancelledError)):
                log.exception("temporary_table_creation_broke", table=name)
                raise LodgeError(
                    "LODGE_CREATION_FAILED",
                    "58000",
                    f"Temporary table [{name}] could not be created; the gateway's log has the reason.",
                ) from error
            raise
        log.info("temporary_table_created", table=name, table_uuid=table.uuid, rows=rows)
        return _result({"Fragment": pa.array(["0_0"]), "Number of records written": pa.array([rows], pa.int64())})

    async def is_for_spark(self, session: Session, statement: DropTable, backend: BackendSession) -> bool:
        """Whether a ``DROP TABLE`` means a table of Spark's own catalog; temporary tables are searched first."""
        if len(statement.name) > 1:
            return self._workspaces.match(statement.name) is None
        if table_named(await self._record(session), statement.name[0]) is not None:
            return False
        return await backend.table_exists(quoted(statement.name[0]))

    async def drop(self, session: Session, statement: DropTable, backend: BackendSession) -> SqlCommandResult:
        """Raises: LodgeError."""
        name = statement.name[0] if len(statement.name) == 1 else self._qualified_name(statement.name, "dropped")
        table = table_named(await self._record(session), name)
        if table is None or table.state is not TableState.READY:
            if statement.if_exists:
                return _ok(False, f"Table [{name}] was not found.")
            raise LodgeError("TABLE_OR_VIEW_NOT_FOUND", "42P01", f"Table [{name}] is not found.")
        log.info(
            "temporary_table_drop_started",
            message=f"Temporary table [{table.name}] is being dropped.",
            table=table.name,
            table_uuid=table.uuid,
        )
        self._sessions.require_lease()
        await backend.drop_temp_view(table.name)
        await self._change(session, lambda record: without_table(record, table.name))
        await self._remove_files(session, table)
        log.info("temporary_table_dropped", table=table.name, table_uuid=table.uuid)
        return _ok(True, f"Temporary table [{table.name}] was dropped.")

    async def _write(self, session: Session, creation: Creation, table: TemporaryTable, schema: StructType) -> int:
        if await creation.backend.table_exists(f"system.session.{quoted(table.name)}"):
            raise self._already_exists(table.name)
        location = await self._storage.run(self._storage.locations.create, session.uuid)
        directory = str(location / table.uuid)
        query = creation.query
        columns = creation.statement.columns
        if columns is not None:
            query = relations_pb2.Relation(to_df=relations_pb2.ToDF(input=creation.query, column_names=columns))
            schema = StructType(
                [
                    field.__class__(name, field.dataType, field.nullable, field.metadata)
                    for name, field in zip(columns, schema.fields, strict=True)
                ]
            )
        result = await creation.backend.execute(
            base_pb2.Plan(command=_write_command(query, table, directory, creation.statement)),
            operation_id=creation.operation.id,
            on_progress=creation.operation.progress,
        )
        creation.operation.server_side_session_id = result.server_side_session_id
        await self._register(session, creation.backend, table, _view_command(table, directory, schema))
        return result.observed.get(_ROWS_WRITTEN, 0)

    async def _register(
        self, session: Session, backend: BackendSession, table: TemporaryTable, view: commands_pb2.Command
    ) -> None:
        """Makes the written table visible: in the backend's session, then in the record."""
        self._sessions.require_lease()
        try:
            await backend.execute(base_pb2.Plan(command=view))
        except asyncio.CancelledError:
            await asyncio.shield(backend.drop_temp_view(table.name))
            raise
        ready = TemporaryTable(table.name, table.uuid, TableState.READY, table.storage_format)
        try:
            await self._change(session, lambda record: _replaced(record, ready))
        except BaseException:
            await asyncio.shield(backend.drop_temp_view(table.name))
            raise

    async def _undo(self, session: Session, table: TemporaryTable) -> None:
        await self._remove_files(session, table)
        try:
            await self._change(session, lambda record: _released(record, table))
        except LodgeError:
            log.warning("temporary_table_undo_left", table=table.name, table_uuid=table.uuid)

    async def _remove_files(self, session: Session, table: TemporaryTable) -> None:
        locations = self._storage.locations

        def remove() -> None:
            locations.remove_table(session.uuid, table.uuid)
            for entry in locations.trash_of(session.uuid):
                if table.uuid in entry:
                    locations.purge(entry)

        try:
            await self._storage.run(remove)
        except OSError as error:
            log.warning("temporary_table_files_left", table_uuid=table.uuid, reason=str(error))

    async def _record(self, session: Session) -> SessionRecord:
        try:
            stored = await self._storage.run(self._storage.records.read, session.record_name)
        except RecordNotFoundError as error:
            raise session_closed(session.key.client_session_id) from error
        return stored.record

    async def _change(self, session: Session, change: Callable[[SessionRecord], SessionRecord]) -> None:
        def checked(record: SessionRecord) -> SessionRecord:
            if record.session_uuid != session.uuid:
                raise SessionEndingError(record)
            return change(record)

        try:
            await self._storage.update(session.record_name, checked)
        except (RecordNotFoundError, SessionEndingError) as error:
            raise session_closed(session.key.client_session_id) from error
        except RecordConflictError as error:
            raise LodgeError(
                "LODGE_SESSION_BUSY", "40001", "Too many statements change this session's tables. Try again."
            ) from error

    def _claimed(self, record: SessionRecord, table: TemporaryTable) -> SessionRecord:
        if table_named(record, table.name) is not None:
            raise self._already_exists(table.name)
        return with_table(record, table)

    async def _check_persistent(self, name: str) -> None:
        """Seed 001, 5.1.2: a permanent table of that name in the default temporary workspace."""
        path = self._workspaces.temporary.root / name
        if "/" not in name and "\0" not in name and await self._storage.run(path.exists):
            raise self._already_exists(name)

    def _already_exists(self, name: str) -> "AlreadyExistsError":
        return AlreadyExistsError(name, self._workspaces.temporary.name)

    def _temporary_name(self, parts: Sequence[str]) -> str:
        return parts[0] if len(parts) == 1 else self._qualified_name(parts, "created")

    def _qualified_name(self, parts: Sequence[str], what: str) -> str:
        """The table's own name. Raises: LodgeError if it is outside of the default temporary workspace."""
        match = self._workspaces.match(parts[:-1])
        if match is None or match[1] != len(parts) - 1:
            raise invalid_schema(".".join(parts[:-1]), self._workspaces)
        workspace = match[0]
        if workspace is self._workspaces.temporary:
            return parts[-1]
        if what == "dropped":
            raise LodgeError(
                "LODGE_IMMUTABLE_SCHEMA",
                "42501",
                f"Unable to create or drop tables/views. Schema [{workspace.name}] is immutable.",
            )
        raise LodgeError(
            "LODGE_NOT_TEMPORARY_WORKSPACE",
            "42602",
            "Temporary tables are not allowed to be created outside of default temporary workspace "
            f"[{self._workspaces.temporary.name}].",
        )


def _replaced(record: SessionRecord, table: TemporaryTable) -> SessionRecord:
    claimed = table_named(record, table.name)
    if claimed is None or claimed.uuid != table.uuid:
        raise table_not_found(table.name, "It was dropped while it was created.")
    return with_table(record, table)


def _released(record: SessionRecord, table: TemporaryTable) -> SessionRecord:
    claimed = table_named(record, table.name)
    if claimed is None or claimed.uuid != table.uuid:
        return record
    return without_table(record, table.name)


def _check_columns(statement: CreateTemporaryTable, schema: StructType) -> None:
    """Seed 001, 5.1.1, rules 1 and 3-5."""
    if statement.columns is not None and len(statement.columns) != len(schema.fields):
        raise LodgeError(
            "CREATE_VIEW_COLUMN_ARITY_MISMATCH",
            "21S01",
            "Table's field list and the table's query field list have different counts.",
        )
    names = {name.casefold() for name in statement.columns or schema.names}
    for column in statement.partition_columns:
        if column.casefold() not in names:
            raise LodgeError(
                "COLUMN_NOT_FOUND", "42703", f"Partition column {column} is not in the SELECT list of CTAS!"
            )


def _write_command(
    query: relations_pb2.Relation, table: TemporaryTable, directory: str, statement: CreateTemporaryTable
) -> commands_pb2.Command:
    count = expressions_pb2.Expression()
    count.alias.name.append(_ROWS_WRITTEN)
    count.alias.expr.unresolved_function.function_name = "count"
    count.alias.expr.unresolved_function.arguments.add().literal.integer = 1
    counted = relations_pb2.Relation()
    counted.collect_metrics.input.CopyFrom(query)
    counted.collect_metrics.name = _ROWS_WRITTEN
    counted.collect_metrics.metrics.append(count)
    write = commands_pb2.WriteOperation(
        input=counted,
        source=table.storage_format,
        path=directory,
        mode=commands_pb2.WriteOperation.SAVE_MODE_ERROR_IF_EXISTS,
        partitioning_columns=statement.partition_columns,
        options=_PRIVATE_FILES,
    )
    return commands_pb2.Command(write_operation=write)


def _view_command(table: TemporaryTable, directory: str, schema: StructType) -> commands_pb2.Command:
    """A projection, not the bare files: Spark would let anyone insert into those with open permissions."""
    scan = relations_pb2.Relation()
    scan.read.data_source.format = table.storage_format
    scan.read.data_source.schema = schema_json(schema)
    scan.read.data_source.paths.append(directory)
    projection = relations_pb2.Relation()
    projection.project.input.CopyFrom(scan)
    for name in schema.names:
        projection.project.expressions.add().unresolved_attribute.unparsed_identifier = quoted(name)
    view = commands_pb2.CreateDataFrameViewCommand(
        input=projection, name=quoted(table.name), is_global=False, replace=False
    )
    return commands_pb2.Command(create_dataframe_view=view)


def _ok(ok: bool, summary: str) -> SqlCommandResult:
    return _result({"ok": pa.array([ok]), "summary": pa.array([summary])})


def _result(columns: dict[str, pa.Array]) -> SqlCommandResult:
    """Rows as the client expects the result of a SQL command."""
    table = pa.table(columns)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    relation = relations_pb2.Relation()
    relation.local_relation.data = sink.getvalue()
    return SqlCommandResult(relation=relation)
