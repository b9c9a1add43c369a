"""Writes a new part of a temporary table: rows that are added, or that replace others."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from pyspark.sql.connect.proto import base_pb2
from pyspark.sql.types import StructType

from gateway.blocking_work.storage import Storage
from gateway.errors import BackendError
from gateway.operations.responses import Response
from gateway.stored_tables.insert_plans import InsertedRows, NewPart, build_insert, empty_file
from gateway.stored_tables.storage_formats import storage_options
from gateway.stored_tables.table_plans import decode_schema, encode_schema
from gateway.tables.backend_errors import for_client
from gateway.tables.changes import begin_write
from gateway.tables.execution import StatementExecutor, new_directory
from gateway.tables.quotas import CheckSize, Quotas
from gateway.tables.statement_context import Execution
from workspace.identifiers import ReplicaId
from workspace.records import PendingWrite, TemporaryTable, WriteKind


class PartWriter:
    """Writes new parts of temporary tables.

    Args:
        replica: The name of this replica.
        storage: The session locations.
        executor: Executes the changes of tables.
        quotas: The quotas for temporary tables.
    """

    def __init__(self, replica: ReplicaId, storage: Storage, executor: StatementExecutor, quotas: Quotas) -> None:
        self._replica = replica
        self._storage = storage
        self._executor = executor
        self._quotas = quotas

    def new_write(self, execution: Execution, schema: StructType, kind: WriteKind) -> PendingWrite:
        """Return the write of a statement to a new directory."""
        return PendingWrite(new_directory(), execution.operation.id, self._replica, encode_schema(schema), kind)

    async def execute(
        self,
        execution: Execution,
        table: TemporaryTable,
        write: PendingWrite,
        prepare: Callable[[], Awaitable[InsertedRows]],
        *,
        statement: str = "INSERT",
        check_size: CheckSize | None = None,
    ) -> Response:
        """Write a part of an existing table.

        Args:
            execution: The statement.
            table: The table.
            write: The write.
            prepare: A function that returns the rows when the session record contains the write.
            statement: The first words of the statement, for error messages.
            check_size: A function that raises an error if the rows must not be published. None for the quotas.

        Raises:
            GatewayError: If the statement failed. It is undone.
        """

        async def plan(path: str) -> base_pb2.Plan:
            return await self.plan_insertion(execution, table, write, path, await prepare())

        try:
            return await self._executor.execute_write(
                execution,
                table,
                write,
                begin=lambda record: begin_write(record, table, write),
                plan=plan,
                check_size=check_size or self._quotas.size_check(execution.session, write),
            )
        except BackendError as error:
            raise for_client(error, table.name, statement) from error

    async def plan_insertion(
        self, execution: Execution, table: TemporaryTable, write: PendingWrite, path: str, rows: InsertedRows
    ) -> base_pb2.Plan:
        """Create the directory of a write, and return the plan that inserts rows into it."""
        schema = decode_schema(write.schema)
        create, file = self._storage.locations.create_table, empty_file(schema, table.partition_columns)
        await self._storage.run_location(create, execution.session.uuid, write.directory, file)
        return build_insert(NewPart(write.directory, path, schema, table.storage_format, storage_options(table)), rows)

    async def can_insert(
        self, execution: Execution, table: TemporaryTable, schema: StructType, rows: InsertedRows
    ) -> bool:
        """Return whether Spark can explain the insertion of rows into a table.

        An empty directory stands for the new part, so that Spark finds the partition columns.

        Raises:
            BackendError: If the backend fails.
        """
        session, write = execution.session, self.new_write(execution, schema, WriteKind.INSERTION)
        path = await self._executor.create_path(session, write.directory)
        try:
            plan = await self.plan_insertion(execution, table, write, path, replace(rows, is_counted=False))
            return await execution.backend.can_explain(plan.command.sql_command.input)
        finally:
            await self._executor.deletion.delete(session, [write.directory])

    async def add(self, execution: Execution, table: TemporaryTable, write: PendingWrite, rows: InsertedRows) -> None:
        """Insert rows into a part before those of the statement. Without rows, this only checks their types.

        Raises:
            BackendError: If the rows cannot be inserted.
        """
        path = await self._executor.create_path(execution.session, write.directory)
        await execution.backend.operations.execute(await self.plan_insertion(execution, table, write, path, rows))
