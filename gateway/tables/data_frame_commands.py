"""Commands of the DataFrame API that may concern a temporary table: writes, views, and calls of the catalog.

Source: Spark: ``commands.proto`` (WriteOperation, WriteOperationV2, CreateDataFrameViewCommand, MergeIntoTableCommand,
WriteStreamOperationStart), ``catalog.proto``; DataFrameWriter's ``insertInto`` and ``saveAsTable``.
"""

from collections.abc import Awaitable, Callable

import pyarrow as pa
from pyspark.sql.connect.proto import base_pb2, commands_pb2, relations_pb2

from gateway.errors import GatewayError
from gateway.names.targets import Target, TargetKind, schema_not_found
from gateway.operations import Operation, Work
from gateway.responses import NOTHING, Response, batch
from gateway.sql.name_syntax import parse_name
from gateway.tables.asked import Asked
from gateway.tables.errors import not_a_view, not_found, not_supported
from gateway.tables.insertions import Insertion
from gateway.tables.temporary_tables import TemporaryTables
from gateway.tables.views import refuse_lasting_view
from workspace.records import TemporaryTable

_COMMANDS = frozenset(
    {
        "write_operation",
        "write_operation_v2",
        "create_dataframe_view",
        "merge_into_table_command",
        "write_stream_operation_start",
    }
)
_CATALOG_CALLS = frozenset(
    {
        "drop_temp_view",
        "drop_view",
        "drop_table",
        "truncate_table",
        "create_table",
        "create_external_table",
        "recover_partitions",
        "get_create_table_string",
    }
)
_SaveMethod = commands_pb2.WriteOperation.SaveTable.TableSaveMethod
_NO_ROWS = batch(pa.table({}))
_NEW_TABLE = "Make a new table of the rows by CREATE TEMPORARY TABLE ... AS SELECT."


def concerns_tables(plan: base_pb2.Plan) -> bool:
    """Whether a plan is a command that may concern a temporary table: one cheap look."""
    if plan.HasField("command"):
        kind = plan.command.WhichOneof("command_type")
        if kind == "write_operation":
            return plan.command.write_operation.HasField("table")
        return kind in _COMMANDS
    return plan.HasField("root") and plan.root.catalog.WhichOneof("cat_type") in _CATALOG_CALLS


class DataFrameCommands:
    """Finds the work of a command.

    Args:
        tables: What creates, fills and drops temporary tables.
    """

    def __init__(self, tables: TemporaryTables) -> None:
        self._tables = tables

    async def work(self, asked: Asked, plan: base_pb2.Plan) -> Work | None:
        """What the command does; None if it is Spark's after all.

        Raises: GatewayError, if it may not run.
        """
        if plan.HasField("root"):
            return await self._catalog_call(asked, plan.root)
        command = plan.command
        kind = command.WhichOneof("command_type")
        if kind == "create_dataframe_view":
            await self._check_view(asked, command.create_dataframe_view)
        elif kind == "write_operation":
            return await self._write(asked, command.write_operation)
        elif kind == "write_operation_v2":
            return await self._write_v2(asked, command.write_operation_v2)
        elif kind == "merge_into_table_command":
            self._refuse(asked, command.merge_into_table_command.target_table_name, "MERGE INTO")
        elif kind == "write_stream_operation_start":
            self._refuse(asked, command.write_stream_operation_start.table_name, "writing a stream into it")
        return None

    async def _check_view(self, asked: Asked, view: commands_pb2.CreateDataFrameViewCommand) -> None:
        target = self._target(asked, view.name)
        if not view.is_global and target is not None and asked.table(target) is not None:
            raise self._tables.already_exists(target.name)
        if view.is_global and asked.record.tables:
            await refuse_lasting_view(asked, await asked.resolved(view.input))

    async def _write(self, asked: Asked, write: commands_pb2.WriteOperation) -> Work | None:
        inserts = write.table.save_method == _SaveMethod.TABLE_SAVE_METHOD_INSERT_INTO
        modes = commands_pb2.WriteOperation.SaveMode
        table = self._table(asked, write.table.table_name)
        if table is None:
            self._check_new_table(asked, write.table.table_name)
            return None
        if not inserts and write.mode != modes.SAVE_MODE_APPEND:
            if write.mode == modes.SAVE_MODE_IGNORE:
                return _write_nothing
            raise not_supported(
                table.name,
                "saveAsTable with this mode",
                "Use mode append, insertInto(overwrite=True), or drop it first.",
            )
        insertion = Insertion(
            table=table.name,
            query=await asked.resolved(write.input),
            by_name=not inserts,
            overwrite=write.mode == modes.SAVE_MODE_OVERWRITE,
        )
        return self._insert(asked, insertion)

    async def _write_v2(self, asked: Asked, write: commands_pb2.WriteOperationV2) -> Work | None:
        table = self._table(asked, write.table_name)
        if table is None:
            self._check_new_table(asked, write.table_name)
            return None
        if write.mode != commands_pb2.WriteOperationV2.MODE_APPEND:
            raise not_supported(table.name, "writeTo with this mode", "Use writeTo(...).append() or INSERT OVERWRITE.")
        return self._insert(asked, Insertion(table=table.name, query=await asked.resolved(write.input), by_name=True))

    def _insert(self, asked: Asked, insertion: Insertion) -> Work:
        async def work(_: Operation) -> Response:
            await self._tables.insert(asked.execution, insertion)
            return NOTHING

        return work

    async def _catalog_call(self, asked: Asked, root: relations_pb2.Relation) -> Work | None:
        call = root.catalog
        kind = call.WhichOneof("cat_type")
        value = getattr(call, str(kind))
        name: str = value.view_name if kind in {"drop_temp_view", "drop_view"} else value.table_name
        table = self._table(asked, name)
        if kind in {"create_table", "create_external_table"}:
            self._check_new_table(asked, name)
            return None
        if table is None:
            return self._missing(asked, name, getattr(value, "if_exists", False))
        if kind in {"drop_temp_view", "drop_view"}:
            raise not_a_view(table.name, "dropTempView" if kind == "drop_temp_view" else "dropView")
        if kind == "recover_partitions":
            raise not_supported(table.name, "recoverPartitions", "It knows its partitions.")
        if kind == "drop_table":
            return _then_nothing(lambda: self._tables.drop(asked.execution, table))
        if kind == "truncate_table":
            return _then_nothing(lambda: self._tables.truncate(asked.execution, table.name))
        return self._create_statement(asked, table)

    def _missing(self, asked: Asked, name: str, if_exists: bool) -> Work | None:
        """Of what is no temporary table, Spark's is Spark's; a workspace has no table of that name."""
        target = self._target(asked, name)
        if target is None or target.kind not in {TargetKind.WORKSPACE, TargetKind.ABSENT}:
            return None
        if if_exists:
            return _done
        if target.kind is TargetKind.ABSENT:
            raise schema_not_found(target.schema, asked.workspaces)
        raise not_found(target.name)

    def _check_new_table(self, asked: Asked, name: str) -> None:
        target = self._target(asked, name)
        if target is not None and target.kind is TargetKind.ABSENT:
            raise schema_not_found(target.schema, asked.workspaces)
        if target is not None and target.workspace is not None:
            raise GatewayError(
                "LODGE_WORKSPACE_TABLE",
                "0A000",
                f"A table in workspace [{target.workspace.name}] is made by CREATE TABLE name AS query, and by nothing "
                "else.",
            )

    def _create_statement(self, asked: Asked, table: TemporaryTable) -> Work:
        async def work(_: Operation) -> Response:
            text = await self._tables.create_statement(asked.execution, table)
            return batch(pa.table({"createtab_stmt": [text]}))

        return work

    def _refuse(self, asked: Asked, name: str, operation: str) -> None:
        table = self._table(asked, name)
        if table is not None:
            raise not_supported(table.name, operation, _NEW_TABLE)

    def _table(self, asked: Asked, name: str) -> TemporaryTable | None:
        target = self._target(asked, name)
        return None if target is None else asked.table(target)

    @staticmethod
    def _target(asked: Asked, name: str) -> Target | None:
        parts = parse_name(name)
        return asked.target(parts) if parts else None


async def _write_nothing(_: Operation) -> Response:
    return NOTHING


async def _done(_: Operation) -> Response:
    return _NO_ROWS


def _then_nothing(do: Callable[[], Awaitable[Response]]) -> Work:
    async def work(_: Operation) -> Response:
        await do()
        return _NO_ROWS

    return work
