"""Discovery at the backend: a Spark job that examines files on the executors.

The job runs in the session of the client, with the user context and the tags of its request. Therefore an interrupt of
the client by tag, or of all operations, also ends the job.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import structlog
from pyspark.sql.connect.proto import base_pb2

from engine.discovery import FINDINGS_DDL, decode_schema, encode_schema, read_findings
from engine.file_list import FILES, pack_files
from engine.file_scan.schema_conflict import FileConflictError
from engine.scan_source import FORMAT, TASK
from engine.spark_discovery import COLUMN, DISCOVER, LOCATE, OTHERS
from engine.storage.listed_file import ListedFile
from gateway.backends.backend_operations import OnProgress
from gateway.backends.backend_rows import (
    MAX_BYTES,
    MAX_ROW_BYTES,
    BackendRowsError,
    RowReader,
    is_bytes,
    is_integers,
    is_text,
)
from gateway.backends.backend_session import BackendSession
from gateway.blocking_work.pools import Pool
from gateway.errors import GatewayError, backend_failed
from gateway.scans.scan_signatures import sign_scan

_MAX_REASON = 500
_COLUMNS = {"files": is_integers, "schema": is_bytes, "error": is_text}
"""The columns of findings, as in ``engine.discovery.FINDINGS``."""

log = structlog.get_logger(__name__)


async def find_schemas(
    backend: BackendSession,
    options: Mapping[str, str],
    files: Sequence[ListedFile],
    threads: Pool,
    *,
    on_schema: Callable[[Sequence[ListedFile], bytes], None],
    on_progress: OnProgress | None,
) -> Sequence[bytes]:
    """Return the encoded schema of each file.

    Args:
        backend: The session in which the job runs.
        options: The options of the scan.
        files: The files to examine.
        threads: The threads that pack the list of files, sign the scan, and read the findings.
        on_schema: Called in a thread with files and their schema, as soon as a task has examined them. Therefore the
            work of a job that ends early is not lost.
        on_progress: Called with each progress message of the job.

    Raises:
        FailedDiscoveryError: If a file could not be examined.
        BackendError: If the job fails.
        GatewayError: If the job did not return what it should.
    """
    plan = await threads.run_or_abandon(_build_plan, {**options, TASK: DISCOVER}, files)
    findings: list[Mapping[str, Any]] = []

    count = len(files)
    # each row names a file, and no file is named twice
    reader = RowReader(_COLUMNS, max_rows=count, max_bytes=MAX_BYTES, max_values=count)

    def take(rows: bytes) -> None:
        found = reader.read(rows)
        findings.extend(found)
        for row in found:
            if row["error"] is None:
                decode_schema(row["schema"])
                on_schema([files[number] for number in row["files"]], row["schema"])

    async def take_in_thread(rows: bytes) -> None:
        await threads.run_or_abandon(take, rows)

    try:
        await backend.operations.execute(plan, on_rows=take_in_thread, on_progress=on_progress)
        return await threads.run_or_abandon(read_findings, findings, count)
    except (BackendRowsError, pa.ArrowException, ValueError, KeyError, TypeError, IndexError) as error:
        raise _unexpected(backend, error) from error


async def find_place(backend: BackendSession, options: Mapping[str, str], conflict: FileConflictError) -> str:
    """Return the position in a file at which it conflicts with other files. Empty if there is no such position.

    Raises:
        BackendError: If the job fails.
        GatewayError: If the job did not return what it should.
    """
    others = base64.b64encode(encode_schema(conflict.others)).decode()
    of_conflict = {TASK: LOCATE, COLUMN: conflict.error.column, OTHERS: others}
    found: list[Mapping[str, Any]] = []
    reader = RowReader(_COLUMNS, max_rows=1, max_bytes=MAX_ROW_BYTES, max_values=1)

    async def take(rows: bytes) -> None:
        found.extend(reader.read(rows))

    try:
        await backend.operations.execute(_build_plan({**options, **of_conflict}, [conflict.file]), on_rows=take)
        (row,) = found
        return str(row["error"])
    except (BackendRowsError, ValueError) as error:
        raise _unexpected(backend, error) from error


def _build_plan(options: Mapping[str, str], files: Sequence[ListedFile]) -> base_pb2.Plan:
    plan = base_pb2.Plan()
    read = plan.root.read.data_source
    read.format = FORMAT
    read.schema = FINDINGS_DDL
    read.options.update(options)
    read.options[FILES] = pack_files(files)
    sign_scan(read)
    return plan


def _unexpected(backend: BackendSession, error: Exception) -> GatewayError:
    """Return the error for findings that do not come from Lodge's data source."""
    log.warning("findings_refused", backend=backend.address, reason=f"{type(error).__name__}: {error}"[:_MAX_REASON])
    return backend_failed(backend.address, "its answer about the files of a scan is not what it should be")
