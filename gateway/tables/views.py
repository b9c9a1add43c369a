"""Views that read temporary tables.

A temporary view is dropped when its session ends, so it can read temporary tables. Global temporary views and permanent
views are visible to other sessions, so they must not read temporary tables. Spark rejects some of these views itself.
However, Spark does not reject a global view of a DataFrame, which would expose the table to all sessions.

Spark analyses the plan of a DataFrame view once, so the view would not show later rows of a temporary table. If the
DataFrame is just a table or the text of a query, Lodge creates a SQL view of the same query in its place.

Source: [temporary-tables §5.1.12]; the names of temporary views in Spark's analysed plans (``View (`t`, …)``).
"""

import re
from collections.abc import Set

from pyspark.sql.connect.proto import base_pb2, commands_pb2, relations_pb2

from gateway.errors import BackendError
from gateway.sql.cursor import Cursor
from gateway.sql.lexer import Dialect
from gateway.sql.name_syntax import parse_plan_name, quote_name
from gateway.sql.read_only_query import is_read_only_query
from gateway.tables.statement_context import StatementContext
from gateway.tables.table_errors import temporary_table_used, view_not_checked

_AFTER_ANALYSED = "== Optimized Logical Plan =="
_VIEW = re.compile(r"\bView \(`((?:[^`]|``)*)`,")


async def refuse_lasting_view(context: StatementContext, query: relations_pb2.Relation) -> None:
    """Check that a permanent or global view does not read a temporary table.

    If Spark cannot analyse the query, this function returns without an error. The client then gets the error from
    Spark.

    Args:
        context: The statement that creates the view.
        query: The query of the view.

    Raises:
        GatewayError: If the query reads a temporary table, or Spark truncated the plan of the query.
    """
    try:
        plans = await context.backend.explain(query)
    except BackendError:
        return
    comparable = context.settings.comparable_name
    names = {comparable(name) for name in views_in(plans)}
    for table in context.record.tables:
        if comparable(table.name) in names:
            raise temporary_table_used(table.name)
    location = f"/{context.execution.session.uuid}/"
    read = {file.partition(location)[2].partition("/")[0] for file in await context.backend.list_input_files(query)}
    for table in context.record.tables:
        if not read.isdisjoint(table.parts):
            raise temporary_table_used(table.name)
    if _AFTER_ANALYSED not in plans:
        raise view_not_checked()


async def build_current_view(
    context: StatementContext, view: commands_pb2.CreateDataFrameViewCommand
) -> base_pb2.Plan | None:
    """Return the statement that creates a view in place of one of a DataFrame, and that shows the current rows.

    None if the DataFrame reads no temporary table, or has operations that no text describes.

    Raises:
        GatewayError: If a name in the view cannot be resolved.
    """
    if view.is_global or not context.record.tables or not _find_text(view.input, context.settings.dialect):
        return None
    resolved = await context.resolve(view.input)
    text = _find_text(resolved, context.settings.dialect)
    if not text or not await _reads_table(context, resolved):
        return None
    plan = base_pb2.Plan()
    replacing = "OR REPLACE " if view.replace else ""
    name = ".".join(map(quote_name, parse_plan_name(view.name)))
    plan.command.sql_command.input.sql.query = f"CREATE {replacing}TEMPORARY VIEW {name} AS {text}"
    return plan


def _find_text(relation: relations_pb2.Relation, dialect: Dialect) -> str:
    """Return the text of a query that is a whole relation. Empty for other relations."""
    read, sql = relation.read, relation.sql
    if read.HasField("named_table") and not read.is_streaming and not read.named_table.options:
        parts = parse_plan_name(read.named_table.unparsed_identifier)
        return f"TABLE {'.'.join(map(quote_name, parts))}" if parts else ""
    has_parameters = sql.args or sql.pos_args or sql.named_arguments or sql.pos_arguments
    is_query = not has_parameters and is_read_only_query(sql.query, dialect)
    return sql.query[: Cursor(sql.query, dialect).end] if is_query else ""


async def _reads_table(context: StatementContext, query: relations_pb2.Relation) -> bool:
    try:
        plans = await context.backend.explain(query)
    except BackendError:
        return False
    comparable = context.settings.comparable_name
    names = {comparable(name) for name in views_in(plans)}
    return any(comparable(table.name) in names for table in context.record.tables)


def views_in(plans: str) -> Set[str]:
    """Return the names of the temporary views in the query plans that Spark printed."""
    return {match[1].replace("``", "`") for match in _VIEW.finditer(plans)}
