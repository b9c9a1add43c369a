"""Views over temporary tables: which are allowed, and what they read.

A temporary view ends with the session, like the table, so it may read the table. Other sessions see global temporary
views and permanent views. Spark refuses some of these views over a temporary table, but not a global view of a
DataFrame, which would show the table to everyone.

Source: [temporary-tables §5.1.12]; the names of temporary views in Spark's analysed plans (``View (`t`, …)``).
"""

import re
from collections.abc import Set

from pyspark.sql.connect.proto import relations_pb2

from gateway.errors import BackendError
from gateway.names.targets import is_same_name
from gateway.tables.errors import temporary_table_used, view_not_checked
from gateway.tables.statement_context import StatementContext

_AFTER_ANALYSED = "== Optimized Logical Plan =="
_VIEW = re.compile(r"\bView \(`((?:[^`]|``)*)`,")


async def refuse_lasting_view(context: StatementContext, query: relations_pb2.Relation) -> None:
    """Check that the query of a lasting view reads no temporary table.

    If Spark cannot analyse the query, the client gets Spark's own error later.

    Args:
        context: The statement that creates the view.
        query: The query.

    Raises:
        GatewayError: The query reads a temporary table, or Spark cut its plan off.
    """
    try:
        plans = await context.backend.explain(query)
    except BackendError:
        return
    names = views_in(plans)
    for table in context.record.tables:
        if any(is_same_name(table.name, name, context.settings) for name in names):
            raise temporary_table_used(table.name)
    files = await context.backend.list_input_files(query)
    for table in context.record.tables:
        if any(f"/{context.execution.session.uuid}/{part}/" in file for part in table.parts for file in files):
            raise temporary_table_used(table.name)
    if _AFTER_ANALYSED not in plans:
        raise view_not_checked()


def views_in(plans: str) -> Set[str]:
    """Return the names of the temporary views in the plans of a query."""
    return {match[1].replace("``", "`") for match in _VIEW.finditer(plans)}
