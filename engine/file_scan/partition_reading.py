"""The reading of one partition of a scan, in a task.

Guarantee: a task uses only the schema of the scan. If a file has additional columns, they are ignored, and the task
logs one warning for each name.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from engine.context import ErrorContext
from engine.file_scan.column_selection import implicit_column_finder
from engine.file_scan.file_scan import FileScan
from engine.projection.path import quote_name
from engine.projection.project_list import EVERYTHING, ProjectionList
from engine.scan.reader import SourceFile
from engine.scan.row_filter import RowFilter
from engine.scan.scan import Scan, ScanInput, ScanPlan
from engine.scan_source import selected_directory
from engine.schema import TupleSchema
from engine.suffixes import suffix_of


def read_partition(
    scan: FileScan,
    files: Sequence[SourceFile],
    schema: TupleSchema,
    *,
    is_declared: bool,
    row_filters: Sequence[RowFilter] = (),
) -> Iterator[pa.RecordBatch]:
    """Read one partition.

    Args:
        scan: The scan.
        files: The files and splits of a partition, as returned by :func:`engine.file_scan.partitions.plan_partitions`.
        schema: The columns to return, in order.
        is_declared: Whether a user has declared the schema. In this case, text is converted to the declared types, and
            values of any type are converted to text.
        row_filters: The filters of the query. A row may be skipped if at least one filter is not true for the row.

    Raises:
        EngineError: If a file cannot be read. This error is raised by the iterator.
    """
    with scan.opened_ahead(files) as ahead:
        plan = ScanPlan(
            selected=selected_directory(scan.source.path),
            projection=_projection(scan, schema, is_declared=is_declared),
            defined=schema,
            provided=schema if is_declared else None,
            row_filters=row_filters,
            find_implicit=implicit_column_finder(scan, schema, [file.path for file in ahead], is_declared=is_declared),
        )
        inputs = [ScanInput(file, partial(_reader, scan, file), suffix_of(file.path)) for file in ahead]
        yield from Scan(inputs, plan, ErrorContext(scan.source.workspace)).batches()


def _projection(scan: FileScan, schema: TupleSchema, *, is_declared: bool) -> ProjectionList:
    """Return the columns to project.

    These are all columns if the statement may refer to a column that is not in the schema.
    """
    if scan.mentioned is None and not is_declared and len(schema):
        return EVERYTHING
    return ProjectionList.parse(quote_name(one.name) for one in schema)


def _reader(scan: FileScan, file: SourceFile) -> Any:
    format_, options = scan.find_format(file)
    return format_.reader(file, options)
