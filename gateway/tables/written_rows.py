"""Determines how many rows a statement has written.

Spark counts the rows while it writes them, and reports the count as an observed metric. It leaves out the metric if the
count has not reached its session in time, which happens at a busy server. Then the rows are counted in the files.
"""

from collections.abc import Mapping

from gateway.backend_session import BackendSession, ExecutionResult
from gateway.stored_tables.table_plans import ROWS_WRITTEN, build_count


async def written_rows(
    backend: BackendSession,
    result: ExecutionResult,
    directory: str,
    *,
    storage_format: str,
    options: Mapping[str, str],
) -> int:
    """Return the number of rows that a write has written.

    Args:
        backend: The session of the statement at the backend.
        result: The result of the write.
        directory: The directory that contains only the rows of this write, as Spark knows it.
        storage_format: The name of the data source that reads the directory.
        options: The options of the data source.

    Raises:
        BackendError: If the rows cannot be counted.
        GatewayError: If the backend answers something else.
    """
    rows = result.observed.get(ROWS_WRITTEN)
    if rows is not None:
        return rows
    return await backend.read_count(build_count(directory, storage_format=storage_format, options=options))
