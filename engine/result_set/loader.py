"""The result set loader: rows or arrays in, batches out, all within the limits (seeds 000 and 003).

    loader = ResultSetLoader()
    loader.writer.add_column(pa.field("n", pa.int64()))
    loader.start_batch()
    while not loader.is_full and more:
        loader.writer.start_row()
        loader.writer.column(0).set_int(7)
        loader.writer.save_row()
    batch = loader.harvest()

Guarantees:

1. Every saved or appended row is in exactly one batch, unchanged and in order; rows behind ``scan_rows`` are not.
2. No batch is larger than its limits. A row that alone is larger is a ValueTooLargeError.
3. Buffers of rows that were written, and of one appended slice, are handed over without a copy, booleans and
   validity aside, which are packed. Only the overflow row's own values are moved.
4. Writers are the same objects for all batches.

Not guaranteed: that rows written and arrays appended in one batch are not copied when they are put together. A
loader is used by one thread.
"""

from dataclasses import replace

import pyarrow as pa

from engine.context import ErrorContext
from engine.errors import NOWHERE, LoaderStateError, ValueTooLargeError
from engine.limits import BatchLimits
from engine.projection.filter import PROJECT_ALL, ProjectionFilter
from engine.result_set.batch_state import BatchState
from engine.result_set.bulk import add_columns, align_batch, batch_without_columns, join_batches, to_batches
from engine.result_set.sizes import Sizes, batch_sizes, rows_that_fit
from engine.result_set.writers.rows import RowWriter
from engine.schema import TupleSchema

_MOST_VECTOR_BYTES = 2**30 - 1
"""Twice as much, while a row is being written, must still have 32-bit offsets."""


class ResultSetLoader:
    def __init__(
        self,
        *,
        schema: TupleSchema = TupleSchema(),  # noqa: B008 - immutable
        projection: ProjectionFilter = PROJECT_ALL,
        limits: BatchLimits = BatchLimits(),  # noqa: B008 - immutable
        context: ErrorContext = NOWHERE,
    ) -> None:
        """``schema`` is the reader's, as far as it is known before the first row; it goes through ``projection``."""
        self._limits = replace(limits, vector_bytes=min(limits.vector_bytes, _MOST_VECTOR_BYTES))
        self._batch = BatchState(self._limits, context)
        self._writer = RowWriter(self._batch, projection)
        self._parts: list[pa.RecordBatch] = []
        self._part_sizes = Sizes()
        self._part_schema: pa.Schema | None = None
        self._look_ahead: list[pa.RecordBatch] = []
        self._harvested_rows = 0
        self._harvested_schema: TupleSchema | None = None
        self._schema_version = 0
        self._most_rows = 0
        self._is_active = False
        self._is_closed = False
        for field in schema:
            self._writer.add_column(field)

    @property
    def writer(self) -> RowWriter:
        return self._writer

    @property
    def schema(self) -> TupleSchema:
        """The columns of the active batch; those that came with the overflow row are in the next one."""
        return TupleSchema(self._writer.columns.visible_fields())

    @property
    def schema_version(self) -> int:
        """Grows when a harvested batch shows a column or type that the one before did not; 0 before the first."""
        return self._schema_version

    @property
    def context(self) -> ErrorContext:
        """Where the reader is; errors carry it."""
        return self._batch.context

    @context.setter
    def context(self, context: ErrorContext) -> None:
        self._batch.context = context

    @property
    def is_batch_active(self) -> bool:
        return self._is_active

    @property
    def is_full(self) -> bool:
        """Whether the active batch takes no more rows."""
        return bool(self._look_ahead) or self._writer.is_full

    @property
    def row_count(self) -> int:
        """Rows of the active batch, without look-ahead."""
        return self._batch.rows

    @property
    def total_rows(self) -> int:
        """Rows of all batches so far, the active one included."""
        return self._harvested_rows + self._batch.rows

    @property
    def is_at_scan_limit(self) -> bool:
        """Whether all rows are there that the scan wants. With ``scan_rows`` 0, one batch has to start first."""
        limit = self._limits.scan_rows
        has_started = self._is_active or self._harvested_schema is not None
        return limit is not None and has_started and self.total_rows >= limit

    @property
    def has_look_ahead(self) -> bool:
        """Whether rows wait for the next batch."""
        return bool(self._look_ahead) or self._writer.has_overflow

    def start_batch(self, rows: int | None = None) -> None:
        """Begins a batch with the rows that wait; it may be full with these.

        Args:
            rows: A lower limit of rows for this batch; below 1 it is 1.

        Raises: LoaderStateError if a batch is active, the loader is closed, or the scan has all its rows.
        """
        if self._is_closed:
            raise LoaderStateError("A batch was started in a loader that is closed.")
        if self._is_active:
            raise LoaderStateError("A batch was started while one is active: harvest it first.")
        if self.is_at_scan_limit:
            raise LoaderStateError(f"A batch was started after all {self._limits.scan_rows} rows of the scan.")
        self._most_rows = self._row_limit(rows)
        self._writer.start_batch(self._most_rows)
        self._is_active = True
        waiting, self._look_ahead = self._look_ahead, []
        for batch in waiting:
            self._admit(batch)

    def append(self, data: pa.RecordBatch | pa.Table) -> None:
        """Adds rows in bulk: all of them; what does not fit is the start of the next batches.

        Columns are found by name in any letter case. New ones are added; those that are missing are filled.

        Raises:
            LoaderStateError: No batch is active, it is full, or a row is being written.
            ColumnError: See :mod:`engine.result_set.conversion.convert`; nothing was added then but columns.
        """
        self._check_takes_rows()
        batches = to_batches(data)
        add_columns(self._writer.columns, data.schema, self.context)
        self._seal()
        fields = self._writer.columns.visible_fields()
        for batch in [align_batch(batch, fields, self.context) for batch in batches]:
            self._admit(batch)

    def skip_rows(self, count: int) -> None:
        """Counts rows without writing them, where no column is projected.

        Raises: LoaderStateError as ``append`` does, and if there are columns whose values would be missing.
        """
        self._check_takes_rows()
        if len(self.schema):
            raise LoaderStateError("Rows were skipped although columns are projected: write them instead.")
        self._seal()
        self._admit(batch_without_columns(count))

    def harvest(self) -> pa.RecordBatch:
        """Ends the batch. A row that was not saved is given up.

        Returns: Its rows. Without columns it has a number of rows all the same.

        Raises: LoaderStateError if no batch is active.
        """
        if not self._is_active:
            raise LoaderStateError("A batch was harvested that was not started.")
        self._writer.abandon_row()
        self._hide_new_columns()
        schema = self.schema
        batch = self._taken(schema)
        self._harvested_rows += batch.num_rows
        self._writer.end_batch()
        self._is_active = False
        if schema != (self._harvested_schema or TupleSchema()):
            self._schema_version += 1
        self._harvested_schema = schema
        return batch

    def close(self) -> None:
        """Gives up what was not harvested, and all memory. May be called twice."""
        self._is_closed = True
        self._is_active = False
        self._parts = []
        self._look_ahead = []
        self._writer.close()

    def _row_limit(self, rows: int | None) -> int:
        limit = self._limits.rows if rows is None else min(self._limits.rows, max(rows, 1))
        if self._limits.scan_rows is None:
            return limit
        return max(min(limit, self._limits.scan_rows - self._harvested_rows), 0)

    def _check_takes_rows(self) -> None:
        if not self._is_active:
            raise LoaderStateError("Rows were appended without a batch: call start_batch first.")
        if self.is_full:
            raise LoaderStateError("Rows were appended to a full batch: ask is_full before, and harvest.")
        if self._writer.is_in_row:
            raise LoaderStateError("Rows were appended while one was being written: save it first.")

    def _admit(self, batch: pa.RecordBatch) -> None:
        """Takes the rows that fit, after those that wait already; the others wait."""
        batch = self._within_scan_limit(batch)
        if self._look_ahead:
            self._look_ahead.append(batch)
            return
        used = self._used()
        fitting = rows_that_fit(batch, self._most_rows - self._batch.rows, used, self._limits)
        if fitting == 0 and batch.num_rows and self._batch.rows == 0 < self._most_rows:
            column, size_bytes, limit_bytes = batch_sizes(batch, 0, 1).excess(self._limits) or ("", 0, 0)
            raise ValueTooLargeError(column, size_bytes, limit_bytes, self.context)
        if fitting:
            self._keep(batch.slice(0, fitting))
            self._batch.rows += fitting
        self._writer.set_appended(used)
        if fitting < batch.num_rows:
            self._look_ahead.append(batch.slice(fitting))

    def _within_scan_limit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._limits.scan_rows is None:
            return batch
        waiting = sum(one.num_rows for one in self._look_ahead)
        return batch.slice(0, self._limits.scan_rows - self.total_rows - waiting)

    def _used(self) -> Sizes:
        """What the parts take, with columns that came later filled in."""
        fields = self._writer.columns.visible_fields()
        schema = pa.schema(fields)
        if self._part_schema is None or not schema.equals(self._part_schema):
            self._part_schema = schema
            self._parts = [align_batch(part, fields, self.context) for part in self._parts]
            self._part_sizes = Sizes()
            for part in self._parts:
                self._part_sizes.add_all(batch_sizes(part, 0, part.num_rows))
        return self._part_sizes

    def _seal(self) -> None:
        """Makes written rows a part of the batch, so that what follows stands behind them."""
        if self._writer.vector_rows:
            fields = self._writer.columns.visible_fields()
            self._keep(self._written(fields))

    def _keep(self, part: pa.RecordBatch) -> None:
        self._used().add_all(batch_sizes(part, 0, part.num_rows))
        self._parts.append(part)

    def _written(self, fields: list[pa.Field]) -> pa.RecordBatch:
        rows = self._writer.vector_rows
        arrays = self._writer.harvest()
        if not fields:
            return batch_without_columns(rows)
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _hide_new_columns(self) -> None:
        """Columns that came with rows of which none is in this batch wait together with them."""
        if self._look_ahead:
            self._batch.hidden_row = self._batch.rows
        else:
            self._writer.hide_excess_columns()

    def _taken(self, schema: TupleSchema) -> pa.RecordBatch:
        fields = list(schema)
        parts = [align_batch(part, fields, self.context) for part in self._parts]
        if self._writer.vector_rows or not parts:
            parts.append(self._written(fields))
        self._parts = []
        self._part_schema = None
        return join_batches(parts)
