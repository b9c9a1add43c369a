"""The discovery of the schema of a scan from the schemas of its files.

Guarantee: with discovery ``all``, the schema contains all columns of all files. If such a schema does not exist, an
error is raised that contains the conflicting file. No column is lost silently.

Source: [scan-schema-tracker "Subsequent Readers and Schema Changes"].
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa

from engine.context import ErrorContext
from engine.discovery import decode_schema, encode_schema
from engine.errors import NOWHERE, SchemaConflictError
from engine.file_scan.column_selection import select_columns
from engine.file_scan.file_scan import FileScan
from engine.file_scan.schema_conflict import FileConflictError, find_place
from engine.readers.reader_errors import check_readable
from engine.scan.missing_columns import resolve_missing_types
from engine.scan.reader import SourceFile
from engine.schema import TupleSchema
from engine.schema_tracker.merging import merge_schemas
from engine.spark_type import find_unreadable
from engine.storage.listed_file import ListedFile

_THREADS = 8
_TYPE_OF_NULLS = pa.string()


def discover_schema(scan: FileScan) -> TupleSchema:
    """Return the columns that the statement may need.

    The type of each column can represent the values of all files.

    Raises:
        NoFilesError: If the path contains no files.
        SchemaConflictError: If the types of a column have no common type.
        EngineError: If a file cannot be listed or read.
    """
    files = scan.list_files()
    sampled = sample_files(scan, files)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="discovery") as pool:
        found = pool.map(partial(examine_file, scan), map(scan.open_later, sampled))
        schemas = [encode_schema(schema) for schema in found]
    try:
        return merge_needed_columns(scan, files, sampled, schemas)
    except FileConflictError as conflict:
        raise conflict.at(find_place(scan, conflict.file, conflict.error.column, conflict.others)) from None


def sample_files(scan: FileScan, files: Sequence[ListedFile]) -> Sequence[ListedFile]:
    """Return the files whose schemas are merged into the schema of the scan."""
    wanted = {"all": len(files), "sample": scan.options.sample_files, "first": 1}[scan.options.discovery]
    if wanted >= len(files):
        return files
    step = len(files) / wanted
    return [files[int(number * step)] for number in range(wanted)]


def examine_file(scan: FileScan, file: SourceFile) -> TupleSchema:
    """Return the schema of a file.

    Raises:
        EngineError: If the file cannot be read.
    """
    format_, options = scan.find_format(file)
    return format_.discover(file, options)


def merge_needed_columns(
    scan: FileScan, files: Sequence[ListedFile], sampled: Sequence[ListedFile], schemas: Sequence[bytes]
) -> TupleSchema:
    """Return the columns that the statement may need, with types that can represent the rows of all sampled files.

    Args:
        scan: The scan.
        files: All files of the scan.
        sampled: The files whose schemas are known.
        schemas: The encoded schema of each of them.

    Raises:
        FileConflictError: If the types of a column have no common type.
        UnsupportedTypeError: If a file has a needed column with a type that cannot be read.
    """
    needed = select_columns(scan, merge_file_schemas(scan, sampled, schemas), files)
    for column in needed:
        if find_unreadable(column.type) is not None:
            for file, schema in zip(sampled, schemas, strict=True):
                found = decode_schema(schema).find(column.name)
                if found is not None:
                    check_readable(found, ErrorContext(scan.source.workspace, file.path))
    return needed


def merge_file_schemas(scan: FileScan, files: Sequence[ListedFile], schemas: Sequence[bytes]) -> TupleSchema:
    """Return a schema that can represent the rows of all files. This function opens no file.

    Args:
        scan: The scan.
        files: The files, in the order of the scan.
        schemas: The encoded schema of each file.

    Raises:
        FileConflictError: If the types of a column have no common type.
    """
    first: dict[bytes, ListedFile] = {}
    for file, schema in zip(files, schemas, strict=True):
        first.setdefault(schema, file)
    distinct = [(decode_schema(schema), file) for schema, file in first.items()]
    workspace = scan.source.workspace
    try:
        merged = merge_schemas((schema, ErrorContext(workspace, file.path)) for schema, file in distinct)
    except SchemaConflictError as conflict:
        number = next(number for number, (_, file) in enumerate(distinct) if file.path == conflict.context.path)
        others = merge_schemas((schema, NOWHERE) for schema, _ in distinct[:number])
        raise FileConflictError(conflict, distinct[number][1], others) from None
    return resolve_missing_types(merged, _TYPE_OF_NULLS)
