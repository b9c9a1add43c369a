"""Decides how Lodge executes ``INSERT``, in all its forms.

Source: [spark-sql-grammar insertInto]; ``AstBuilder.visitInsertIntoTable`` of Spark.
"""

from collections.abc import Awaitable
from dataclasses import replace
from functools import partial

from gateway.operations.operations import Runner
from gateway.operations.responses import Response, build_row_response
from gateway.sql.statements import Insert, MultiInsert
from gateway.tables.insertions import Insertion
from gateway.tables.multi_insert import MAX_INSERT_CLAUSES, InsertClause, run_clauses
from gateway.tables.partition_changes import PartitionChanges
from gateway.tables.records import TableRecords
from gateway.tables.row_changes import RowChanges
from gateway.tables.sql_statement import SqlStatement
from gateway.tables.statement_context import Execution
from gateway.tables.table_errors import ambiguous_constants, not_supported, too_many_insert_clauses
from gateway.tables.temporary_tables import TemporaryTables
from workspace.records import TemporaryTable

_REFUSED_CLAUSES = ("REPLACE", "WITH")


class InsertCommands:
    """Creates the runner of an ``INSERT`` statement.

    Args:
        records: The session records.
        tables: The temporary tables.
        rows: Changes rows of temporary tables.
        partitions: Lists partitions of temporary tables.
    """

    def __init__(
        self, records: TableRecords, tables: TemporaryTables, rows: RowChanges, partitions: PartitionChanges
    ) -> None:
        self._records = records
        self._tables = tables
        self._rows = rows
        self._partitions = partitions

    async def insert(self, statement: Insert, sql: SqlStatement) -> Runner | None:
        """Return the function that executes an insertion. None if Spark executes the statement.

        Raises:
            GatewayError: If the statement is not allowed.
        """
        table = sql.changed_table(statement.name, _operation(statement))
        if table is None or _is_syntax_error(statement):
            return None  # Spark has a better message
        execution = sql.context.execution
        insertion = await _insertion(statement, table, sql)
        if statement.replace_where is not None:
            resolved = await sql.context.resolve_statement(sql.relation)
            return partial(self._rows.replace_where, execution, table.name, insertion.rows, resolved)
        if statement.if_not_exists is not None:
            if len(insertion.constants) < len(table.partition_columns):
                way_out = "Specify the value of each partition column."
                raise not_supported(table.name, "IF NOT EXISTS for several partitions", way_out)
            if await self._partitions.exists(execution, table, statement.partition, insertion.rows.arguments):
                return partial(self._check, execution, insertion)
        return partial(self._tables.insert, execution, insertion)

    async def insert_several(self, statement: MultiInsert, sql: SqlStatement) -> Runner | None:
        """Return the function that executes several ``INSERT`` clauses. None if Spark executes the statement.

        Raises:
            GatewayError: If the statement is not allowed.
        """
        tables = [sql.changed_table(each.name, _operation(each)) for each in statement.inserts]
        found = [table for table in tables if table is not None]
        if not found or any(map(_is_syntax_error, statement.inserts)):
            return None  # Spark has a better message
        if len(tables) > MAX_INSERT_CLAUSES:
            raise too_many_insert_clauses(MAX_INSERT_CLAUSES)
        is_plain = all(each.if_not_exists is None and each.replace_where is None for each in statement.inserts)
        if len(found) < len(tables) or not is_plain:
            others = "other tables" if len(found) < len(tables) else "IF NOT EXISTS and REPLACE WHERE"
            way_out = "Use one statement for each INSERT clause."
            raise not_supported(found[0].name, f"{others} in a statement with several INSERT clauses", way_out)
        execution = sql.context.execution
        pairs = zip(statement.inserts, found, strict=True)
        clauses = [self._clause(execution, await _insertion(each, table, sql)) for each, table in pairs]
        return partial(run_clauses, execution, self._records, clauses)

    async def _check(self, execution: Execution, insertion: Insertion) -> Response:
        """Let Spark check an insertion, and insert nothing."""
        await self._tables.check(execution, insertion)
        return build_row_response({})

    def _clause(self, execution: Execution, insertion: Insertion) -> InsertClause:
        def run(operation_id: str) -> Awaitable[Response]:
            return self._tables.insert(execution, replace(insertion, operation_id=operation_id))

        return InsertClause(partial(self._tables.check, execution, insertion), run)


def _operation(statement: Insert) -> str:
    return "INSERT OVERWRITE" if statement.overwrite else "INSERT INTO"


def _is_syntax_error(statement: Insert) -> bool:
    """Return whether Spark cannot parse an insertion."""
    if statement.unsupported is not None:
        return not statement.unsupported.startswith(_REFUSED_CLAUSES)
    if statement.if_not_exists is not None:
        is_static = statement.partition and all(text is not None for _, text in statement.partition)
        return not statement.overwrite or not is_static
    return statement.replace_where is not None and (statement.overwrite or bool(statement.partition))


async def _insertion(statement: Insert, table: TemporaryTable, sql: SqlStatement) -> Insertion:
    """Return the insertion of a statement.

    Raises:
        GatewayError: If the statement has a clause that temporary tables do not support, or a name cannot be resolved.
    """
    if statement.unsupported is not None:
        way_out = "Use MERGE INTO." if statement.unsupported.startswith("REPLACE") else "Remove it."
        raise not_supported(table.name, f"{statement.unsupported} in {_operation(statement)}", way_out)
    constants = {name: text for name, text in statement.partition if text is not None}
    are_quoted = all(text.startswith(("'", '"')) for text in constants.values())
    if statement.overwrite and not are_quoted and sql.context.settings.partition_constants_are_texts:
        raise ambiguous_constants(table.name)
    return Insertion(
        table=table.name,
        rows=await sql.inserted_rows(statement),
        overwrite=statement.overwrite,
        is_dynamic=sql.context.settings.overwrites_partitions,
        constants=constants,
    )
