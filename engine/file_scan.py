"""A scan of files in a workspace: its files, readers, schema and partitions.

Spark runs a scan as many tasks on several machines. Before the first task starts, this module decides the properties
that all tasks have in common: the files, the partitions and the schema. This decision is the commit point of the scan.

Guarantees:

1. With discovery ``all``, the schema contains all columns of all files. If such a schema does not exist, an error is
   raised that contains the conflicting file. No column is lost silently.
2. The partitions together contain all files. Each byte is in exactly one partition.
3. A task uses only this schema. If a file has additional columns, they are ignored, and the task logs one warning for
   each name.
4. If no schema is declared and a column of the files has the same name as an implicit column, the column of the files
   takes precedence in all files.

Sources: [scan-schema-tracker "Subsequent Readers and Schema Changes"], [architecture "Engine"].
"""

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import pyarrow as pa

from engine.context import ErrorContext
from engine.discovery import decode_schema, encode_schema
from engine.errors import NOWHERE, NoFilesError, PartitionError, ScanOptionError, SchemaConflictError
from engine.file_list import FILES, unpack_files
from engine.options import parse_options
from engine.packing import pack, task_bytes
from engine.projection.path import quote_name
from engine.projection.project_list import EVERYTHING, ProjectionList
from engine.readers.delimited.delimited_options import DelimitedOptions
from engine.readers.delimited.header import COLUMNS
from engine.readers.registry import reader_format
from engine.scan.implicit_columns import FileLocation, implicit_field, partition_fields
from engine.scan.missing_columns import resolve_missing_types
from engine.scan.partition_columns import find_partition_columns, partition_pairs
from engine.scan.path_filter import PathFilter, accepting
from engine.scan.reader import LateTypeFormat, ReaderFormat, SourceFile
from engine.scan.row_filter import RowFilter
from engine.scan.scan import Scan, ScanInput, ScanPlan
from engine.scan_options import ScanOptions, split_options
from engine.scan_source import ScanSource, selected_directory
from engine.schema import IMPLICIT_MARK, TupleSchema, fold_case, is_implicit
from engine.schema_tracker.initial_schema import FindImplicitColumn
from engine.schema_tracker.merging import merge_schemas
from engine.storage.files import list_files, open_file
from engine.storage.listed_file import ListedFile, OnProgress, ignore_progress
from engine.storage.open_ahead import opened_ahead
from engine.suffixes import suffix_of

_DISCOVERY_THREADS = 8
_OPENING_BYTES = 64 * 1024
_EXAMINING_BYTES = 32 * 1024
_REQUESTING_BYTES = 256 * 1024
"""The costs of opening a file and of examining one, and of the requests for a file in an object store.

They are expressed as the number of bytes that could be read in the same time.
"""
_TYPE_OF_NULLS = pa.string()


@dataclass(frozen=True, slots=True)
class FileScan:
    """A scan, as described by its options. Instances can be pickled.

    Attributes:
        source: The files to read.
        options: The options that do not depend on the format.
        reader_options: The options of the format.
        mentioned: The case-folded names that the statement contains. No other columns are needed. None for all columns.
        listed: The files of the scan, if they were listed before. None if the scan lists them itself.
    """

    source: ScanSource
    options: ScanOptions
    reader_options: Mapping[str, str] = field(default_factory=dict)
    mentioned: frozenset[str] | None = None
    listed: Sequence[ListedFile] | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """Create a scan from the options of Spark's data source.

        Raises:
            ScanOptionError: If an option is missing or invalid.
        """
        own, readers = split_options(options)
        given = {key.lower(): value for key, value in options.items()}
        listed = unpack_files(given[FILES]) if FILES in given else None
        return cls(ScanSource.from_options(options), own, readers, ScanSource.mentioned_in(options), listed)

    def list_files(self, on_progress: OnProgress = ignore_progress) -> Sequence[ListedFile]:
        """Return the files of the scan, sorted by path.

        Args:
            on_progress: Called while directories are listed.

        Raises:
            NoFilesError: If the path contains no files.
            EngineError: If a file cannot be listed.
        """
        files = self._files(on_progress)
        if not files:
            raise NoFilesError(self.source.workspace, self.source.path)
        return files

    def sample(self, files: Sequence[ListedFile]) -> Sequence[ListedFile]:
        """Return the files whose schemas are merged into the schema of the scan."""
        wanted = {"all": len(files), "sample": self.options.sample_files, "first": 1}[self.options.discovery]
        if wanted >= len(files):
            return files
        step = len(files) / wanted
        return [files[int(number * step)] for number in range(wanted)]

    def discover(self) -> TupleSchema:
        """Return the columns that the statement may need.

        The type of each column can represent the values of all files.

        Raises:
            NoFilesError: If the path contains no files.
            SchemaConflictError: If the types of a column have no common type.
            EngineError: If a file cannot be listed or read.
        """
        files = self.list_files()
        sampled = self.sample(files)
        with ThreadPoolExecutor(_DISCOVERY_THREADS, thread_name_prefix="discovery") as pool:
            schemas = [encode_schema(schema) for schema in pool.map(self.examine, map(self.open_later, sampled))]
        try:
            merged = self.merge(sampled, schemas)
        except FileConflictError as conflict:
            raise conflict.at(self.find_place(conflict.file, conflict.error.column, conflict.others)) from None
        return self.select_columns(merged, files)

    def examine(self, file: SourceFile) -> TupleSchema:
        """Return the schema of a file.

        Raises:
            EngineError: If the file cannot be read.
        """
        format_, options = self._format(file)
        return format_.discover(file, options)

    def merge(self, files: Sequence[ListedFile], schemas: Sequence[bytes]) -> TupleSchema:
        """Return a schema that can represent the rows of all files. This method opens no file.

        Args:
            files: The files, in the order of the scan.
            schemas: The encoded schema of each file.

        Raises:
            FileConflictError: If the types of a column have no common type.
        """
        first: dict[bytes, ListedFile] = {}
        for file, schema in zip(files, schemas, strict=True):
            first.setdefault(schema, file)
        distinct = [(decode_schema(schema), file) for schema, file in first.items()]
        workspace = self.source.workspace
        try:
            merged = merge_schemas((schema, ErrorContext(workspace, file.path)) for schema, file in distinct)
        except SchemaConflictError as conflict:
            number = next(number for number, (_, file) in enumerate(distinct) if file.path == conflict.context.path)
            others = merge_schemas((schema, NOWHERE) for schema, _ in distinct[:number])
            raise FileConflictError(conflict, distinct[number][1], others) from None
        return resolve_missing_types(merged, _TYPE_OF_NULLS)

    def find_place(self, file: ListedFile, column: str, others: TupleSchema) -> str:
        """Return the position in a file at which a column conflicts with other files. This method may read the file.

        Args:
            file: The file.
            column: The name of the column.
            others: The merged schema of the other files.

        Raises:
            EngineError: If the file cannot be read.
        """
        source = self.open_later(file)
        format_, options = self._format(source)
        if not isinstance(format_, LateTypeFormat):
            return "schema"
        place = format_.find_place(source, options, lambda row: _conflicts(others, row, column))
        return "" if place is None else place.position

    def discovery_groups(self) -> Iterator[Sequence[tuple[int, ListedFile]]]:
        """Group the files for tasks that examine them. Return the files of each group, with their numbers."""
        files = self._files()
        cost_bytes = self._cost_bytes(_EXAMINING_BYTES)
        target_bytes = task_bytes(sum(file.size_bytes + cost_bytes for file in files))
        sizes = ((one, min(one[1].size_bytes, target_bytes)) for one in enumerate(files))
        return pack(sizes, target_bytes, cost_bytes)

    def without_files(self) -> "FileScan":
        """Return the scan as its tasks get it. Each task gets its own files, because unpickling all takes long."""
        return replace(self, listed=())

    def select_columns(self, schema: TupleSchema, files: Sequence[ListedFile]) -> TupleSchema:
        """Return the columns that the statement contains. Implicit columns are marked as implicit.

        Args:
            schema: The columns of the files.
            files: All files of the scan.
        """
        directory = selected_directory(self.source.path)
        partitions = self._partition_columns(file.path for file in files)
        for one in partitions:
            if schema.find(one.name) is not None:
                problem = f"has directories and files with a column {one.name!r}"
                raise PartitionError(self.source.workspace, self.source.path, problem)
        if self.mentioned is None:
            one_of_each = {posixpath.dirname(file.path): file.path for file in files}.values()
            locations = [FileLocation.of(path, directory) for path in one_of_each]
            needed, implicit = list(schema), [*partitions, *partition_fields(locations)]
        else:
            needed = [one for one in schema if fold_case(one.name) in self.mentioned]
            implicit = [*partitions]
            implicit += [one for name in sorted(self.mentioned) if (one := implicit_field(name)) is not None]
        own = (one.with_metadata(IMPLICIT_MARK) for one in implicit if schema.find(one.name) is None)
        return TupleSchema([*(one.remove_metadata() for one in needed), *own])

    def open_later(self, file: ListedFile) -> SourceFile:
        """Return a listed file in the form that readers open."""
        return SourceFile(self.source.workspace, file.path, file.size_bytes, partial(open_file, self.source, file))

    def partitions(
        self, schema: TupleSchema | None = None, *, is_declared: bool = False, path_filters: Sequence[PathFilter] = ()
    ) -> Sequence[Sequence[SourceFile]]:
        """Return the files and splits that each task reads. Files that the filters exclude are not opened.

        Args:
            schema: The columns of the scan. None if there are no filters and no declared schema.
            is_declared: Whether a user has declared the schema.
            path_filters: The filters of the query. Filters on columns of the table are ignored.

        Raises:
            ScanOptionError: If the files cannot contain any column of the declared schema.
            EngineError: If a file cannot be listed or read.
        """
        columns = schema or TupleSchema()
        accepted = self._filter_files(path_filters, columns, is_declared=is_declared)
        files = [self.open_later(file) for file in accepted]
        if is_declared:
            self._check_declared(files, columns)
        cost_bytes = self._cost_bytes(_OPENING_BYTES)
        total_bytes = sum(file.size_bytes + cost_bytes for file in files)
        target_bytes = int(self.options.partition_bytes or task_bytes(total_bytes))
        large = [file for file in files if file.size_bytes > target_bytes]
        with ThreadPoolExecutor(_DISCOVERY_THREADS, thread_name_prefix="splits") as pool:
            found = pool.map(lambda file: self._splits(file, target_bytes), large)
            of_large = {file.path: splits for file, splits in zip(large, found, strict=True)}
        of_files = (of_large.get(file.path) or self._splits(file, target_bytes) for file in files)
        return list(pack((one for splits in of_files for one in splits), target_bytes, cost_bytes))

    def _filter_files(
        self, path_filters: Sequence[PathFilter], schema: TupleSchema, *, is_declared: bool
    ) -> Sequence[ListedFile]:
        """Return the files that filters accept.

        Filters on columns of the table are ignored.
        """
        files = self._files()
        if not path_filters:
            return files
        find_implicit = self._find_implicit(schema, [file.path for file in files], is_declared=is_declared)
        is_accepted = accepting(path_filters, find_implicit)
        directory = selected_directory(self.source.path)
        return [file for file in files if is_accepted(FileLocation.of(file.path, directory))]

    def batches(
        self,
        files: Sequence[SourceFile],
        schema: TupleSchema,
        *,
        is_declared: bool,
        row_filters: Sequence[RowFilter] = (),
    ) -> Iterator[pa.RecordBatch]:
        """Read one partition.

        Args:
            files: The files and splits of a partition, as returned by :meth:`partitions`.
            schema: The columns to return, in order.
            is_declared: Whether a user has declared the schema. In this case, text is converted to the declared types,
                and values of any type are converted to text.
            row_filters: The filters of the query. A row may be skipped if at least one filter is not true for the row.

        Raises:
            EngineError: If a file cannot be read. This error is raised by the iterator.
        """
        with self.opened_ahead(files) as ahead:
            yield from self._batches(ahead, schema, is_declared=is_declared, row_filters=row_filters)

    def opened_ahead(self, files: Sequence[SourceFile]) -> AbstractContextManager[Sequence[SourceFile]]:
        """Return files that are read in this order. Small files in object stores are opened ahead."""
        return opened_ahead(files) if self.source.is_remote else nullcontext(files)

    def _batches(
        self,
        files: Sequence[SourceFile],
        schema: TupleSchema,
        *,
        is_declared: bool,
        row_filters: Sequence[RowFilter],
    ) -> Iterator[pa.RecordBatch]:
        plan = ScanPlan(
            selected=selected_directory(self.source.path),
            projection=self._projection(schema, is_declared=is_declared),
            defined=schema,
            provided=schema if is_declared else None,
            row_filters=row_filters,
            find_implicit=self._find_implicit(schema, [file.path for file in files], is_declared=is_declared),
        )
        inputs = [ScanInput(file, partial(self._reader, file), suffix_of(file.path)) for file in files]
        return Scan(inputs, plan, ErrorContext(self.source.workspace)).batches()

    def _check_declared(self, files: Sequence[SourceFile], schema: TupleSchema) -> None:
        """Reject a schema that would make every value null because the option ``header`` is missing.

        Raises:
            ScanOptionError: If a file is text without a header, and the schema does not contain the only column of such
                files.
        """
        if schema.find(COLUMNS.name) is not None or all(implicit_field(one.name) is not None for one in schema):
            return
        for file in files:
            _, options = self._format(file)
            if isinstance(options, DelimitedOptions) and not options.header:
                raise ScanOptionError(
                    "schema",
                    f"has no column {COLUMNS.name!r}, but {file.path!r} is read as a text file without a header, "
                    "which has no other columns; add the option header = true, or the column",
                )

    def _cost_bytes(self, of_local_file: int) -> int:
        """Return the cost of each file, in addition to its size."""
        return _REQUESTING_BYTES if self.source.is_remote else of_local_file

    def _splits(self, file: SourceFile, target_bytes: int) -> Sequence[tuple[SourceFile, int]]:
        """Return the splits of a file, each with its size in bytes."""
        format_, options = self._format(file)
        splits = format_.splits(file, options, target_bytes)
        return [(one, file.size_bytes // len(splits)) for one in splits]

    def _find_implicit(self, schema: TupleSchema, paths: Iterable[str], *, is_declared: bool) -> FindImplicitColumn:
        """Return a function that finds the columns that come from the paths of files."""
        if not is_declared:
            return partial(_marked_field, schema)
        names = {fold_case(one.name) for one in self._partition_columns(paths)}
        return lambda name: implicit_field(name) or (schema.find(name) if fold_case(name) in names else None)

    def _partition_columns(self, paths: Iterable[str]) -> Sequence[pa.Field]:
        """Return the partition columns of files that the statement may need.

        Raises:
            PartitionError: If the files do not have the same partition columns, and the statement may need one.
        """
        found = list(paths)
        if not self.options.partitions or not any("=" in path for path in found):
            return []
        selected = selected_directory(self.source.path)
        directories = {tuple(FileLocation.of(path, selected).directories) for path in found}
        names = {fold_case(key) for each in directories for key, _ in partition_pairs(each)}
        if self.mentioned is not None and names.isdisjoint(self.mentioned):
            return []
        columns = find_partition_columns(sorted(directories), self.source.workspace, selected)
        return [one for one in columns if self.mentioned is None or fold_case(one.name) in self.mentioned]

    def _projection(self, schema: TupleSchema, *, is_declared: bool) -> ProjectionList:
        """Return the columns to project.

        These are all columns if the statement may refer to a column that is not in the schema.
        """
        if self.mentioned is None and not is_declared and len(schema):
            return EVERYTHING
        return ProjectionList.parse(quote_name(one.name) for one in schema)

    def _files(self, on_progress: OnProgress = ignore_progress) -> Sequence[ListedFile]:
        if self.listed is not None:
            return self.listed
        return list_files(self.source, any_suffix=self.options.format is not None, on_progress=on_progress)

    def _format(self, file: SourceFile) -> tuple[ReaderFormat, Any]:
        format_ = reader_format(file, self.options.format)
        return format_, parse_options(format_.options, self.reader_options)

    def _reader(self, file: SourceFile) -> Any:
        format_, options = self._format(file)
        return format_.reader(file, options)


class FileConflictError(Exception):
    """Raised if the schema of a file conflicts with the files before it, before its position in the file is known.

    Attributes:
        error: The conflict.
        file: The file.
        others: The merged schema of the files before it.
    """

    def __init__(self, error: SchemaConflictError, file: ListedFile, others: TupleSchema) -> None:
        super().__init__(str(error))
        self.error = error
        self.file = file
        self.others = others

    def at(self, position: str) -> SchemaConflictError:
        """Return the conflict with its position in the file. The position may be empty."""
        return self.error.at(position) if position else self.error


def _marked_field(schema: TupleSchema, name: str) -> pa.Field | None:
    """Return the implicit column with a name if the schema marks the column as implicit."""
    field = schema.find(name)
    return (implicit_field(name) or field) if field is not None and is_implicit(field) else None


def _conflicts(one: TupleSchema, other: TupleSchema, column: str) -> bool:
    """Return whether two schemas conflict in the given column."""
    try:
        merge_schemas((schema, NOWHERE) for schema in (one, other))
    except SchemaConflictError as conflict:
        return fold_case(conflict.column) == fold_case(column)
    return False
