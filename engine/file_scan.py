"""A scan of the files of a workspace: which files, with which readers, of which schema, in which parts.

Why it exists: Spark runs a scan in many tasks on several machines. What they must agree on is decided here, before
the first task starts: the files, their parts, and the schema, which is the commit point for all of them.

Guarantees:

1. With discovery ``all``, the schema holds what every file has, or there is an error that names the file at odds; no
   column is lost unasked.
2. The parts of a scan are together all of its files, each byte once.
3. A task reads by the schema alone. What a file has beside it is left out, with one warning a name and task.
4. Where no schema is declared, a column of the files wins over the implicit column of its name, in all files.

Source: seed 002, "Subsequent Readers and Schema Changes"; design, "Engine".
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import pyarrow as pa

from engine.context import ErrorContext
from engine.errors import NOWHERE, NoFilesError, ScanOptionError, SchemaConflictError
from engine.files import list_files, open_file, size_of
from engine.packing import pack, task_bytes
from engine.projection.path import quote_name
from engine.projection.project_list import EVERYTHING, ProjectionList
from engine.readers.delimited.header import COLUMNS
from engine.readers.delimited.options import DelimitedOptions
from engine.readers.registry import reader_format
from engine.scan.implicit_columns import FileLocation, implicit_field, partition_fields
from engine.scan.missing_columns import resolve_missing_types
from engine.scan.reader import LateTypeFormat, ReaderFormat, SourceFile
from engine.scan.row_filter import RowFilter
from engine.scan.scan import Scan, ScanInput, ScanPlan
from engine.scan_options import ScanOptions, split_options, validated
from engine.scan_source import ScanSource, selected_directory
from engine.schema import IMPLICIT_MARK, TupleSchema, fold_case, is_implicit
from engine.schema_tracker.merging import merge_schemas

_DISCOVERY_THREADS = 8
_OPENING_BYTES = 1024 * 1024
_TYPE_OF_NULLS = pa.string()


@dataclass(frozen=True, slots=True)
class FileScan:
    """One scan, as options describe it. Can be pickled.

    Attributes:
        source: What it reads.
        options: How, as far as that does not depend on the format.
        reader_options: How, for the format.
        mentioned: Names, case folded, outside of which no column is needed; None for all columns.
    """

    source: ScanSource
    options: ScanOptions
    reader_options: Mapping[str, str] = field(default_factory=dict)
    mentioned: frozenset[str] | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """Raises: ScanOptionError."""
        own, readers = split_options(options)
        return cls(ScanSource.from_options(options), own, readers, ScanSource.mentioned_in(options))

    def discover(self) -> TupleSchema:
        """The columns that the statement may need, each with the type that holds it in all files.

        Raises:
            EngineError.
        """
        files = self._files()
        if not files:
            raise NoFilesError(self.source.workspace, self.source.path)
        asked = self._asked(files)
        with ThreadPoolExecutor(_DISCOVERY_THREADS, thread_name_prefix="discovery") as pool:
            schemas = list(pool.map(self._schema_of, asked))
        try:
            merged = _merged(asked, schemas)
        except SchemaConflictError as conflict:
            number = next(number for number, file in enumerate(asked) if file.context == conflict.context)
            others = _merged(asked[:number], schemas[:number])
            raise self._placed(conflict, asked[number], others) from None
        return self._needed(resolve_missing_types(merged, _TYPE_OF_NULLS), [self._location(file) for file in files])

    def parts(self) -> Sequence[Sequence[SourceFile]]:
        """What each task reads.

        Raises:
            EngineError.
        """
        files = self._files()
        target_bytes = int(self.options.partition_bytes or task_bytes(sum(file.size_bytes for file in files)))
        with ThreadPoolExecutor(_DISCOVERY_THREADS, thread_name_prefix="splits") as pool:
            split = pool.map(lambda file: self._ranges(file, target_bytes), files)
            sized = [one for ranges in split for one in ranges]
        return list(pack(sized, target_bytes, _OPENING_BYTES))

    def batches(
        self,
        files: Sequence[SourceFile],
        schema: TupleSchema,
        *,
        is_declared: bool,
        row_filters: Sequence[RowFilter] = (),
    ) -> Iterator[pa.RecordBatch]:
        """What a task reads.

        Args:
            files: One of :meth:`parts`.
            schema: The columns that are wanted, in order.
            is_declared: A user has declared the schema, so text becomes its types, and any type text.
            row_filters: Rows for which one of these is not true may be left out.
        """
        if is_declared:
            self._check_declared(files, schema)
        plan = ScanPlan(
            selected=selected_directory(self.source.path),
            projection=self._projection(schema, is_declared=is_declared),
            defined=schema,
            provided=schema if is_declared else None,
            row_filters=row_filters,
            find_implicit=implicit_field if is_declared else partial(_marked_field, schema),
        )
        inputs = [ScanInput(file, partial(self._reader, file)) for file in files]
        return Scan(inputs, plan, ErrorContext(self.source.workspace)).batches()

    def _placed(self, conflict: SchemaConflictError, file: SourceFile, others: TupleSchema) -> SchemaConflictError:
        """The conflict with its place in the file.

        Args:
            conflict: Of the file with those before it.
            file: The one at odds.
            others: What those before it have.
        """
        format_, options = self._format(file)
        if not isinstance(format_, LateTypeFormat):
            return conflict.at("schema")
        place = format_.first_place(file, options, lambda row: _conflicts(others, row, conflict.column))
        return conflict if place is None else conflict.at(place.position)

    def _check_declared(self, files: Sequence[SourceFile], schema: TupleSchema) -> None:
        """Refuses a schema whose every value would be null, as of a header that nobody told of.

        Raises:
            ScanOptionError.
        """
        if schema.find(COLUMNS.name) is not None or all(implicit_field(one.name) is not None for one in schema):
            return
        for file in files:
            _, options = self._format(file)
            if isinstance(options, DelimitedOptions) and not options.header:
                raise ScanOptionError(
                    "schema",
                    f"has no column {COLUMNS.name!r}, and text files without header, as {file.path!r} is taken for, "
                    "have no other: add the option header = true, or the column",
                )

    def _ranges(self, file: SourceFile, target_bytes: int) -> Sequence[tuple[SourceFile, int]]:
        format_, options = self._format(file)
        ranges = format_.splits(file, options, target_bytes)
        return [(one, file.size_bytes // len(ranges)) for one in ranges]

    def _projection(self, schema: TupleSchema, *, is_declared: bool) -> ProjectionList:
        """Everything, where a column beside the schema is one that the statement may have wanted."""
        if self.mentioned is None and not is_declared and len(schema):
            return EVERYTHING
        return ProjectionList.parse(quote_name(one.name) for one in schema)

    def _files(self) -> Sequence[SourceFile]:
        workspace = self.source.workspace
        return [
            SourceFile(workspace, path, size_of(self.source, path), partial(open_file, self.source, path))
            for path in list_files(self.source, any_suffix=self.options.format is not None)
        ]

    def _asked(self, files: Sequence[SourceFile]) -> Sequence[SourceFile]:
        """The files whose schemas count."""
        wanted = {"all": len(files), "sample": self.options.sample_files, "first": 1}[self.options.discovery]
        if wanted >= len(files):
            return files
        step = len(files) / wanted
        return [files[int(number * step)] for number in range(wanted)]

    def _needed(self, schema: TupleSchema, locations: Sequence[FileLocation]) -> TupleSchema:
        """Without columns that nobody mentions; with implicit columns that somebody does, marked as such."""
        if self.mentioned is None:
            needed, implicit = list(schema), list(partition_fields(locations))
        else:
            needed = [one for one in schema if fold_case(one.name) in self.mentioned]
            implicit = [one for name in sorted(self.mentioned) if (one := implicit_field(name)) is not None]
        own = (one.with_metadata(IMPLICIT_MARK) for one in implicit if schema.find(one.name) is None)
        return TupleSchema([*(one.remove_metadata() for one in needed), *own])

    def _location(self, file: SourceFile) -> FileLocation:
        return FileLocation.of(file.path, selected_directory(self.source.path))

    def _format(self, file: SourceFile) -> tuple[ReaderFormat, Any]:
        format_ = reader_format(file, self.options.format)
        return format_, validated(format_.options, self.reader_options)

    def _schema_of(self, file: SourceFile) -> TupleSchema:
        format_, options = self._format(file)
        return format_.discover(file, options)

    def _reader(self, file: SourceFile) -> Any:
        format_, options = self._format(file)
        return format_.reader(file, options)


def _marked_field(schema: TupleSchema, name: str) -> pa.Field | None:
    """The implicit column of that name, if the schema has it as one."""
    field = schema.find(name)
    return implicit_field(name) if field is not None and is_implicit(field) else None


def _merged(files: Sequence[SourceFile], schemas: Sequence[TupleSchema]) -> TupleSchema:
    return merge_schemas((schema, file.context) for schema, file in zip(schemas, files, strict=True))


def _conflicts(one: TupleSchema, other: TupleSchema, column: str) -> bool:
    """Whether two schemas are at odds about that column."""
    try:
        merge_schemas((schema, NOWHERE) for schema in (one, other))
    except SchemaConflictError as conflict:
        return fold_case(conflict.column) == fold_case(column)
    return False
