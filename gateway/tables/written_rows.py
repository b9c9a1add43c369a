"""Determines how many rows a statement has written, and checks that its files contain them.

Spark counts the rows while it writes them, and reports the count as an observed metric. It leaves out the metric if the
count has not reached its session in time, which happens at a busy server. Then only the files are counted.

Guarantee: If the files are in a file system, and the backend has reported how many rows it wrote, a statement whose
files contain another number of rows fails. For example, a host that has lost its mount writes to a local directory
under the same path, and Spark does not notice that the files are missing when it completes the write.

Not guaranteed: Files that are lost are not noticed if the backend reports no count.
"""

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql.types import StructType

from gateway.backends.backend_session import BackendSession
from gateway.backends.followed_operation import ExecutionResult
from gateway.blocking_work.storage import Storage
from gateway.stored_tables.parquet_footers import ParquetRowCounter, UnknownRowCountError
from gateway.stored_tables.table_plans import build_count, build_scan, row_count_name, to_spark_path
from gateway.tables.table_errors import rows_differ
from workspace.identifiers import SessionUuid, TableUuid
from workspace.locations import SessionLocations
from workspace.storage_paths import StoragePath


@dataclass(frozen=True, slots=True)
class WrittenDirectory:
    """A directory that contains only the rows of one write.

    Attributes:
        session_uuid: The session of the statement.
        directory: The name of the directory in the session location.
        table: The name of the table, for messages.
        schema: The schema of the table. Without it, Spark would infer another one from text files.
        storage_format: The name of the data source that reads the directory.
        options: The options of the data source.
    """

    session_uuid: SessionUuid
    directory: TableUuid
    table: str
    schema: StructType
    storage_format: str
    options: Mapping[str, str]


async def written_rows(
    storage: Storage, backend: BackendSession, result: ExecutionResult, written: WrittenDirectory
) -> int:
    """Return the number of rows that a write has written.

    Args:
        storage: The session locations.
        backend: The session of the statement at the backend.
        result: The result of the write.
        written: The directory that was written.

    Raises:
        BackendError: If the rows cannot be counted.
        FileNotFoundError: If the directory does not exist, for example because the statement has been undone.
        GatewayError: If the files contain another number of rows than the backend has written, or the backend answers
            something else.
    """
    reported = result.observed.get(row_count_name(written.directory))
    path, stored = await storage.run_slow(_examine, storage.locations, written)
    if reported is not None and not isinstance(path, Path):
        return reported
    if stored is None:
        scan = build_scan(
            [to_spark_path(path)],
            storage_format=written.storage_format,
            schema=written.schema,
            options=written.options,
        )
        stored = await backend.read_count(build_count(scan))
    if reported is not None and stored != reported:
        raise rows_differ(written.table, reported=reported, stored=stored)
    return stored


def _examine(locations: SessionLocations, written: WrittenDirectory) -> tuple[StoragePath, int | None]:
    """Return the path of a written directory, and the number of rows in its files.

    The number is None if Spark must count the rows, for example because the files are encrypted or belong to another
    user.

    Raises:
        FileNotFoundError: If the directory does not exist, or a file was removed during the call.
    """
    session_uuid, directory = written.session_uuid, written.directory
    (path,) = locations.table_paths(session_uuid, [directory])
    if not isinstance(path, Path):
        return path, None
    if written.storage_format != "parquet":
        if not path.is_dir():
            raise FileNotFoundError(errno.ENOENT, "The written directory does not exist", str(path))
        return path, None
    try:
        return path, locations.sum_data_files(session_uuid, directory, ParquetRowCounter().count)
    except FileNotFoundError:
        raise
    except (UnknownRowCountError, OSError):
        return path, None
