"""Decides how Lodge executes ``ALTER TABLE``.

Source: [spark-sql-grammar alterTable].
"""

from functools import partial

from gateway.operations.operations import Runner
from gateway.sql.column_definitions import parse_column_definitions
from gateway.sql.statements import AlterRelation, RelationKind
from gateway.sql.table_alteration import (
    AddColumns,
    Alteration,
    ChangeColumn,
    DropPartitions,
    SetProperties,
    UnsetProperties,
    parse_alteration,
)
from gateway.tables.new_table_names import new_table_name
from gateway.tables.partition_changes import PartitionChanges
from gateway.tables.sql_statement import SqlStatement
from gateway.tables.table_alterations import TableAlterations
from gateway.tables.table_errors import not_supported


class AlterCommands:
    """Creates the runner of an ``ALTER TABLE`` statement.

    Args:
        tables: Alters temporary tables.
        partitions: Drops partitions of temporary tables.
    """

    def __init__(self, tables: TableAlterations, partitions: PartitionChanges) -> None:
        self._tables = tables
        self._partitions = partitions

    async def alter(self, statement: AlterRelation, sql: SqlStatement) -> Runner | None:
        """Return the function that alters a table. None if Spark executes the statement.

        Raises:
            GatewayError: If the statement is not allowed.
        """
        operation = f"ALTER {statement.kind.value} {statement.action}".strip()
        table = sql.changed_table(statement.name, operation)
        if table is None:
            return None
        if statement.kind is RelationKind.TABLE and statement.renamed_to is not None:
            new_name = await new_table_name(sql.context, sql.target(statement.renamed_to, operation))
            return partial(self._tables.rename, sql.context.execution, table.name, new_name)
        dialect = sql.context.settings.dialect
        action = sql.text[slice(*statement.action_span)]
        execution = sql.context.execution
        found: Alteration | None = None
        if statement.kind is RelationKind.TABLE:
            found = await sql.run(parse_alteration, action, dialect)
        runner: Runner
        match found:
            case AddColumns():
                definitions = await sql.run(parse_column_definitions, action[slice(*found.span)], dialect)
                runner = partial(self._tables.add_columns, execution, table.name, definitions)
            case ChangeColumn():
                runner = partial(self._tables.change_column, execution, table.name, found)
            case SetProperties():
                runner = partial(self._tables.set_properties, execution, table.name, found.values)
            case UnsetProperties():
                runner = partial(self._tables.set_properties, execution, table.name, {}, found.keys)
            case DropPartitions():
                if not sql.are_values(found.partitions):
                    return None  # Spark has a better message
                runner = partial(
                    self._partitions.remove,
                    execution,
                    table.name,
                    found.partitions,
                    await sql.arguments(statement.action_span),
                    if_exists=found.if_exists,
                    statement="ALTER TABLE DROP PARTITION",
                )
            case _:
                way_out = "Create a new table from it with CREATE OR REPLACE TEMPORARY TABLE ... AS SELECT."
                raise not_supported(table.name, operation, way_out)
        return runner
