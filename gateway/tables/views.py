"""Views over temporary tables: which may be, and how a table is found that is hidden in one.

A temporary view ends with the session, as the table does, so it may read one. A global temporary view and a permanent
one are seen by other sessions: Spark itself refuses some of them, but not a global view of a DataFrame, which would
show the table to everyone.

Source: seed 001, 5.1.12; Spark: the names of temporary views in an analysed plan (``View (`t`, …)``).
"""

import re
from collections.abc import Set

from pyspark.sql.connect.proto import relations_pb2

from gateway.errors import BackendError, GatewayError
from gateway.names.targets import is_same_name
from gateway.tables.asked import Asked
from gateway.tables.errors import temporary_table_used

_AFTER_ANALYSED = "== Optimized Logical Plan =="
_VIEW = re.compile(r"\bView \(`((?:[^`]|``)*)`,")


async def refuse_lasting_view(asked: Asked, query: relations_pb2.Relation) -> None:
    """Raises: GatewayError that names a temporary table which the query reads, however deep it is hidden.

    What cannot be analysed is left to Spark's own error; what Spark does not tell to its end is refused.
    """
    try:
        plans = await asked.backend.explain(query)
    except BackendError:
        return
    names = views_in(plans)
    for table in asked.record.tables:
        if any(is_same_name(table.name, name, asked.settings) for name in names):
            raise temporary_table_used(table.name)
    files = await asked.backend.list_input_files(query)
    for table in asked.record.tables:
        if any(f"/{asked.execution.session.uuid}/{part}/" in file for part in table.parts for file in files):
            raise temporary_table_used(table.name)
    if _AFTER_ANALYSED not in plans:
        raise GatewayError(
            "LODGE_VIEW_NOT_CHECKED",
            "0A000",
            "Spark does not tell all of what this view reads, so that it may show a temporary table to others. Set "
            "spark.sql.maxPlanStringLength to its default, or make the view before the session has temporary tables.",
        )


def views_in(plans: str) -> Set[str]:
    """The names of the temporary views in what explains a query."""
    return {match[1].replace("``", "`") for match in _VIEW.finditer(plans)}
