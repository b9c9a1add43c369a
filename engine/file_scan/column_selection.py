"""The columns of a scan that a statement needs: those of the files, and those that come from the paths of files.

Guarantee: if no schema is declared and a column of the files has the same name as an implicit column, the column of the
files takes precedence in all files.
"""

import posixpath
from collections.abc import Iterable, Sequence
from functools import partial

import pyarrow as pa

from engine.errors import PartitionError
from engine.file_scan.file_scan import FileScan
from engine.scan.implicit_columns import FileLocation, implicit_field, partition_fields
from engine.scan.partition_columns import find_partition_columns, partition_pairs
from engine.scan_source import mentioned_form, selected_directory
from engine.schema import IMPLICIT_MARK, TupleSchema, fold_case, is_implicit
from engine.schema_tracker.initial_schema import FindImplicitColumn
from engine.storage.listed_file import ListedFile


def select_columns(scan: FileScan, schema: TupleSchema, files: Sequence[ListedFile]) -> TupleSchema:
    """Return the columns that the statement contains. Implicit columns are marked as implicit.

    Args:
        scan: The scan.
        schema: The columns of the files.
        files: All files of the scan.
    """
    directory = selected_directory(scan.source.path)
    partitions = _partition_columns(scan, (file.path for file in files))
    for one in partitions:
        if schema.find(one.name) is not None:
            problem = f"has directories and files with a column {one.name!r}"
            raise PartitionError(scan.source.workspace, scan.source.path, problem)
    if scan.mentioned is None:
        one_of_each = {posixpath.dirname(file.path): file.path for file in files}.values()
        locations = [FileLocation.of(path, directory) for path in one_of_each]
        needed, implicit = list(schema), [*partitions, *partition_fields(locations)]
    else:
        needed = [one for one in schema if mentioned_form(one.name) in scan.mentioned]
        implicit = [*partitions]
        implicit += [one for name in sorted(scan.mentioned) if (one := implicit_field(name)) is not None]
    own = (one.with_metadata(IMPLICIT_MARK) for one in implicit if schema.find(one.name) is None)
    return TupleSchema([*(one.remove_metadata() for one in needed), *own])


def implicit_column_finder(
    scan: FileScan, schema: TupleSchema, paths: Iterable[str], *, is_declared: bool
) -> FindImplicitColumn:
    """Return a function that finds the columns that come from the paths of files.

    Args:
        scan: The scan.
        schema: The columns of the scan.
        paths: The paths of the files.
        is_declared: Whether a user has declared the schema.
    """
    if not is_declared:
        return partial(_marked_field, schema)
    names = {fold_case(one.name) for one in _partition_columns(scan, paths)}
    return lambda name: implicit_field(name) or (schema.find(name) if fold_case(name) in names else None)


def _partition_columns(scan: FileScan, paths: Iterable[str]) -> Sequence[pa.Field]:
    """Return the partition columns of files that the statement may need.

    Raises:
        PartitionError: If the files do not have the same partition columns, and the statement may need one.
    """
    found = list(paths)
    if not scan.options.partitions or not any("=" in path for path in found):
        return []
    selected = selected_directory(scan.source.path)
    directories = {tuple(FileLocation.of(path, selected).directories) for path in found}
    names = {mentioned_form(key) for each in directories for key, _ in partition_pairs(each)}
    if scan.mentioned is not None and names.isdisjoint(scan.mentioned):
        return []
    columns = find_partition_columns(sorted(directories), scan.source.workspace, selected)
    return [one for one in columns if scan.mentioned is None or mentioned_form(one.name) in scan.mentioned]


def _marked_field(schema: TupleSchema, name: str) -> pa.Field | None:
    """Return the implicit column with a name if the schema marks the column as implicit."""
    field = schema.find(name)
    return (implicit_field(name) or field) if field is not None and is_implicit(field) else None
