"""The findings of discovery: the schemas of the files of a scan, found by many tasks for one planner.

A task examines a group of files, and returns each distinct schema once, with the numbers of the files that have it. The
planner collects the findings of all tasks, and merges the schemas in the order of the files
(:func:`engine.file_scan.schema_discovery.merge_file_schemas`). It opens no file.

Guarantees:

1. The result does not depend on how the files were grouped, or on the order in which the tasks finish.
2. If files cannot be examined, the error of the first one is reported, whatever the tasks found in other files.
3. Findings that do not cover each file exactly once are refused.
"""

import json
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from engine.error_report import ErrorReport
from engine.errors import EngineError
from engine.json_texts import read_json
from engine.limits import BatchLimits
from engine.result_set.loader import ResultSetLoader
from engine.scan.reader import SourceFile
from engine.schema import TupleSchema

FINDINGS = pa.schema([("files", pa.list_(pa.int32())), ("schema", pa.binary()), ("error", pa.string())])
"""The columns in which tasks return their findings."""

FINDINGS_DDL = "files array<int>, schema binary, error string"
"""The same columns, as Spark DDL."""

_MAX_TRACEBACK = 16_384
_LIMITS = BatchLimits(vector_bytes=2**30 - 1)
"""A task examines fewer files than a batch has rows. Their schemas take much less space than this."""


class FailedDiscoveryError(Exception):
    """Raised if a file could not be examined.

    Attributes:
        report: The error of the first such file.
        traceback: The traceback of the error, for the log.
    """

    def __init__(self, report: ErrorReport, traceback: str) -> None:
        super().__init__(str(report))
        self.report = report
        self.traceback = traceback


def examine(files: Iterable[tuple[int, SourceFile]], discover: Callable[[SourceFile], TupleSchema]) -> pa.RecordBatch:
    """Examine a group of files, and return the findings.

    Args:
        files: The files, each with its number in the scan.
        discover: Returns the schema of a file.
    """
    numbers: dict[bytes, list[int]] = {}
    failed: list[tuple[int, str]] = []
    last, encoded = None, b""
    for number, file in files:
        try:
            schema = discover(file)
        except EngineError as error:
            lines = traceback.format_exception(error)
            failed.append((number, json.dumps([asdict(ErrorReport.of(error)), "".join(lines)[-_MAX_TRACEBACK:]])))
            continue
        if schema is not last:
            last, encoded = schema, encode_schema(schema)
        numbers.setdefault(encoded, []).append(number)
    return write_findings(
        *((of_schema, encoded, None) for encoded, of_schema in numbers.items()),
        *(([number], None, error) for number, error in failed),
    )


def write_findings(*findings: tuple[Sequence[int], bytes | None, str | None]) -> pa.RecordBatch:
    """Return findings in one batch.

    Args:
        findings: The numbers of files, with their schema or their error.

    Raises:
        ValueError: If the findings do not fit in one batch.
    """
    # Arrow's own conversion of Python objects imports pandas, which takes longer than the examination of many files.
    loader = ResultSetLoader(schema=TupleSchema.of(FINDINGS), limits=_LIMITS)
    loader.start_batch()
    for finding in findings:
        loader.writer.set_row(*finding)
    if loader.has_look_ahead:
        raise ValueError(f"The {len(findings)} findings of a task exceed {_LIMITS.vector_bytes:,} bytes.")
    return loader.harvest()


def read_findings(findings: Iterable[Mapping[str, Any]], count: int) -> Sequence[bytes]:
    """Return the encoded schemas of files, in the order of the files.

    Args:
        findings: The rows that the tasks returned.
        count: The number of files.

    Raises:
        FailedDiscoveryError: If a file could not be examined.
        ValueError: If the findings do not cover each file exactly once.
    """
    schemas: list[bytes | None] = [None] * count
    failed: dict[int, str] = {}
    for row in findings:
        for number in row["files"]:
            if not 0 <= number < count or schemas[number] is not None or number in failed:
                raise ValueError(f"File {number} of {count} was examined twice, or is not a file of the scan.")
            if row["error"] is None:
                schemas[number] = row["schema"]
            else:
                failed[number] = row["error"]
    if failed:
        report, lines = read_json(failed[min(failed)])
        raise FailedDiscoveryError(ErrorReport.from_json(report), str(lines))
    found = [schema for schema in schemas if schema is not None]
    if len(found) != count:
        raise ValueError(f"Only {len(found)} of {count} files were examined.")
    return found


def encode_schema(schema: TupleSchema) -> bytes:
    """Return a schema as an Arrow IPC message."""
    encoded: bytes = schema.to_arrow().serialize().to_pybytes()
    return encoded


def decode_schema(encoded: bytes) -> TupleSchema:
    """Return the schema that :func:`encode_schema` encoded.

    Raises:
        pyarrow.ArrowInvalid: If the message is malformed.
    """
    return TupleSchema.of(pa.ipc.read_schema(pa.py_buffer(encoded)))
