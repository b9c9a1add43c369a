"""Temporary tables: how one is created, filled, emptied, dropped, and given to a cloned session.

Why it exists: Spark refuses temporary tables. Here one becomes a write by the backend into the session location, then a
temporary view of the table's name in the backend's session, so that every route to the name resolves it with Spark's
own rules.

Guarantees:

1. A name is claimed in the session record before anything is written, so of two statements that create it, one wins.
2. A creation that fails or is interrupted leaves no name, no view and no file; an insertion, no row.
3. A table can be read only when all of its data is written; rows that are inserted appear all at once.
4. A statement that is asked for again, here or at another replica, has the answer of the first time.

Source: seed 001, 5.1.1-5.1.8, 5.1.13 and 5.4; design, "Temporary tables".
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import structlog
from pyspark.sql.connect.proto import base_pb2
from pyspark.sql.types import StructType

from gateway.config import Limits
from gateway.current_workspaces import CurrentWorkspaces
from gateway.errors import BackendError, GatewayError, table_not_found
from gateway.responses import Response
from gateway.sessions.registry import Sessions
from gateway.sessions.session import Session
from gateway.sql.name_syntax import qualify_with_session
from gateway.storage import Storage
from gateway.stored_tables.listings import create_statement
from gateway.stored_tables.storage_formats import storage_format
from gateway.stored_tables.table_plans import (
    empty_relation,
    schema_json,
    session_table,
    write_plan,
)
from gateway.tables.answers import not_created
from gateway.tables.changes import begin_drop, begin_write
from gateway.tables.errors import AlreadyExistsError
from gateway.tables.execution import StatementExecutor, Written, new_directory
from gateway.tables.insertions import Insertion, fit_columns
from gateway.tables.limits import check_bytes, check_principals_bytes, check_principals_tables, check_tables
from gateway.tables.new_tables import NewTable
from gateway.tables.records import TableRecords
from gateway.tables.statement_context import Execution
from gateway.tables.views import views_in
from workspace.name_comparison import comparable_name
from workspace.record_changes import find_table, put_table, remove_table
from workspace.records import (
    PendingDrop,
    PendingWrite,
    ReplicaId,
    SessionRecord,
    TableState,
    TableUuid,
    TemporaryTable,
    WriteKind,
)
from workspace.workspaces import Workspace

_COPY_ATTEMPTS = 5

log = structlog.get_logger(__name__)


class TemporaryTables:
    """The temporary tables of the sessions of this replica.

    Args:
        replica: This replica.
        storage: Records and locations.
        sessions: All sessions of the replica.
        writes: What carries out changes of tables.
        workspaces: As they are now.
        limits: Of tables and bytes.
    """

    def __init__(
        self,
        *,
        replica: ReplicaId,
        storage: Storage,
        sessions: Sessions,
        executor: StatementExecutor,
        workspaces: CurrentWorkspaces,
        limits: Limits,
    ) -> None:
        self._replica = replica
        self._storage = storage
        self._sessions = sessions
        self._executor = executor
        self._workspaces = workspaces
        self._limits = limits
        self._records = TableRecords(storage)

    async def create(self, execution: Execution, new: NewTable) -> Response:
        """Creates a table of a query's rows.

        Raises: GatewayError, after everything that was begun is undone.
        """
        session = execution.session
        schema = await new.schema(execution)
        table_uuid = new_directory()
        write = self._write(execution, table_uuid, schema, WriteKind.CREATION)
        table = TemporaryTable(
            name=new.name,
            uuid=table_uuid,
            state=TableState.CREATING,
            storage_format=new.storage.name,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            partition_columns=tuple(new.partition_columns),
            options=new.options,
            writes=(write,),
        )
        log.info(
            "temporary_table_creation_started",
            message=f"Temporary table [{new.name}] is being created.",
            table=new.name,
            table_uuid=table.uuid,
        )

        async def plan(path: str) -> base_pb2.Plan:
            await self._make_room_for_view(execution, new.name)
            return new.plan(path)

        try:
            await self._check_name(session, new.name)
            answer = await self._executor.execute_write(
                execution,
                table,
                write,
                begin=lambda record: self._claimed(record, table),
                plan=plan,
                check_size=partial(self._check_size, session),
            )
        except AlreadyExistsError as error:
            if new.if_not_exists:
                return not_created(error.text)
            raise
        log.info("temporary_table_created", table=table.name, table_uuid=table.uuid)
        return answer

    async def insert(self, execution: Execution, insertion: Insertion) -> Response:
        """Adds rows to a table, or puts them in the place of its rows.

        Raises: GatewayError, after everything that was begun is undone.
        """
        session, backend = execution.session, execution.backend
        table = self._ready(await self._records.read(session), insertion.table)
        schema = await backend.analyze_schema(session_table(table.name))
        rows = fit_columns(insertion, await backend.analyze_schema(insertion.query), schema, execution.settings)
        await backend.analyze_schema(rows)
        kind = WriteKind.OVERWRITING if insertion.overwrite else WriteKind.INSERTION
        write = self._write(execution, new_directory(), schema, kind)
        options = storage_format(table.storage_format, table.name).options(dict(table.options))

        async def plan(path: str) -> base_pb2.Plan:
            return write_plan(
                rows,
                path,
                storage_format=table.storage_format,
                partition_columns=table.partition_columns,
                options=options,
            )

        replaced_bytes = table.size_bytes if insertion.overwrite else 0
        answer = await self._executor.execute_write(
            execution,
            table,
            write,
            begin=lambda record: begin_write(record, table, write),
            plan=plan,
            check_size=partial(self._check_size, session, replaced_bytes=replaced_bytes),
        )
        log.info("rows_inserted", table=table.name, overwrite=insertion.overwrite)
        return answer

    async def truncate(self, execution: Execution, name: str) -> Response:
        """Removes all rows of a table. Raises: GatewayError."""
        schema = await execution.backend.analyze_schema(session_table(name))
        empty = empty_relation(schema_json(schema))
        return await self.insert(execution, Insertion(name, empty, overwrite=True))

    async def drop(self, execution: Execution, table: TemporaryTable) -> Response:
        """Raises: GatewayError; the table is whole then."""
        log.info(
            "temporary_table_drop_started",
            message=f"Temporary table [{table.name}] is being dropped.",
            table=table.name,
            table_uuid=table.uuid,
        )
        try:
            schema = schema_json(await execution.backend.analyze_schema(session_table(table.name)))
        except BackendError:  # a table that can be read no more must still be dropped
            schema = ""
        drop = PendingDrop(execution.operation.id, self._replica, schema)
        answer = await self._executor.execute_drop(
            execution, table, drop, lambda record: begin_drop(record, table, drop)
        )
        log.info("temporary_table_dropped", table=table.name, table_uuid=table.uuid)
        return answer

    async def create_statement(self, execution: Execution, table: TemporaryTable) -> str:
        """What ``SHOW CREATE TABLE`` shows. Raises: GatewayError."""
        schema = await execution.backend.analyze_schema(session_table(table.name))
        return create_statement(table, schema, self._workspaces.now.temporary.name)

    async def take_over(self, execution: Execution, table: TemporaryTable, write: PendingWrite) -> Response:
        """Completes a statement whose replica is lost. Raises: GatewayError, after it is undone."""
        replaced_bytes = table.size_bytes if write.kind is WriteKind.OVERWRITING else 0
        check_size = partial(self._check_size, execution.session, replaced_bytes=replaced_bytes)
        return await self._executor.take_over(execution, table, write, check_size)

    async def complete_published(self, execution: Execution, record: SessionRecord) -> bool:
        """Complete the changes that lost replicas published.

        Returns:
            Whether the record has such changes.
        """
        found = [(table, each) for table in record.tables for each in table.pending_changes if each.is_published]
        if not found:
            return False
        alive = {self._replica, *await self._storage.run_lease(self._storage.leases.list)}
        for table, write in found:
            if write.replica not in alive:
                try:
                    await self._executor.complete_for(execution, table, write)
                except (GatewayError, OSError) as error:
                    log.warning("statement_not_completed", table=table.name, reason=str(error))
        return True

    async def copy_to_clone(self, tables: Sequence[TemporaryTable], parent: Session, execution: Execution) -> None:
        """Gives a cloned session tables of its own, in the place of its parent's.

        Args:
            tables: The parent's, as they were before it was cloned.
            parent: Their session.
            execution: In the clone.

        Raises: GatewayError, OSError.
        """
        clone = execution.session
        if self._limits.principal_tables is not None:
            check_principals_tables(self._limits, await self._records.of_principal(clone.key.principal), len(tables))
        await self._sessions.create_location(clone)
        there = (await self._records.read(parent)).tables
        gone = {table.name for table in tables} - {table.name for table in there if table.parts}
        for name in gone:
            await execution.backend.drop_temp_view(name)
        for table in there:
            if table.state is TableState.READY:
                await self._copy_table(table, parent, execution)

    async def _copy_table(self, table: TemporaryTable, parent: Session, execution: Execution) -> None:
        """Copies a table as it is now; one that its session changes meanwhile is copied anew."""
        clone = execution.session
        schema = await execution.backend.analyze_schema(session_table(table.name))
        for _ in range(_COPY_ATTEMPTS):
            parts = [(part, new_directory()) for part in table.parts]
            writes = tuple(self._write(execution, new, schema, WriteKind.CREATION) for _, new in parts)
            copying = replace(table, uuid=parts[0][1], state=TableState.CREATING, parts=(), writes=writes)
            await self._records.change(clone, partial(put_table, table=copying))
            try:
                await self._storage.run_slow(self._copy_parts, parent, clone, parts)
            except FileNotFoundError:
                await self._records.change(clone, partial(remove_table, name=copying.name))
                await self._executor.deletion.delete(clone, [new for _, new in parts])
                now = find_table(await self._records.read(parent), table.name)
                if now is None or now.uuid != table.uuid:
                    await execution.backend.drop_temp_view(table.name)
                    return
                table = now
                continue
            own = replace(copying, state=TableState.READY, parts=tuple(new for _, new in parts), writes=())
            await self._executor.views.create(execution, own, schema)
            await self._records.change(clone, partial(put_table, table=own))
            return
        raise GatewayError(
            "LODGE_SESSION_BUSY",
            "40001",
            f"Temporary table [{table.name}] changes all the time. Clone the session later.",
        )

    def _copy_parts(self, parent: Session, clone: Session, parts: Sequence[tuple[TableUuid, TableUuid]]) -> None:
        for old, new in parts:
            self._storage.locations.copy_table((parent.uuid, old), (clone.uuid, new))

    async def _check_name(self, session: Session, name: str) -> None:
        """Raises: GatewayError if a permanent table has the name, or the principal has too many tables."""
        if await self._storage.run(_is_taken, self._workspaces.now.temporary, name):
            raise self.already_exists(name)
        if self._limits.principal_tables is not None:
            if find_table(await self._records.read(session), name) is not None:
                raise self.already_exists(name)
            check_principals_tables(self._limits, await self._records.of_principal(session.key.principal))

    def _claimed(self, record: SessionRecord, table: TemporaryTable) -> SessionRecord:
        if find_table(record, table.name) is not None:
            raise self.already_exists(table.name)
        check_tables(self._limits, record)
        return put_table(record, table)

    async def _make_room_for_view(self, execution: Execution, name: str) -> None:
        """Raises: GatewayError if the session has a temporary view of that name that is no remains of a table."""
        backend = execution.backend
        if not await backend.table_exists(qualify_with_session(name)):
            return
        files = await backend.list_input_files(session_table(name))
        is_tables = any(f"/{execution.session.uuid}/" in file for file in files)
        views = {comparable_name(view) for view in views_in(await backend.explain(session_table(name)))}
        if not is_tables or views != {comparable_name(name)}:
            raise self.already_exists(name)
        await backend.drop_temp_view(name)

    async def _check_size(self, session: Session, written: Written, replaced_bytes: int = 0) -> None:
        if self._limits.session_bytes is not None:
            check_bytes(self._limits, await self._records.read(session), written.size_bytes, replaced_bytes)
        if self._limits.principal_bytes is not None:
            records = await self._records.of_principal(session.key.principal)
            check_principals_bytes(self._limits, records, written.size_bytes, replaced_bytes)

    def already_exists(self, name: str) -> AlreadyExistsError:
        return AlreadyExistsError(name, self._workspaces.now.temporary.name)

    def _write(self, execution: Execution, directory: TableUuid, schema: StructType, kind: WriteKind) -> PendingWrite:
        return PendingWrite(directory, execution.operation.id, self._replica, schema_json(schema), kind)

    @staticmethod
    def _ready(record: SessionRecord, name: str) -> TemporaryTable:
        table = find_table(record, name)
        if table is None or table.state is not TableState.READY:
            raise table_not_found(name, "" if table is None else "It is being created or dropped.")
        return table


def _is_taken(workspace: Workspace, name: str) -> bool:
    """Whether something in a workspace's directory has that name, in any letter case."""
    if "/" in name or not workspace.is_file_based:
        return False
    root = workspace.root
    return os.path.lexists(root / name) or comparable_name(name) in (
        comparable_name(entry.name) for entry in root.iterdir()
    )
