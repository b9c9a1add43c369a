"""Temporary tables: creation, insertion, truncation and drop.

Spark does not support temporary tables. Lodge implements a temporary table with two objects: files that the backend
writes to the session location, and a temporary view with the same name in the backend session. Spark's own rules then
resolve the name wherever a client uses it.

Guarantees:

1. A statement reserves the table name in the session record before it writes. If two statements create a table with the
   same name, only one of them succeeds.
2. A creation that fails or is interrupted does not leave a name, a view or files behind. An insertion that
   fails or is interrupted does not leave rows behind.
3. A table becomes readable only after all its data is written. All rows of an insertion appear at the same time.
4. If a client sends a statement again, to the same or another replica, the client gets the first answer.

Source: [temporary-tables §5.1.1-5.1.8, §5.1.13, §5.4]; [architecture "Temporary tables"].
"""

import os
import uuid
from dataclasses import replace

import structlog
from pyspark.sql.connect.proto import base_pb2, relations_pb2
from pyspark.sql.types import StructType

from gateway.blocking_work.current_workspaces import CurrentWorkspaces
from gateway.blocking_work.file_systems import file_systems
from gateway.blocking_work.storage import Storage
from gateway.errors import BackendError, GatewayError, table_not_found
from gateway.operations.responses import Response
from gateway.sql.name_syntax import qualify_with_session
from gateway.stored_tables.insert_plans import InsertedRows, no_rows
from gateway.stored_tables.listings import build_create_statement
from gateway.stored_tables.table_plans import (
    FILE_METADATA,
    build_empty_relation,
    build_session_table,
    decode_schema,
    encode_schema,
)
from gateway.tables.answers import not_created
from gateway.tables.backend_errors import for_client
from gateway.tables.changes import begin_drop, begin_write, is_name_taken
from gateway.tables.execution import StatementExecutor
from gateway.tables.insertions import Insertion
from gateway.tables.new_tables import NewTable
from gateway.tables.part_merging import MAX_SMALL_PARTS, PartMerging
from gateway.tables.part_writer import PartWriter
from gateway.tables.quotas import Quotas
from gateway.tables.records import TableRecords
from gateway.tables.statement_context import Execution
from gateway.tables.table_errors import AlreadyExistsError, ChangeTakenError, cannot_analyze, created_concurrently
from gateway.tables.views import views_in
from workspace.identifiers import ReplicaId
from workspace.leases import STOPPED
from workspace.name_comparison import comparable_name
from workspace.record_changes import find_table, put_table
from workspace.records import PendingDrop, PendingWrite, SessionRecord, TableState, TemporaryTable, WriteKind
from workspace.workspaces import Workspace

log = structlog.get_logger(__name__)


class TemporaryTables:
    """The temporary tables of the sessions that this replica serves.

    Args:
        replica: The name of this replica.
        storage: The session records and leases.
        executor: Executes the changes of tables.
        workspaces: The configured workspaces.
        quotas: The quotas for temporary tables.
        parts: Writes new parts of tables.
        merging: Merges the parts of tables.
    """

    def __init__(
        self,
        *,
        replica: ReplicaId,
        storage: Storage,
        executor: StatementExecutor,
        workspaces: CurrentWorkspaces,
        quotas: Quotas,
        parts: PartWriter,
        merging: PartMerging,
    ) -> None:
        self._replica = replica
        self._storage = storage
        self._executor = executor
        self._workspaces = workspaces
        self._quotas = quotas
        self._parts = parts
        self._merging = merging
        self._records = TableRecords(storage)

    async def create(self, execution: Execution, new: NewTable) -> Response:
        """Create a table from the rows of a query, or replace the table with the same name.

        Args:
            execution: The statement.
            new: The table to create.

        Returns:
            The answer of the statement.

        Raises:
            GatewayError: If the statement failed. The statement is undone.
        """
        session = execution.session
        schema = await new.schema(execution)
        if new.or_replace:
            found = find_table(await self._records.read(session), new.name)
            if found is not None:
                return await self._replace(execution, replace(found, name=new.name), new, schema)
        write = self._parts.new_write(execution, schema, WriteKind.CREATION)
        table = new.table(write)
        log.info(
            "temporary_table_creation_started",
            message=f"Temporary table [{new.name}] is being created.",
            table=new.name,
            table_uuid=table.uuid,
        )

        async def plan(path: str) -> base_pb2.Plan:
            await self._quotas.check_principal_tables(session)  # the record now contains the new table
            await self.free_view_name(execution, new.name)
            return await self._plan_rows(execution, new, table, write, path)

        try:
            await self.check_name(new.name)
            answer = await self._executor.execute_write(
                execution,
                table,
                write,
                begin=lambda record: self._claim(record, table),
                plan=plan,
                check_size=self._quotas.size_check(session, write),
            )
        except AlreadyExistsError as error:
            if new.if_not_exists:
                return not_created(error.text)
            if new.or_replace and find_table(await self._records.read(session), new.name) is not None:
                raise created_concurrently(new.name) from error
            raise
        except BackendError as error:
            raise for_client(error, new.name, "CREATE TABLE") from error
        log.info("temporary_table_created", table=table.name, table_uuid=table.uuid)
        return answer

    async def _replace(
        self, execution: Execution, table: TemporaryTable, new: NewTable, schema: StructType
    ) -> Response:
        """Replace a table by another one with the same name.

        Raises:
            GatewayError: If the statement failed. The table remains as it is.
        """
        if table.state is not TableState.READY:
            raise created_concurrently(new.name)
        write = self._parts.new_write(execution, schema, WriteKind.REPLACEMENT)
        definition = replace(new.table(write).definition, schema=write.schema)
        write = replace(write, definition=definition, former_schema=await self._schema_if_readable(execution, table))
        replacing = table.defined_as(definition)
        try:
            answer = await self._executor.execute_write(
                execution,
                replacing,
                write,
                begin=lambda record: begin_write(record, table, write),
                plan=lambda path: self._plan_rows(execution, new, replacing, write, path),
                check_size=self._quotas.size_check(execution.session, write),
            )
        except BackendError as error:
            raise for_client(error, new.name, "CREATE OR REPLACE TABLE") from error
        log.info("temporary_table_replaced", table=table.name, table_uuid=table.uuid)
        return answer

    async def _plan_rows(
        self, execution: Execution, new: NewTable, table: TemporaryTable, write: PendingWrite, path: str
    ) -> base_pb2.Plan:
        """Return the plan that writes the rows of a new table."""
        if not new.has_defaults:
            return new.plan(path)
        return await self._parts.plan_insertion(execution, table, write, path, no_rows(decode_schema(write.schema)))

    async def insert(self, execution: Execution, insertion: Insertion) -> Response:
        """Insert rows into a table, or replace all its rows.

        Args:
            execution: The statement.
            insertion: The rows to insert.

        Returns:
            The answer of the statement.

        Raises:
            GatewayError: If the statement failed. The statement is undone.
        """
        table = require_ready(await self._records.read(execution.session), insertion.table)
        schema = await execution.backend.analyze_schema(build_session_table(table.name))
        empty_value = insertion.empty_value
        if empty_value is not None and await self._parts.can_insert(execution, table, schema, insertion.rows):
            raise empty_value
        write = replace(
            self._parts.new_write(execution, schema, insertion.kind(table)),
            partitions=await insertion.replaced_partition(table, schema, execution.backend),
            operation_id=insertion.operation_id or execution.operation.id,
        )

        async def prepare() -> InsertedRows:
            return insertion.rows

        answer = await self._parts.execute(execution, table, write, prepare)
        if len(table.parts) >= MAX_SMALL_PARTS:
            self._merging.start(execution, table.name)
        log.info("rows_inserted", table=table.name, overwrite=insertion.overwrite)
        return answer

    async def check(self, execution: Execution, insertion: Insertion) -> None:
        """Let Spark check an insertion, and insert nothing.

        If Spark cannot explain the insertion, it is executed, so that its error is raised, and undone in any case.

        Raises:
            GatewayError: If the table does not exist, Spark refuses the insertion, or the backend fails.
        """
        table = require_ready(await self._records.read(execution.session), insertion.table)
        schema = await execution.backend.analyze_schema(build_session_table(table.name))
        if await self._parts.can_insert(execution, table, schema, insertion.rows):
            return
        write = self._parts.new_write(execution, schema, WriteKind.INSERTION)
        write = replace(write, operation_id=str(uuid.uuid4()))

        async def prepare() -> InsertedRows:
            return insertion.rows

        async def undo(_: SessionRecord) -> None:
            raise cannot_analyze(table.name)

        await self._parts.execute(execution, table, write, prepare, check_size=undo)

    async def truncate(self, execution: Execution, name: str) -> Response:
        """Remove all rows of a table.

        Args:
            execution: The statement.
            name: The name of the table.

        Returns:
            The answer of the statement.

        Raises:
            GatewayError: If the statement failed. The statement is undone.
        """
        schema = await execution.backend.analyze_schema(build_session_table(name))
        empty = build_empty_relation(encode_schema(schema))
        return await self.insert(execution, Insertion(name, InsertedRows(empty), overwrite=True))

    async def drop(self, execution: Execution, table: TemporaryTable) -> Response:
        """Drop a table.

        Args:
            execution: The statement.
            table: The table to drop.

        Returns:
            The answer of the statement.

        Raises:
            GatewayError: If the statement failed. The table remains unchanged.
        """
        log.info(
            "temporary_table_drop_started",
            message=f"Temporary table [{table.name}] is being dropped.",
            table=table.name,
            table_uuid=table.uuid,
        )
        schema = await self._schema_if_readable(execution, table)
        drop = PendingDrop(execution.operation.id, self._replica, schema)
        answer = await self._executor.execute_drop(
            execution, table, drop, lambda record: begin_drop(record, table, drop)
        )
        log.info("temporary_table_dropped", table=table.name, table_uuid=table.uuid)
        return answer

    @staticmethod
    async def _schema_if_readable(execution: Execution, table: TemporaryTable) -> str:
        """Return the schema of a table as JSON. Empty if the table cannot be read, so that it can still be dropped."""
        try:
            return encode_schema(await execution.backend.analyze_schema(build_session_table(table.name)))
        except BackendError:
            return ""

    async def with_file_metadata(self, execution: Execution, table: TemporaryTable) -> relations_pb2.Relation | None:
        """Return the rows of a table with the column ``_metadata``. None if the table has such a column of its own.

        Raises:
            GatewayError: If the backend fails.
            OSError: If the storage is not there.
        """
        schema = await execution.backend.analyze_schema(build_session_table(table.name))
        if comparable_name(FILE_METADATA) in map(comparable_name, schema.names):
            return None
        return await self._executor.views.contents(execution, table, schema, has_file_metadata=True)

    async def create_statement(self, execution: Execution, table: TemporaryTable) -> str:
        """Return the statement that ``SHOW CREATE TABLE`` displays for a table.

        Args:
            execution: The statement.
            table: The table.

        Raises:
            GatewayError: If the backend fails.
        """
        schema = await execution.backend.analyze_schema(build_session_table(table.name))
        return build_create_statement(table, schema, self._workspaces.now.temporary.name)

    async def take_over(self, execution: Execution, table: TemporaryTable, write: PendingWrite) -> Response:
        """Complete a write of a lost replica.

        Args:
            execution: The statement.
            table: The table.
            write: The write, as stored in the session record.

        Returns:
            The answer of the statement.

        Raises:
            GatewayError: If the statement failed. The statement is undone.
        """
        check_size = self._quotas.size_check(execution.session, write)
        return await self._executor.take_over(execution, table.written_by(write), write, check_size)

    async def complete_published(self, execution: Execution, record: SessionRecord) -> bool:
        """Complete the changes that lost replicas published.

        Args:
            execution: An execution in the session.
            record: The session record.

        Returns:
            Whether the record contains published changes.
        """
        found = [(table, each) for table in record.tables for each in table.pending_changes if each.is_published]
        if not found:
            return False
        leases = await self._storage.run_lease(self._storage.leases.list)
        alive = {self._replica, *(replica for replica, mark in leases.items() if mark != STOPPED)}
        for table, change in found:
            if change.replica not in alive:
                try:
                    await self._executor.complete_for(execution, table, change)
                except ChangeTakenError:
                    log.info("statement_completed_elsewhere", table=table.name)
                except (GatewayError, OSError) as error:
                    log.warning("statement_not_completed", table=table.name, reason=str(error))
        return True

    def already_exists(self, name: str) -> AlreadyExistsError:
        """Return the error for a name that exists in the default temporary workspace."""
        return AlreadyExistsError(name, self._workspaces.now.temporary.name)

    async def check_name(self, name: str) -> None:
        """Check that a name is unused in the default temporary workspace.

        Raises:
            AlreadyExistsError: If it is used.
        """
        if await self._storage.read_workspace(_is_taken, self._workspaces.now.temporary, name):
            raise self.already_exists(name)

    def _claim(self, record: SessionRecord, table: TemporaryTable) -> SessionRecord:
        if is_name_taken(record, table.name):
            raise self.already_exists(table.name)
        self._quotas.check_session_tables(record)
        return put_table(record, table)

    async def free_view_name(self, execution: Execution, name: str) -> None:
        """Drop a view that an earlier table with the same name left behind.

        Raises:
            GatewayError: If the session has an unrelated temporary view with that name.
        """
        backend = execution.backend
        if not await backend.table_exists(qualify_with_session(name)):
            return
        try:
            files = await backend.list_input_files(build_session_table(name))
        except BackendError as error:  # Spark cannot analyze the view, so it does not read files of Lodge
            raise self.already_exists(name) from error
        is_left_over = any(f"/{execution.session.uuid}/" in file for file in files)
        views = {comparable_name(view) for view in views_in(await backend.explain(build_session_table(name)))}
        if not is_left_over or views != {comparable_name(name)}:
            raise self.already_exists(name)
        await backend.drop_temp_view(name)


def require_ready(record: SessionRecord, name: str) -> TemporaryTable:
    """Return a table, with its name in the spelling that Spark uses."""
    table = find_table(record, name)
    if table is None or table.state is not TableState.READY:
        raise table_not_found(name, "" if table is None else "Another statement is creating or dropping the table.")
    return replace(table, name=name)


def _is_taken(workspace: Workspace, name: str) -> bool:
    """Return whether a name exists in a workspace, ignoring case."""
    if "/" in name or not workspace.is_file_based:
        return False
    with file_systems.access(workspace):
        found = (comparable_name(entry.name) for entry in workspace.root.iterdir())
        return os.path.lexists(workspace.root / name) or comparable_name(name) in found
