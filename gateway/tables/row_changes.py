"""Executes ``UPDATE``, ``DELETE`` and ``MERGE INTO``: finds what to rewrite, and lets Spark check the statement first.

Spark analyses the statement of the client as it is. If there is nothing else to object to, it refuses the statement
because a view of files cannot be changed. All other errors are those of the client, with the right positions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import structlog
from pyspark.sql.connect.proto import base_pb2, commands_pb2, relations_pb2
from pyspark.sql.types import DataType, StructType

from gateway.backends.backend_session import BackendSession
from gateway.backends.session_settings import SessionSettings
from gateway.blocking_work.storage import Storage
from gateway.errors import BackendError, backend_failed
from gateway.messages.deep_messages import append_copies
from gateway.messages.error_status import condition_of
from gateway.operations.responses import Response, build_row_response
from gateway.plans.sql_relations import find_sql
from gateway.sql.lexer import Dialect, tokenize
from gateway.sql.name_syntax import quote_name
from gateway.sql.references import replace_spans
from gateway.sql.row_changes import RowChange, has_subquery, parse_row_change
from gateway.sql.statement_parser import parse_statement
from gateway.sql.statements import Insert, ModificationKind
from gateway.stored_tables.frame_merge import FrameMerge
from gateway.stored_tables.insert_plans import PLACEHOLDER, InsertedRows
from gateway.stored_tables.partitions import build_touched_partitions, in_partitions, partition_path
from gateway.stored_tables.rewriting import Rewriting, needs_conversion
from gateway.stored_tables.storage_formats import has_times
from gateway.stored_tables.table_plans import build_session_table
from gateway.tables.execution import StatementExecutor
from gateway.tables.part_writer import PartWriter
from gateway.tables.records import TableRecords
from gateway.tables.statement_context import Execution
from gateway.tables.table_errors import inexact_rewriting, merge_subquery, not_supported
from gateway.tables.temporary_tables import require_ready
from workspace.name_comparison import comparable_name
from workspace.records import PendingWrite, TemporaryTable, WriteKind

log = structlog.get_logger(__name__)

MAX_TOUCHED_PARTITIONS = 500
"""The number of partitions up to which only the partitions with changed rows are rewritten."""

_CANNOT_CHANGE = "UNSUPPORTED_FEATURE.TABLE_OPERATION"
_OF_VALUES = ("CAST_", "DATATYPE_MISMATCH.CAST_")
"""Errors of new values. When the values are stored, they have other conditions."""
_UNEXPECTED_RELATION = "Unexpected table relation"
_ROWS = f"{PLACEHOLDER}table"

KeepRows = Callable[[TemporaryTable, StructType, relations_pb2.Relation], InsertedRows]
"""Returns the rows that remain, given a table, its columns and its rows."""


@dataclass(frozen=True, slots=True)
class RowStatement:
    """A statement that changes rows, as Spark would parse it.

    Attributes:
        change: The parsed statement.
        sql: The parameters of the statement, without its text.
        references: The references of the statement.
    """

    change: RowChange
    sql: relations_pb2.SQL
    references: Sequence[relations_pb2.Relation]

    @classmethod
    def of(cls, resolved: relations_pb2.Relation, table: TemporaryTable, dialect: Dialect) -> "RowStatement":
        """Return the statement in a relation whose names are resolved.

        Raises:
            GatewayError: If the statement has a clause that temporary tables do not support.
        """
        sql = relations_pb2.SQL()
        found = find_sql(resolved)
        if found is not None:
            sql.CopyFrom(found)
        text = _name_parameters(sql, dialect)
        change = parse_row_change(text, dialect) or _parse_replacement(text, dialect)
        if change is None:
            raise not_supported(table.name, "WITH SCHEMA EVOLUTION", "Remove this clause.")
        subquery = change.find_subquery(dialect)
        if subquery is not None:
            raise merge_subquery(*subquery)
        sql.query = ""
        return cls(change, sql, list(resolved.with_relations.references))

    def query(self, text: str, rows: relations_pb2.Relation) -> relations_pb2.Relation:
        """Return a query with the parameters and references of the statement.

        Args:
            text: The text of the query.
            rows: The rows of the table that the statement changes.
        """
        relation = relations_pb2.Relation()
        command = relation.with_relations
        command.root.sql.CopyFrom(self.sql)
        command.root.sql.query = text
        append_copies(command.references, self.references)
        reference = command.references.add().subquery_alias
        reference.alias = _ROWS
        reference.input.CopyFrom(rows)
        return relation


async def check_by_spark(backend: BackendSession, plan: base_pb2.Plan) -> None:
    """Let Spark check a statement that changes rows.

    Args:
        backend: The session at the backend.
        plan: The plan of the statement. All names in it are resolved.

    Raises:
        BackendError: If Spark refuses the statement for another reason than that it cannot change a view.
        GatewayError: If Spark does not refuse the statement.
    """
    try:
        await backend.operations.execute(plan)
    except BackendError as error:
        condition = condition_of(error.error) or ""
        is_of_view = condition == _CANNOT_CHANGE or _UNEXPECTED_RELATION in (error.error.details() or "")
        if is_of_view or condition.startswith(_OF_VALUES):
            return
        raise
    raise backend_failed(backend.address, "it executed a change of a view")


class RowRewriting:
    """The rewriting of a table for a statement.

    Args:
        statement: The statement.
        table: The table.
        schema: The columns of the table.
        settings: The session settings.
    """

    def __init__(
        self, statement: RowStatement, table: TemporaryTable, schema: StructType, settings: SessionSettings
    ) -> None:
        self._statement = statement
        self._table = table
        self._schema = schema
        self._rewriting = Rewriting(statement.change, table.name, schema, _ROWS, settings)

    @property
    def is_insertion(self) -> bool:
        """Whether the statement only adds rows."""
        return self._rewriting.is_insertion

    async def touched_partitions(self, backend: BackendSession, rows: relations_pb2.Relation) -> tuple[str, ...] | None:
        """Return the partitions with rows that the statement changes. None if all rows must be rewritten.

        Raises:
            BackendError: If the condition of the statement fails.
        """
        columns = self._table.partition_columns
        condition = self._rewriting.touched_condition
        if not columns or not condition or self._rewriting.assigns(columns):
            return None
        fields = {comparable_name(field.name): field for field in self._schema.fields}
        chosen = [fields[comparable_name(name)] for name in columns]
        text = build_touched_partitions(chosen, self._rewriting.row_scope, condition, MAX_TOUCHED_PARTITIONS + 1)
        plan = base_pb2.Plan()
        plan.root.CopyFrom(self._statement.query(text, rows))
        names = [field.name for field in chosen]
        found = await backend.read_text_rows(plan, names, max_rows=MAX_TOUCHED_PARTITIONS + 1)
        if len(found) > MAX_TOUCHED_PARTITIONS:
            return None
        return tuple(sorted({partition_path(names, row) for row in found}))

    async def types(self, backend: BackendSession, rows: relations_pb2.Relation) -> Sequence[DataType]:
        """Return the types of the new values of the statement.

        Args:
            backend: The session at the backend.
            rows: The rows that are rewritten.

        Raises:
            BackendError: If a value of the statement fails.
        """
        if not self._rewriting.values:
            return []
        query = self._statement.query(self._rewriting.values_query(), rows)
        return [field.dataType for field in (await backend.analyze_schema(query)).fields]

    def checks(self, types: Sequence[DataType], rows: relations_pb2.Relation) -> Sequence[InsertedRows]:
        """Return insertions of no rows for which Spark checks the types of the new values."""
        pairs = enumerate(zip(self._rewriting.values, types, strict=True))
        converted = [number for number, (value, found) in pairs if needs_conversion(value, found)]
        texts = self._rewriting.check_queries(converted)
        return [InsertedRows(self._statement.query(text, rows), "BY NAME") for text in texts]

    def rows(self, types: Sequence[DataType], rows: relations_pb2.Relation) -> InsertedRows:
        """Return the rows after the statement."""
        return InsertedRows(self._statement.query(self._rewriting.query(types), rows))


class RowChanges:
    """Executes the statements that change rows of temporary tables.

    Args:
        storage: The session records.
        executor: Executes the changes of tables.
        parts: Writes new parts of tables.
    """

    def __init__(self, storage: Storage, executor: StatementExecutor, parts: PartWriter) -> None:
        self._records = TableRecords(storage)
        self._executor = executor
        self._parts = parts

    async def replace_where(
        self, execution: Execution, name: str, rows: InsertedRows, resolved: relations_pb2.Relation
    ) -> Response:
        """Execute ``INSERT INTO … REPLACE WHERE``.

        Args:
            execution: The statement.
            name: The name of the table.
            rows: The rows to insert.
            resolved: The statement. All names in it are resolved.

        Raises:
            GatewayError: If the statement failed. The table remains unchanged.
        """

        def keep(table: TemporaryTable, schema: StructType, contents: relations_pb2.Relation) -> InsertedRows:
            statement = RowStatement.of(resolved, table, execution.settings.dialect)
            return RowRewriting(statement, table, schema, execution.settings).rows((), contents)

        return await self.overwrite(execution, name, rows, keep)

    async def overwrite(self, execution: Execution, name: str, rows: InsertedRows, keep: KeepRows) -> Response:
        """Insert rows into a table, and remove some of the others at the same time.

        Args:
            execution: The statement.
            name: The name of the table.
            rows: The rows to insert.
            keep: Returns the rows of the table that remain.

        Raises:
            GatewayError: If the statement failed. The table remains unchanged.
        """
        table, schema, contents = await self._read(execution, name)
        _check_rewriting(execution, table, schema, "REPLACE WHERE")
        write = self._rewriting_write(execution, table, schema)

        async def prepare() -> InsertedRows:
            kept = keep(table, schema, contents)
            await self._parts.add(execution, table, write, replace(kept, is_counted=False))
            return replace(rows, is_counted=False)

        answer = await self._parts.execute(execution, table, write, prepare)
        log.info("rows_changed", table=table.name, statement="REPLACE WHERE")
        return answer

    async def change(self, execution: Execution, name: str, resolved: relations_pb2.Relation) -> Response:
        """Execute a statement that changes rows of a table.

        Args:
            execution: The statement.
            name: The name of the table.
            resolved: The statement. All names in it are resolved.

        Raises:
            GatewayError: If the statement failed. The table remains unchanged.
        """
        plan = base_pb2.Plan()
        plan.command.sql_command.input.CopyFrom(resolved)
        await check_by_spark(execution.backend, plan)
        table, schema, rows = await self._read(execution, name)
        statement = RowStatement.of(resolved, table, execution.settings.dialect)
        return await self._rewrite(execution, table, schema, statement, rows)

    async def merge(self, execution: Execution, name: str, command: commands_pb2.MergeIntoTableCommand) -> Response:
        """Merge a DataFrame into a table.

        Args:
            execution: The statement.
            name: The name of the table.
            command: The command. All names in it are resolved.

        Raises:
            GatewayError: If the statement failed. The table remains unchanged.
        """
        plan = base_pb2.Plan()
        plan.command.merge_into_table_command.CopyFrom(command)
        plan.command.merge_into_table_command.target_table_name = quote_name(name)
        await check_by_spark(execution.backend, plan)
        table, schema, contents = await self._read(execution, name)
        merge = FrameMerge(command, table.name, schema)
        statement = RowStatement(merge.change, relations_pb2.SQL(), ())
        return await self._rewrite(execution, table, schema, statement, merge.rows(contents))

    async def _read(self, execution: Execution, name: str) -> tuple[TemporaryTable, StructType, relations_pb2.Relation]:
        """Return a table, its columns and its rows."""
        table = require_ready(await self._records.read(execution.session), name)
        schema = await execution.backend.analyze_schema(build_session_table(table.name))
        return table, schema, await self._executor.views.contents(execution, table, schema)

    def _rewriting_write(self, execution: Execution, table: TemporaryTable, schema: StructType) -> PendingWrite:
        """Return a write that replaces all rows that a table has now."""
        return replace(
            self._parts.new_write(execution, schema, WriteKind.REWRITING),
            replaced=table.parts,
            replaced_rows=table.rows,
            replaced_bytes=table.size_bytes,
        )

    async def _rewrite(
        self,
        execution: Execution,
        table: TemporaryTable,
        schema: StructType,
        statement: RowStatement,
        rows: relations_pb2.Relation,
    ) -> Response:
        """Write the rows of a table after a statement."""
        backend, kind = execution.backend, statement.change.kind
        rewriting = RowRewriting(statement, table, schema, execution.settings)
        write = self._parts.new_write(execution, schema, WriteKind.INSERTION)
        if not rewriting.is_insertion:
            _check_rewriting(execution, table, schema, kind.value)
            partitions = await rewriting.touched_partitions(backend, rows)
            if partitions == ():
                return build_row_response({})
            write = self._rewriting_write(execution, table, schema)
            if partitions:
                write = replace(write, partitions=partitions)
                rows = in_partitions(rows, schema, partitions, negated=False)

        async def prepare() -> InsertedRows:
            types = await rewriting.types(backend, rows)
            for each in rewriting.checks(types, rows):
                await self._parts.add(execution, table, write, each)
            return rewriting.rows(types, rows)

        answer = await self._parts.execute(execution, table, write, prepare, statement=kind.value)
        log.info("rows_changed", table=table.name, statement=kind.value)
        return answer


def _check_rewriting(execution: Execution, table: TemporaryTable, schema: StructType, statement: str) -> None:
    """Check that Spark writes rows that a statement does not concern as they are.

    Raises:
        GatewayError: If a setting of the session changes dates or times.
    """
    setting = execution.settings.find_inexact_times(table.storage_format)
    if setting is not None and has_times(schema):
        raise inexact_rewriting(table.name, statement, setting)


def _parse_replacement(text: str, dialect: Dialect) -> RowChange | None:
    """Return the deletion that ``INSERT INTO … REPLACE WHERE`` contains. None for other statements."""
    insert = parse_statement(text, dialect)
    if not isinstance(insert, Insert) or insert.replace_where is None:
        return None
    condition = text[slice(*insert.replace_where)]
    if has_subquery(condition, dialect):
        raise not_supported(
            insert.name.parts[-1], "subqueries in REPLACE WHERE", "Use MERGE INTO, or DELETE FROM and INSERT INTO."
        )
    return RowChange(ModificationKind.DELETE, insert.name, condition=condition)


def _name_parameters(sql: relations_pb2.SQL, dialect: Dialect) -> str:
    """Give names to positional parameters, because the values of a statement change their order. Return the text."""
    literals = list(sql.pos_args)
    expressions = list(sql.pos_arguments)
    if not literals and not expressions:
        return sql.query
    marks = [token for token in tokenize(sql.query, dialect) if token.is_symbol("?")]
    for number, literal in enumerate(literals):
        sql.named_arguments[f"lodge_{number}"].literal.CopyFrom(literal)
    for number, expression in enumerate(expressions):
        sql.named_arguments[f"lodge_{number}"].CopyFrom(expression)
    del sql.pos_args[:], sql.pos_arguments[:]
    return replace_spans(sql.query, [(mark.start, mark.end, f":lodge_{n}") for n, mark in enumerate(marks)])
