"""The DataFrame API commands that can change a temporary table.

Source: [spark-connect-proto commands.proto] (``WriteOperation``, ``WriteOperationV2``, ``CreateDataFrameViewCommand``,
``MergeIntoTableCommand``, ``WriteStreamOperationStart``); [spark-connect-proto catalog.proto].
"""

from dataclasses import replace
from functools import partial

import pyarrow as pa
from pyspark.sql.connect.proto import base_pb2, commands_pb2, expressions_pb2, relations_pb2
from pyspark.sql.types import StructType

from gateway.errors import table_not_found
from gateway.names.targets import Target, TargetKind
from gateway.operations.operations import Runner
from gateway.operations.responses import NOTHING, Response, build_batch_response
from gateway.sql.name_syntax import parse_plan_name
from gateway.stored_tables.insert_plans import InsertedRows
from gateway.stored_tables.storage_formats import find_storage_format
from gateway.stored_tables.table_plans import call_function
from gateway.tables import answers
from gateway.tables.insertions import Insertion
from gateway.tables.new_tables import NewTable
from gateway.tables.row_changes import RowChanges
from gateway.tables.statement_context import StatementContext
from gateway.tables.table_errors import no_data_frame_table, not_a_view, not_supported
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
_Mode = commands_pb2.WriteOperation.SaveMode
_REPLACING_MODES = frozenset(
    {commands_pb2.WriteOperationV2.MODE_REPLACE, commands_pb2.WriteOperationV2.MODE_CREATE_OR_REPLACE}
)
_BY_NAME = "BY NAME"
_OVERWRITE_MODE = "partitionoverwritemode"
_NO_ROWS = build_batch_response(pa.table({}))
_NEW_TABLE = "Create a new table of the rows with CREATE TEMPORARY TABLE ... AS SELECT."


def concerns_tables(plan: base_pb2.Plan) -> bool:
    """Return whether a plan is a command that can change a temporary table."""
    if plan.HasField("command"):
        kind = plan.command.WhichOneof("command_type")
        if kind == "write_operation":
            return plan.command.write_operation.HasField("table")
        return kind in _COMMANDS
    return plan.HasField("root") and plan.root.catalog.WhichOneof("cat_type") in _CATALOG_CALLS


class DataFrameCommands:
    """Creates the runner of a DataFrame API command.

    Args:
        tables: The temporary tables.
        rows: Changes rows of temporary tables.
    """

    def __init__(self, tables: TemporaryTables, rows: RowChanges) -> None:
        self._tables = tables
        self._rows = rows

    async def work(self, context: StatementContext, plan: base_pb2.Plan) -> Runner | None:
        """Return the function that executes a command.

        Args:
            context: The session, operation and backend of the command.
            plan: The plan that contains the command.

        Returns:
            The function. None if Spark executes the command.

        Raises:
            GatewayError: If the command is not allowed.
        """
        if plan.HasField("root"):
            return self._catalog_call(context, plan.root)
        command = plan.command
        kind = command.WhichOneof("command_type")
        if kind == "create_dataframe_view":
            await self._check_view(context, command.create_dataframe_view)
        elif kind == "write_operation":
            return await self._write(context, command.write_operation)
        elif kind == "write_operation_v2":
            return await self._write_v2(context, command.write_operation_v2)
        elif kind == "merge_into_table_command":
            return await self._merge(context, plan)
        elif kind == "write_stream_operation_start":
            self._check_stream(context, command.write_stream_operation_start)
        return None

    async def _merge(self, context: StatementContext, plan: base_pb2.Plan) -> Runner | None:
        merge = plan.command.merge_into_table_command
        table = _table(context, merge.target_table_name)
        if table is None:
            return None
        _refuse_evolution(table, merge)
        resolved = await context.resolve_plan(plan)
        command = resolved.command.merge_into_table_command
        return _answered(partial(self._rows.merge, context.execution, table.name, command), NOTHING)

    async def _check_view(self, context: StatementContext, view: commands_pb2.CreateDataFrameViewCommand) -> None:
        target = _target(context, view.name)
        if not view.is_global and target is not None and context.table(target) is not None:
            raise self._tables.already_exists(target.name)
        if view.is_global and context.record.tables:
            await refuse_lasting_view(context, await context.resolve(view.input))

    def _check_stream(self, context: StatementContext, stream: commands_pb2.WriteStreamOperationStart) -> None:
        """Refuse a stream into a temporary table, or whose own view would replace the one of a table."""
        _refuse(context, stream.table_name, "streaming writes")
        table = _table(context, stream.query_name) if stream.format.lower() == "memory" else None
        if table is not None:
            raise self._tables.already_exists(table.name)

    async def _write(self, context: StatementContext, write: commands_pb2.WriteOperation) -> Runner | None:
        by_position = write.table.save_method == _SaveMethod.TABLE_SAVE_METHOD_INSERT_INTO
        table = _table(context, write.table.table_name)
        if table is None:
            _refuse_new_table(context, write.table.table_name)
            return None
        _refuse_evolution(table, write)
        if not by_position and write.mode == _Mode.SAVE_MODE_IGNORE:
            return answers.give(NOTHING)
        if not by_position and write.mode == _Mode.SAVE_MODE_OVERWRITE:
            return self._replace(context, await _new_table_of_write(context, table, write))
        if not by_position and write.mode != _Mode.SAVE_MODE_APPEND:
            raise self._tables.already_exists(table.name)
        _check_layout(context, write, table, by_position=by_position)
        rows = InsertedRows(await context.resolve(write.input), "" if by_position else _BY_NAME)
        options = {key.lower(): value.lower() for key, value in write.options.items()}
        mode = options.get(_OVERWRITE_MODE, "dynamic" if context.settings.overwrites_partitions else "static")
        insertion = Insertion(table.name, rows, write.mode == _Mode.SAVE_MODE_OVERWRITE, mode == "dynamic")
        return self._insert(context, insertion)

    async def _write_v2(self, context: StatementContext, write: commands_pb2.WriteOperationV2) -> Runner | None:
        table = _table(context, write.table_name)
        if table is None:
            _refuse_new_table(context, write.table_name)
            return None
        _refuse_evolution(table, write)
        if write.mode in _REPLACING_MODES:
            return self._replace(context, await _new_table_of_write_v2(context, table, write))
        if write.mode == commands_pb2.WriteOperationV2.MODE_CREATE:
            raise self._tables.already_exists(table.name)
        if write.mode == commands_pb2.WriteOperationV2.MODE_OVERWRITE:
            rows = InsertedRows(await context.resolve(write.input), _BY_NAME)
            keep = partial(_rows_without, write.overwrite_condition)
            return _answered(partial(self._rows.overwrite, context.execution, table.name, rows, keep), NOTHING)
        insertion = Insertion(
            table=table.name,
            rows=InsertedRows(await context.resolve(write.input), _BY_NAME),
            overwrite=write.mode == commands_pb2.WriteOperationV2.MODE_OVERWRITE_PARTITIONS,
            is_dynamic=True,
        )
        return self._insert(context, insertion)

    def _replace(self, context: StatementContext, new: NewTable) -> Runner:
        return _answered(partial(self._tables.create, context.execution, replace(new, or_replace=True)), NOTHING)

    def _insert(self, context: StatementContext, insertion: Insertion) -> Runner:
        return _answered(partial(self._tables.insert, context.execution, insertion), NOTHING)

    def _catalog_call(self, context: StatementContext, root: relations_pb2.Relation) -> Runner | None:
        kind = str(root.catalog.WhichOneof("cat_type"))
        call = getattr(root.catalog, kind)
        name: str = call.view_name if kind in {"drop_temp_view", "drop_view"} else call.table_name
        if kind in {"create_table", "create_external_table"}:
            _refuse_new_table(context, name)
            return None
        table = _table(context, name)
        if table is None:
            return _missing(context, name, if_exists=getattr(call, "if_exists", False))
        if kind in {"drop_temp_view", "drop_view"}:
            raise not_a_view(table.name, "dropTempView" if kind == "drop_temp_view" else "dropView")
        if kind == "recover_partitions":
            raise not_supported(table.name, "recoverPartitions", "It always contains all its partitions.")
        if kind == "drop_table":
            return _answered(partial(self._tables.drop, context.execution, table), _NO_ROWS)
        if kind == "truncate_table":
            return _answered(partial(self._tables.truncate, context.execution, table.name), _NO_ROWS)
        return self._create_statement(context, table)

    def _create_statement(self, context: StatementContext, table: TemporaryTable) -> Runner:
        async def work() -> Response:
            text = await self._tables.create_statement(context.execution, table)
            return build_batch_response(pa.table({"createtab_stmt": [text]}))

        return work


def _check_layout(
    context: StatementContext, write: commands_pb2.WriteOperation, table: TemporaryTable, *, by_position: bool
) -> None:
    """Check that a write has the same format and partitions as its table.

    Raises:
        GatewayError: If the table has another format or other partitions.
    """
    if not by_position and write.source and write.source.lower() != table.storage_format:
        raise not_supported(
            table.name,
            f"saveAsTable with format [{write.source}]",
            f"It is stored as [{table.storage_format}]. Remove format(...).",
        )
    comparable = context.settings.comparable_name
    named = [comparable(column) for column in write.partitioning_columns]
    if named and (by_position or named != [comparable(column) for column in table.partition_columns]):
        columns = ", ".join(table.partition_columns)
        own = f"It is partitioned by [{columns}]" if columns else "It has no partitions"
        raise not_supported(
            table.name, f"partitionBy [{', '.join(write.partitioning_columns)}]", f"{own}. Remove partitionBy(...)."
        )
    _refuse_buckets(write, table)


def _refuse_buckets(write: commands_pb2.WriteOperation, table: TemporaryTable) -> None:
    if write.HasField("bucket_by") or write.clustering_columns:
        raise not_supported(table.name, "bucketBy and clusterBy", "Remove them.")


async def _new_table_of_write(
    context: StatementContext, table: TemporaryTable, write: commands_pb2.WriteOperation
) -> NewTable:
    """Return the table with which ``saveAsTable`` replaces another one.

    Raises:
        GatewayError: If the table would have buckets, or the format or an option is not supported.
    """
    _refuse_buckets(write, table)
    options = {key: value for key, value in write.options.items() if key.lower() != _OVERWRITE_MODE}
    return NewTable.of_query(
        table.name,
        await context.resolve(write.input),
        find_storage_format(write.source or context.settings.store_format, table.name),
        partition_columns=write.partitioning_columns,
        options=options,
    )


async def _new_table_of_write_v2(
    context: StatementContext, table: TemporaryTable, write: commands_pb2.WriteOperationV2
) -> NewTable:
    """Return the table with which ``writeTo`` replaces another one.

    Raises:
        GatewayError: If the partitions are not columns, or the format or an option is not supported.
    """
    partitions = []
    for each in write.partitioning_columns:
        parts = parse_plan_name(each.unresolved_attribute.unparsed_identifier)
        if parts is None or len(parts) != 1:
            raise not_supported(table.name, "partitions that are not columns", "Use the name of a column.")
        partitions.append(parts[0])
    if write.clustering_columns:
        raise not_supported(table.name, "clusterBy", "Remove it.")
    return NewTable.of_query(
        table.name,
        await context.resolve(write.input),
        find_storage_format(write.provider or context.settings.store_format, table.name),
        partition_columns=partitions,
        options=write.options,
        properties=write.table_properties,
    )


def _rows_without(
    condition: expressions_pb2.Expression, table: TemporaryTable, schema: StructType, contents: relations_pb2.Relation
) -> InsertedRows:
    """Return the rows of a table for which a condition is not true."""
    remaining = relations_pb2.Relation()
    remaining.filter.input.subquery_alias.input.CopyFrom(contents)
    remaining.filter.input.subquery_alias.alias = table.name
    false = expressions_pb2.Expression()
    false.literal.boolean = False
    remaining.filter.condition.CopyFrom(call_function("not", call_function("coalesce", condition, false)))
    return InsertedRows(remaining)


def _refuse_evolution(
    table: TemporaryTable,
    command: commands_pb2.WriteOperation | commands_pb2.WriteOperationV2 | commands_pb2.MergeIntoTableCommand,
) -> None:
    if command.with_schema_evolution:
        raise not_supported(table.name, "schema evolution", "Add the columns with ALTER TABLE ... ADD COLUMNS.")


def _missing(context: StatementContext, name: str, *, if_exists: bool) -> Runner | None:
    """Return the runner of a catalog call whose name is not a temporary table.

    Raises:
        GatewayError: If the name is in a workspace. Only SQL can drop tables in workspaces.
    """
    target = _target(context, name)
    if target is None or target.kind not in {TargetKind.WORKSPACE, TargetKind.ABSENT}:
        return None
    if if_exists:
        return answers.give(_NO_ROWS)
    context.require_schema(target)
    raise table_not_found(target.name)


def _refuse_new_table(context: StatementContext, name: str) -> None:
    target = _target(context, name)
    if target is None:
        return
    context.require_schema(target)
    if target.workspace is not None:
        raise no_data_frame_table(target.workspace.name)


def _refuse(context: StatementContext, name: str, operation: str) -> None:
    table = _table(context, name)
    if table is not None:
        raise not_supported(table.name, operation, _NEW_TABLE)


def _table(context: StatementContext, name: str) -> TemporaryTable | None:
    target = _target(context, name)
    return None if target is None else context.table(target)


def _target(context: StatementContext, name: str) -> Target | None:
    parts = parse_plan_name(name)
    return context.target(parts) if parts else None


def _answered(work: Runner, answer: Response) -> Runner:
    """Return a runner that executes the work and then returns a fixed answer."""

    async def answered() -> Response:
        await work()
        return answer

    return answered
