"""Determines how many rows a statement has written, and checks that its files contain them.

Spark counts the rows while it writes them, and reports the count as an observed metric. It leaves out the metric if the
count has not reached its session in time, which happens at a busy server. Then only the files are counted.

Guarantee: If the files are in a file system, and the backend has reported how many rows it wrote, a statement whose
files contain fewer rows fails. A host that has lost its mount writes to a local directory under the same path, and
Spark does not notice that the files are missing when it completes the write.

Not guaranteed: Files that are lost are not noticed if the backend reports no count.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
from pyarrow import parquet

from gateway.backend_session import BackendSession, ExecutionResult
from gateway.storage import Storage
from gateway.stored_tables.table_plans import ROWS_WRITTEN, build_count, to_spark_path
from gateway.tables.errors import rows_missing
from workspace.files.table_files import sum_data_files
from workspace.identifiers import SessionUuid, TableUuid

_MAX_FOOTER_BYTES = 16 * 1024 * 1024
"""The size up to which the gateway decodes the footer of a file itself."""

_TRAILER_BYTES = 8
"""The size of what follows the footer of a Parquet file: the length of the footer, and four letters."""


@dataclass(frozen=True, slots=True)
class WrittenDirectory:
    """A directory that contains only the rows of one write.

    Attributes:
        session_uuid: The session of the statement.
        directory: The name of the directory in the session location.
        table: The name of the table, for messages.
        storage_format: The name of the data source that reads the directory.
        options: The options of the data source.
    """

    session_uuid: SessionUuid
    directory: TableUuid
    table: str
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
        GatewayError: If the files contain fewer rows than the backend has written, or the backend answers something
            else.
    """
    reported = result.observed.get(ROWS_WRITTEN)
    (path,) = await storage.run_location(storage.locations.table_paths, written.session_uuid, [written.directory])
    if reported is not None and not isinstance(path, Path):
        return reported
    stored = None
    if isinstance(path, Path) and written.storage_format == "parquet":
        stored = await storage.run_slow(_rows_in_footers, path)
    if stored is None:
        plan = build_count(to_spark_path(path), storage_format=written.storage_format, options=written.options)
        stored = await backend.read_count(plan)
    if reported is not None and stored < reported:
        raise rows_missing(written.table, reported=reported, stored=stored)
    return stored


def _rows_in_footers(path: Path) -> int | None:
    """Return the number of rows in the Parquet files of a table.

    The result is None if this process cannot read the footers, for example because they are encrypted or belong to
    another user.
    """
    try:
        return sum_data_files(path, _rows_in_footer)
    except (pa.ArrowException, OSError):
        return None


def _rows_in_footer(file: BinaryIO) -> int:
    size_bytes = file.seek(0, 2)
    file.seek(max(0, size_bytes - _TRAILER_BYTES))
    if int.from_bytes(file.read(_TRAILER_BYTES)[:4], "little") > _MAX_FOOTER_BYTES:
        raise pa.ArrowInvalid("The footer of the file is too large")
    rows: int = parquet.read_metadata(file).num_rows
    return rows
