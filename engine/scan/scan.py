"""A scan: the files of one selection, read one after the other, as batches of one schema.

Guarantees:

1. Every batch has the output schema that was agreed on when it was made. It changes only where schema changes are
   allowed, and ``schema_version`` grows only when it does (seed 004, levels 2-4).
2. A reader is opened when the one before it is closed, and none is opened after the scan's limit is reached.
3. If no file has a row, but a schema is known, there is one batch without rows.

Source: seed 002; seed 004; drill-behaviours, D3.
"""

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
from engine.scan.reader import RowBatchReader, SourceFile
from engine.scan.reader_lifecycle import read_batches
from engine.scan.row_filter import RowFilter
from engine.schema import TupleSchema
from engine.schema_tracker.initial_schema import FindImplicitColumn
from engine.schema_tracker.tracker import ScanSchemaTracker, create_tracker


@dataclass(frozen=True, slots=True)
class ScanInput:
    """One file, or a range of one, and how to read it.

    Attributes:
        file: What to read.
        make_reader: Makes a new reader of it.
    """

    file: SourceFile
    make_reader: Callable[[], RowBatchReader]


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """What a scan is to give.

    Attributes:
        selected: The file, or the directory above all files, that was selected; relative to the workspace.
        projection: The columns that the query wants.
        defined: The output schema, if it is decided already; else None.
        provided: Types that a user declares for some columns.
        is_strict: The provided schema says too that there are no other columns.
        allows_schema_change: Later readers may add columns.
        missing_type: Of a column that no reader has given a type to.
        limits: Of each batch, and of the scan.
        row_filters: Rows for which one of these is not true may be left out.
        find_implicit: Knows the implicit columns by name.
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
        inputs: The files.
        plan: What is wanted of them.
        context: For errors that are of no file.
    """

    def __init__(self, inputs: Sequence[ScanInput], plan: ScanPlan, context: ErrorContext) -> None:
        self._inputs = inputs
        self._plan = plan
        self._locations = [FileLocation.of(one.file.path, plan.selected) for one in inputs]
        self._tracker = _tracker(plan, self._locations, context)
        self._implicit = self._tracker.apply_implicit_cols()
        self._rows = 0

    @property
    def schema(self) -> TupleSchema:
        """The output schema as far as it is known."""
        return self._tracker.output_schema()

    @property
    def schema_version(self) -> int:
        return self._tracker.schema_version()

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Raises: EngineError."""
        limit = self._plan.limits.scan_rows
        had_batch = False
        for number, (one, location) in enumerate(zip(self._inputs, self._locations, strict=True)):
            if number and limit is not None and self._rows >= limit:
                break
            with closing(self._file_batches(one, location)) as batches:
                for batch in batches:
                    if batch.num_rows or not had_batch:
                        had_batch = True
                        self._rows += batch.num_rows
                        yield batch
        if not had_batch and len(self.schema) and self._tracker.is_resolved():
            yield pa.RecordBatch.from_pylist([], self.schema.to_arrow())

    def _file_batches(self, one: ScanInput, location: FileLocation) -> Generator[pa.RecordBatch, None, None]:
        context = one.file.context
        negotiator = ScanNegotiator(self._wanted(context), context)
        last: pa.Schema | None = None
        with closing(read_batches(one.make_reader, negotiator)) as batches:
            for batch in batches:
                if last is None or not batch.schema.equals(last):
                    last = batch.schema
                    self._resolve(TupleSchema.of(last), context)
                yield build_output_batch(self._tracker.output_schema(), batch, self._implicit, location)

    def _resolve(self, given: TupleSchema, context: ErrorContext) -> None:
        """Takes a batch's schema into the scan's."""
        self._tracker.apply_reader_schema(given, context)
        missing = self._tracker.missing_columns(given)
        self._tracker.resolve_missing_cols(resolve_missing_types(missing, self._plan.missing_type))

    def _wanted(self, context: ErrorContext) -> ReaderRequest:
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


def _tracker(plan: ScanPlan, locations: Iterable[FileLocation], context: ErrorContext) -> ScanSchemaTracker:
    """A tracker that knows the implicit columns (the query selection phase)."""
    tracker = create_tracker(
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
