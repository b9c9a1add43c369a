"""Checks for views that read temporary tables.

A temporary view is dropped when its session ends, so it can read temporary tables. Global temporary views and permanent
views are visible to other sessions, so they must not read temporary tables. Spark rejects some of these views itself.
However, Spark does not reject a global view of a DataFrame, which would expose the table to all sessions.

Source: [temporary-tables §5.1.12]; the names of temporary views in Spark's analysed plans (``View (`t`, …)``).
"""

import re
from collections.abc import Set

from pyspark.sql.connect.proto import relations_pb2

from gateway.errors import BackendError
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


def views_in(plans: str) -> Set[str]:
    """Return the names of the temporary views in the query plans that Spark printed."""
    return {match[1].replace("``", "`") for match in _VIEW.finditer(plans)}
