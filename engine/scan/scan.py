"""A scan, which reads a sequence of files with a single schema.

A scan follows [scan-schema-tracker] and [scan-framework].

Guarantees:

1. Every batch has the output schema at the time of its creation. The schema changes only if schema changes are allowed.
   ``schema_version`` increases only when the schema changes (levels 2 to 4 of [scan-framework "Schema Evolution"]).
2. A reader is opened only after the previous reader has been closed. No file is opened after the scan has reached its
   limit.
3. If no file contains rows but the schema is known, the scan produces one batch without rows.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import pyarrow as pa

from engine.context import ErrorContext
from engine.limits import BatchLimits
from engine.projection.project_list import EVERYTHING, ProjectionList
from engine.scan.implicit_columns import FileLocation, implicit_field, partition_fields
from engine.scan.missing_columns import resolve_missing_types
from engine.scan.negotiator import ReaderRequest, ScanNegotiator
from engine.scan.output_batch import build_output_batch
from engine.scan.reader import ContinuingReader, RowBatchReader, SourceFile
from engine.scan.reader_lifecycle import read_batches
from engine.scan.row_filter import RowFilter
from engine.scan_source import IMPLICIT_NAME
from engine.schema import TupleSchema
from engine.schema_tracker.initial_schema import FindImplicitColumn
from engine.schema_tracker.tracker import ScanSchemaTracker

_FIRST_FILES = 8
"""The maximum number of files of the first reader. Each further reader may read twice as many.

So a query that needs few rows does not wait until a batch is full of the rows of hundreds of files. If a reader cannot
continue with a file, the next reader does not try, because files often alternate.
"""


@dataclass(frozen=True, slots=True)
class ScanInput:
    """A file, or a range of a file, together with its reader.

    Attributes:
        file: The file or range to read.
        make_reader: Creates a new reader for the file or range.
        kind: A text that is equal for files with the same format and options. One reader may then read several of them.
            Empty if only a new reader can read the file.
    """

    file: SourceFile
    make_reader: Callable[[], RowBatchReader]
    kind: str = ""


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """Description of the batches that a scan produces.

    Attributes:
        selected: The selected path, relative to the workspace. It is either the file itself or a directory above all
            files.
        projection: The columns that the query selects.
        defined: The output schema, if the planner knows it.
        provided: The types that the user declares for some columns.
        is_strict: Whether the table has only the columns of the provided schema.
        allows_schema_change: Whether readers after the first may add columns.
        missing_type: The type of columns for which no reader provides a type.
        limits: The limits of each batch, and of the scan.
        row_filters: Filters that allow readers to skip rows.
        find_implicit: Finds implicit columns by name.
    """

    selected: str
    projection: ProjectionList = EVERYTHING
    defined: TupleSchema | None = None
    provided: TupleSchema | None = None
    is_strict: bool = False
    allows_schema_change: bool = False
    missing_type: pa.DataType = field(default_factory=pa.string)
    limits: BatchLimits = field(default_factory=BatchLimits)
    row_filters: Sequence[RowFilter] = ()
    find_implicit: FindImplicitColumn = implicit_field


class Scan:
    """Reads its inputs once, in order.

    Args:
        inputs: The files to read.
        plan: The description of the batches to produce.
        context: The context of errors that do not concern a specific file.
    """

    def __init__(self, inputs: Sequence[ScanInput], plan: ScanPlan, context: ErrorContext) -> None:
        self._inputs = inputs
        self._plan = plan
        self._locations = [FileLocation.of(one.file.path, plan.selected) for one in inputs]
        self._tracker = _create_tracker(plan, self._locations, context)
        self._implicit = self._tracker.apply_implicit_cols()
        self._implicit_names = [field.name for field in self._implicit if IMPLICIT_NAME.fullmatch(field.name)]
        self._rows = 0
        self._most_files = _FIRST_FILES

    @property
    def schema(self) -> TupleSchema:
        """The part of the output schema that is known so far."""
        return self._tracker.output_schema()

    @property
    def schema_version(self) -> int:
        """The version of the output schema."""
        return self._tracker.schema_version()

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Read all inputs, batch by batch.

        Raises:
            EngineError: If a file cannot be read, or its columns do not match the schema.
        """
        limit = self._plan.limits.scan_rows
        had_batch = False
        waiting = deque(zip(self._inputs, self._locations, strict=True))
        while waiting:
            if len(waiting) < len(self._inputs) and limit is not None and self._rows >= limit:
                break
            with closing(self._read_files(waiting)) as batches:
                for batch in batches:
                    if batch.num_rows or not had_batch:
                        had_batch = True
                        self._rows += batch.num_rows
                        yield batch
        if not had_batch and len(self.schema) and self._tracker.is_resolved():
            yield pa.RecordBatch.from_pylist([], self.schema.to_arrow())

    def _read_files(self, waiting: deque[tuple[ScanInput, FileLocation]]) -> Generator[pa.RecordBatch, None, None]:
        """Read the first waiting file, and those that the same reader can read after it, and remove them."""
        one, location = waiting.popleft()
        context = one.file.context
        negotiator = ScanNegotiator(self._request(context), context)
        last: pa.Schema | None = None

        count, most_files = 1, self._most_files
        self._most_files *= 2
        continuing: ContinuingReader | None = None

        def proceed(reader: RowBatchReader) -> bool:
            nonlocal count, continuing
            if not waiting or count >= most_files:
                return False
            if continuing is None:  # the check of a protocol takes as long as opening a file
                if not isinstance(reader, ContinuingReader):
                    return False
                continuing = reader
            following, place = waiting[0]
            if not following.kind or following.kind != one.kind or not self._are_alike(location, place):
                return False
            is_whole = following.file.start == 0 and following.file.end is None
            loader, before = negotiator.loader, negotiator.loader.context
            loader.context = following.file.context
            if not is_whole or not continuing.proceed(following.file):
                loader.context = before
                self._most_files = 1
                return False
            waiting.popleft()
            count += 1
            return True

        with closing(read_batches(one.make_reader, negotiator, proceed)) as batches:
            for batch in batches:
                if last is None or not batch.schema.equals(last):
                    last = batch.schema
                    self._apply_schema(TupleSchema.of(last), context)
                yield build_output_batch(self._tracker.output_schema(), batch, self._implicit, location)

    def _are_alike(self, one: FileLocation, other: FileLocation) -> bool:
        """Return whether the implicit columns of two files have the same values."""
        is_same_place = not self._implicit or one.directories == other.directories
        return is_same_place and all(one.value(name) == other.value(name) for name in self._implicit_names)

    def _apply_schema(self, schema: TupleSchema, context: ErrorContext) -> None:
        """Merge the schema of a batch into the scan's schema, and resolve missing columns."""
        self._tracker.apply_reader_schema(schema, context)
        missing = self._tracker.missing_columns(schema)
        self._tracker.resolve_missing_cols(resolve_missing_types(missing, self._plan.missing_type))

    def _request(self, context: ErrorContext) -> ReaderRequest:
        limits = self._plan.limits
        if limits.scan_rows is not None:
            limits = replace(limits, scan_rows=limits.scan_rows - self._rows)
        return ReaderRequest(
            self._tracker.reader_input_schema(),
            self._tracker.projection_filter(context),
            lambda name: self._tracker.column_projection(name) is not None,
            limits,
            self._plan.row_filters,
            lambda schema: self._tracker.apply_early_reader_schema(schema, context),
        )


def _create_tracker(plan: ScanPlan, locations: Iterable[FileLocation], context: ErrorContext) -> ScanSchemaTracker:
    """Create a tracker with the implicit columns and partition columns of the scan."""
    tracker = ScanSchemaTracker(
        plan.projection,
        defined=plan.defined,
        provided=plan.provided,
        is_strict=plan.is_strict,
        allows_schema_change=plan.allows_schema_change,
        find_implicit=plan.find_implicit,
        context=context,
    )
    if tracker.has_wildcard():
        for partition in partition_fields(locations):
            tracker.expand_implicit_col(partition)
    return tracker
