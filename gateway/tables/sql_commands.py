"""Decides how Lodge executes each kind of SQL statement.

Source: [temporary-tables §5.1.1-5.1.12, §5.4]; [databricks-temporary-tables] where ``temporary-tables`` has no rule.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial, singledispatchmethod

from pyspark.sql.connect.proto import relations_pb2
from pyspark.sql.types import StructType

from gateway.backends.backend_rows import BackendRowsError
from gateway.errors import backend_failed, table_not_found, view_not_found
from gateway.names.targets import Target, TargetKind
from gateway.operations.operations import Runner
from gateway.operations.responses import Response, build_row_response, build_sql_response
from gateway.scans.explanations import add_scans_to_rows, copy_explanation
from gateway.scans.scan_summary import ScanSummary
from gateway.sql import statements
from gateway.sql.column_definitions import parse_column_definitions
from gateway.sql.name_syntax import quote_name
from gateway.stored_tables.column_metadata import (
    CURRENT_DEFAULT,
    has_limits_or_default,
    replace_limits,
    stored_schema,
)
from gateway.stored_tables.listings import list_properties, list_temporary_tables, list_workspace_tables
from gateway.stored_tables.table_plans import build_empty_relation, build_named_table, encode_schema
from gateway.tables import answers, table_errors
from gateway.tables.alter_commands import AlterCommands
from gateway.tables.descriptions import describe_table
from gateway.tables.insert_commands import InsertCommands
from gateway.tables.new_table_names import new_table_name
from gateway.tables.new_tables import NewTable
from gateway.tables.partition_changes import PartitionChanges
from gateway.tables.permanent_tables import PermanentTables
from gateway.tables.row_changes import RowChanges
from gateway.tables.session_administration import SessionAdministration
from gateway.tables.sql_statement import SqlStatement
from gateway.tables.statement_context import StatementContext
from gateway.tables.table_alterations import TableAlterations
from gateway.tables.temporary_tables import TemporaryTables
from gateway.tables.views import refuse_lasting_view
from workspace.records import TableState, TemporaryTable
from workspace.workspaces import Workspace


@dataclass(frozen=True, slots=True)
class TableChanges:
    """The changes of temporary tables.

    Attributes:
        insertions: Creates the runners of ``INSERT``.
        alterations: Creates the runners of ``ALTER TABLE``.
        rows: Changes rows.
        columns: Changes columns and properties.
        partitions: Lists and drops partitions.
    """

    insertions: InsertCommands
    alterations: AlterCommands
    rows: RowChanges
    columns: TableAlterations
    partitions: PartitionChanges


class SqlCommands:
    """Creates the runner of a SQL statement.

    Args:
        tables: The temporary tables.
        changes: Changes temporary tables.
        permanent: The permanent tables in workspaces.
        administration: Lists and closes sessions.
    """

    def __init__(
        self,
        tables: TemporaryTables,
        changes: TableChanges,
        permanent: PermanentTables,
        administration: SessionAdministration,
    ) -> None:
        self._tables = tables
        self._changes = changes
        self._permanent = permanent
        self._administration = administration

    @singledispatchmethod
    async def work(self, statement: statements.Statement, sql: SqlStatement) -> Runner | None:
        """Return the function that executes a statement.

        Args:
            statement: The parsed statement.
            sql: The text and the session of the statement.

        Returns:
            The function. None if Spark executes the statement.

        Raises:
            GatewayError: If the statement is not allowed.
        """
        return None

    @work.register
    async def _create_temporary_table(
        self, statement: statements.CreateTemporaryTable, sql: SqlStatement
    ) -> Runner | None:
        context = sql.context
        name = await new_table_name(context, sql.target(statement.name, "CREATE TEMPORARY TABLE"))
        if statement.query_span is not None:
            query = await sql.query(statement)
        elif statement.definition_span is not None:
            schema = await _define(sql, name, statement.definition_span)
            if statement.partition_definition_span is not None:
                partitions = await _define(sql, name, statement.partition_definition_span)
                statement = replace(statement, partition_columns=tuple(partitions.names))
                schema = StructType([*schema.fields, *partitions.fields])
            _check_partition_columns(sql, name, schema, statement.partition_columns)
            query = build_empty_relation(encode_schema(schema))
        else:
            query = await _empty_like(sql, statement)
        has_defaults = statement.definition_span is not None and CURRENT_DEFAULT in query.local_relation.schema
        new = replace(NewTable.of_statement(name, query, statement, context.settings), has_defaults=has_defaults)
        return partial(self._tables.create, context.execution, new)

    @work.register
    async def _create_table(self, statement: statements.CreateTable, sql: SqlStatement) -> Runner | None:
        context, target = sql.context, sql.target(statement.name, "CREATE TABLE")
        context.require_schema(target)
        if target.workspace is None:
            return None
        workspace = _require_writable(target.workspace)
        for needed in (workspace, context.temporary_workspace):
            if not needed.is_file_based:
                raise table_errors.no_tables_in_object_store(target.name, needed.name)
        if context.table(target) is not None:
            error = self._tables.already_exists(target.name)
            if statement.if_not_exists:
                return answers.give(answers.not_created(error.text))
            raise error
        if statement.query_span is None or statement.has_other_clauses or statement.properties:
            raise table_errors.unsupported_creation(workspace.name)
        new = NewTable.of_statement(target.name, await sql.query(statement), statement, context.settings)
        return partial(self._permanent.create, context.execution, workspace, new)

    @work.register
    async def _drop_table(self, statement: statements.DropTable, sql: SqlStatement) -> Runner | None:
        context, target = sql.context, sql.target(statement.name, "DROP TABLE")
        table, workspace = context.table(target), target.workspace
        if table is not None and table.state is TableState.READY:
            return partial(self._tables.drop, context.execution, table)
        context.require_schema(target)
        if workspace is not None and await self._permanent.exists(workspace, target.name):
            return partial(self._permanent.drop, context.execution, _require_writable(workspace), target.name)
        if workspace is not None:
            _require_writable(workspace)
        is_sparks = target.kind in {TargetKind.SPARK, TargetKind.SESSION} or (
            target.kind is TargetKind.UNQUALIFIED and await context.backend.table_exists(quote_name(target.name))
        )
        if is_sparks and table is None:
            return None
        if statement.if_exists:
            return answers.give(answers.no_table(target.name))
        raise table_not_found(target.name)

    @work.register
    async def _drop_view(self, statement: statements.DropView, sql: SqlStatement) -> Runner | None:
        context, target = sql.context, sql.target(statement.name, "DROP VIEW")
        table = context.table(target)
        if table is None and target.workspace is None:
            return None
        if statement.if_exists:
            return answers.give(answers.no_view(target.name, (target.workspace or context.temporary_workspace).name))
        raise view_not_found(target.name) if table is None else table_errors.not_a_view(table.name, "DROP VIEW")

    @work.register
    async def _insert(self, statement: statements.Insert, sql: SqlStatement) -> Runner | None:
        return await self._changes.insertions.insert(statement, sql)

    @work.register
    async def _insert_several(self, statement: statements.MultiInsert, sql: SqlStatement) -> Runner | None:
        return await self._changes.insertions.insert_several(statement, sql)

    @work.register
    async def _truncate(self, statement: statements.TruncateTable, sql: SqlStatement) -> Runner | None:
        table = sql.changed_table(statement.name, "TRUNCATE TABLE")
        if table is None:
            return None
        if statement.partition is None:
            return partial(self._tables.truncate, sql.context.execution, table.name)
        if not sql.are_values([statement.partition]):
            return None  # Spark has a better message
        return partial(
            self._changes.partitions.remove,
            sql.context.execution,
            table.name,
            [statement.partition],
            await sql.arguments((statement.name.end, len(sql.text))),
            if_exists=len(statement.partition) < len(table.partition_columns),
            statement="TRUNCATE TABLE",
        )

    @work.register
    async def _change_rows(self, statement: statements.MergeOrUpdate, sql: SqlStatement) -> Runner | None:
        table = sql.changed_table(statement.name, statement.kind.value)
        if table is None:
            return None
        resolved = await sql.context.resolve_statement(sql.relation)
        return partial(self._changes.rows.change, sql.context.execution, table.name, resolved)

    @work.register
    async def _alter(self, statement: statements.AlterRelation, sql: SqlStatement) -> Runner | None:
        return await self._changes.alterations.alter(statement, sql)

    @work.register
    async def _comment(self, statement: statements.CommentOnTable, sql: SqlStatement) -> Runner | None:
        table = sql.context.table(sql.target(statement.name, "COMMENT ON TABLE"))
        if table is None:
            return None
        values = {} if statement.comment is None else {"comment": statement.comment}
        removed = ("comment",) if statement.comment is None else ()
        return partial(self._changes.columns.set_properties, sql.context.execution, table.name, values, removed)

    @work.register
    async def _show_properties(self, statement: statements.ShowTableProperties, sql: SqlStatement) -> Runner | None:
        table = sql.context.table(sql.target(statement.name, "SHOW TBLPROPERTIES"))
        if table is None:
            return None
        properties = {key: value for key, value in table.properties if key != "comment"}
        return answers.give(build_sql_response(list_properties(table.name, properties, statement.key)))

    @work.register
    async def _show_partitions(self, statement: statements.ShowPartitions, sql: SqlStatement) -> Runner | None:
        table = sql.context.table(sql.target(statement.name, "SHOW PARTITIONS"))
        if table is None or not sql.are_values([statement.partition]):
            return None  # Spark has a better message
        arguments = await sql.arguments((statement.name.end, len(sql.text)))
        return partial(self._changes.partitions.show, sql.context.execution, table, statement.partition, arguments)

    @work.register
    async def _describe(self, statement: statements.DescribeTable, sql: SqlStatement) -> Runner | None:
        table = sql.context.table(sql.target(statement.name, "DESCRIBE"))
        if table is None or table.state is not TableState.READY or not sql.are_values([statement.partition]):
            return None  # Spark has a better message
        return partial(describe_table, statement, sql, table, self._changes.partitions)

    @work.register
    async def _analyze(self, statement: statements.AnalyzeTable, sql: SqlStatement) -> Runner | None:
        """Do nothing, because Spark takes the statistics of a temporary table from its files."""
        table = sql.context.table(sql.target(statement.name, "ANALYZE TABLE"))
        return None if table is None else answers.give(build_row_response({}))

    @work.register
    async def _create_view(self, statement: statements.CreateView, sql: SqlStatement) -> Runner | None:
        context, target = sql.context, sql.target(statement.name, "CREATE VIEW")
        takes_name = target.workspace is not None or (statement.is_temporary and not statement.is_global)
        if takes_name and context.table(target) is not None:
            raise self._tables.already_exists(target.name)
        context.require_schema(target)
        if target.workspace is not None:
            raise table_errors.no_view_in_workspace(target.workspace.name)
        outlives_session = statement.is_global or not statement.is_temporary
        if outlives_session and context.record.tables and statement.query_span is not None:
            await refuse_lasting_view(context, await sql.query(statement))
        return None

    @work.register
    async def _cache_as(self, statement: statements.CacheTableAs, sql: SqlStatement) -> Runner | None:
        target = sql.target(statement.name, "CACHE TABLE")
        if sql.context.table(target) is not None:
            raise self._tables.already_exists(target.name)
        return None

    @work.register
    async def _explain(self, statement: statements.Explain, sql: SqlStatement) -> Runner | None:
        await new_table_name(sql.context, sql.target(statement.table.name, "EXPLAIN CREATE TEMPORARY TABLE"))
        resolved, scans = await sql.context.resolve_explanation(await sql.unresolved_query(statement))
        return partial(_explain, sql.context, resolved, scans)

    @work.register
    async def _explain_spark_statement(
        self, statement: statements.ExplainSparkStatement, sql: SqlStatement
    ) -> Runner | None:
        resolved, scans = await sql.context.resolve_explanation(sql.relation)
        return partial(_explain, sql.context, resolved, scans) if scans else None

    @work.register
    async def _show_temporary_tables(
        self, statement: statements.ShowTemporaryTables, sql: SqlStatement
    ) -> Runner | None:
        workspace = sql.context.temporary_workspace
        tables: tuple[TemporaryTable, ...] = sql.context.record.tables
        if statement.namespace is not None:
            namespace = _namespace(sql, statement.namespace)
            if namespace.kind is not TargetKind.SESSION and namespace.workspace is not workspace:
                tables = ()
        return answers.give(
            build_sql_response(list_temporary_tables(tables, workspace.name, statement.pattern, datetime.now(UTC)))
        )

    @work.register
    async def _show_tables(self, statement: statements.ShowTables, sql: SqlStatement) -> Runner | None:
        workspace = _namespace(sql, statement.namespace).workspace
        if workspace is None:
            return None
        tables = sql.context.record.tables if workspace is sql.context.temporary_workspace else ()
        names = await self._permanent.names(workspace)
        return answers.give(build_sql_response(list_workspace_tables(tables, names, workspace.name, statement.pattern)))

    @work.register
    async def _show_sessions(self, statement: statements.ShowSessions, sql: SqlStatement) -> Runner | None:
        return partial(self._administration.show, sql.context.execution)

    @work.register
    async def _close_session(self, statement: statements.CloseSession, sql: SqlStatement) -> Runner | None:
        return partial(self._administration.close, sql.context.execution, statement.session_id)

    @work.register
    async def _show_create_table(self, statement: statements.ShowCreateTable, sql: SqlStatement) -> Runner | None:
        table = sql.context.table(sql.target(statement.name, "SHOW CREATE TABLE"))
        if table is None:
            return None
        text = partial(self._tables.create_statement, sql.context.execution, table)

        async def show() -> Response:
            return build_row_response({"createtab_stmt": await text()})

        return show


async def _explain(
    context: StatementContext, explanation: relations_pb2.Relation, scans: Sequence[ScanSummary]
) -> Response:
    """Execute ``EXPLAIN``. Return the answer of Spark with what is known about the scans."""
    answer = await context.backend.execute_sql(explanation)
    if context.execution.operation.is_relation:
        try:
            answer = copy_explanation(answer)
        except BackendRowsError as error:
            raise backend_failed(context.execution.session.backend.address, str(error)) from error
    return add_scans_to_rows(answer, scans) if scans else answer


async def _define(sql: SqlStatement, table: str, span: statements.Span) -> StructType:
    """Return the schema of column definitions.

    Raises:
        GatewayError: If a column has a clause that tables in files do not support, or Spark cannot parse the
            definitions.
    """
    definitions = await sql.run(parse_column_definitions, sql.text[slice(*span)], sql.context.settings.dialect)
    if definitions.unsupported:
        raise table_errors.unsupported_definition(table, definitions.unsupported)
    defined = await sql.context.backend.parse_schema(definitions.text)
    if sql.context.settings.enforces_not_null and not all(field.nullable for field in defined.fields):
        raise table_errors.no_enforcement(table)
    return stored_schema(replace_limits(defined, sql.context.settings), dict(definitions.defaults))


def _check_partition_columns(sql: SqlStatement, table: str, schema: StructType, partitions: Sequence[str]) -> None:
    """Check that partition columns occur once, and have neither a default value nor ``CHAR`` or ``VARCHAR``.

    Raises:
        GatewayError: If one of them does not.
    """
    comparable = sql.context.settings.comparable_name
    names = set(map(comparable, partitions))
    columns = Counter(map(comparable, schema.names))
    twice = next((name for name in partitions if columns[comparable(name)] > 1), None)
    if twice is not None:
        raise table_errors.column_already_exists(twice)
    if any(comparable(field.name) in names and has_limits_or_default(field) for field in schema.fields):
        raise table_errors.unsupported_definition(table, "PARTITION")


async def _empty_like(sql: SqlStatement, statement: statements.CreateTemporaryTable) -> relations_pb2.Relation:
    """Return an empty relation that has the columns of another table, view or file."""
    if statement.like is None or isinstance(statement.like, statements.IdentifierClause):
        raise table_errors.unreadable_name("CREATE TEMPORARY TABLE ... LIKE")
    source = build_named_table(sql.text[statement.like.start : statement.like.end])
    schema = await sql.context.backend.analyze_schema(await sql.context.resolve(source))
    return build_empty_relation(encode_schema(schema))


def _namespace(sql: SqlStatement, name: statements.TableName) -> Target:
    """Return the target of a placeholder table ``t`` in a namespace.

    Raises:
        GatewayError: If the namespace is a workspace that does not exist.
    """
    target = sql.context.target((*sql.parts(name, "SHOW TABLES"), "t"))
    sql.context.require_schema(target)
    return target


def _require_writable(workspace: Workspace) -> Workspace:
    if not workspace.is_writable:
        raise table_errors.immutable_schema(workspace.name)
    return workspace
