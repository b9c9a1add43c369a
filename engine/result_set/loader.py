"""The result set loader, which turns rows or arrays into batches within limits.

The loader implements [result-set-loader] and [result-set-impl].

    loader = ResultSetLoader()
    loader.writer.add_column(pa.field("n", pa.int64()))
    loader.start_batch()
    while not loader.is_full and more:
        loader.writer.start_row()
        loader.writer.column(0).set_int(7)
        loader.writer.save_row()
    batch = loader.harvest()

Guarantees:

1. Every saved or appended row is in exactly one batch, unchanged and in order. Rows beyond ``scan_rows`` are dropped.
2. No batch exceeds its limits. If a single row exceeds the limits, the loader raises ``ValueTooLargeError``.
3. The buffers of written rows, and of a single appended slice, are passed to the batch without a copy. The exceptions
   are booleans and validity, which are packed into bits, and the values of the overflow row, which are moved.
4. The writers remain the same objects for all batches.

Not guaranteed: a batch that contains both written rows and appended arrays may copy its values.

A loader is not thread-safe.
"""

from dataclasses import replace

import pyarrow as pa

from engine.context import ErrorContext
from engine.errors import NOWHERE, LoaderStateError, ValueTooLargeError
from engine.limits import BatchLimits
from engine.projection.filter import PROJECT_ALL, ProjectionFilter
from engine.result_set.batch_state import BatchState
from engine.result_set.bulk import add_columns, align_batch, batch_without_columns, join_batches, to_batches
from engine.result_set.parts import AppendedParts
from engine.result_set.sizes import Sizes, batch_sizes, measure_fitting_rows
from engine.result_set.writers.rows import RowWriter
from engine.schema import TupleSchema

_MAX_VECTOR_BYTES = 2**30 - 1
"""The maximum of ``vector_bytes``.

A vector may grow to twice this size while a row is written, and its offsets must still fit into 32 bits.
"""


class ResultSetLoader:
    """Builds record batches from the rows or arrays of a reader.

    Args:
        schema: The reader's schema, as far as it is known before the first row. Its columns are subject to
            ``projection``.
        projection: Decides which columns the batches contain, and with which types.
        limits: The limits of each batch and of the scan.
        context: The source that the reader is reading. Error messages include it.
    """

    def __init__(
        self,
        *,
        schema: TupleSchema = TupleSchema(),  # noqa: B008 - immutable
        projection: ProjectionFilter = PROJECT_ALL,
        limits: BatchLimits = BatchLimits(),  # noqa: B008 - immutable
        context: ErrorContext = NOWHERE,
    ) -> None:
        self._limits = replace(limits, vector_bytes=min(limits.vector_bytes, _MAX_VECTOR_BYTES))
        self._batch = BatchState(self._limits, context)
        self._writer = RowWriter(self._batch, projection)
        self._parts = AppendedParts(self._limits)
        self._offered: pa.Schema | None = None
        self._look_ahead: list[pa.RecordBatch] = []
        self._harvested_rows = 0
        self._harvested_schema: TupleSchema | None = None
        self._schema_version = 0
        self._max_rows = 0
        self._is_active = False
        self._is_closed = False
        for field in schema:
            self._writer.add_column(field)

    @property
    def writer(self) -> RowWriter:
        """The writer that adds rows to the active batch."""
        return self._writer

    @property
    def schema(self) -> TupleSchema:
        """The columns of the active batch.

        Columns that were added with the overflow row are not included. They appear in the next batch.
        """
        return TupleSchema(self._writer.columns.visible_fields())

    @property
    def schema_version(self) -> int:
        """The version of the schema of harvested batches.

        The version starts at 0. It increases when a harvested batch contains a new column or a new type.
        """
        return self._schema_version

    @property
    def context(self) -> ErrorContext:
        """The source that the reader is reading. Error messages include it."""
        return self._batch.context

    @context.setter
    def context(self, context: ErrorContext) -> None:
        self._batch.context = context

    @property
    def is_full(self) -> bool:
        """Whether the active batch is full and does not accept more rows."""
        return bool(self._look_ahead) or self._writer.is_full

    @property
    def row_count(self) -> int:
        """The number of rows in the active batch, without the look-ahead."""
        return self._batch.rows

    @property
    def total_rows(self) -> int:
        """The number of rows in all batches so far, including the active batch."""
        return self._harvested_rows + self._batch.rows

    @property
    def is_at_scan_limit(self) -> bool:
        """Whether the scan has reached its row limit, ``scan_rows``.

        If ``scan_rows`` is 0, the value is true as soon as the first batch has started.
        """
        limit = self._limits.scan_rows
        has_started = self._is_active or self._harvested_schema is not None
        return limit is not None and has_started and self.total_rows >= limit

    @property
    def has_look_ahead(self) -> bool:
        """Whether there are rows that belong to the next batch."""
        return bool(self._look_ahead) or self._writer.has_overflow

    def start_batch(self, rows: int | None = None) -> None:
        """Start a batch. Rows that did not fit into the previous batch are added first.

        These rows alone may fill the new batch.

        Args:
            rows: A lower row limit for this batch only. Values less than 1 count as 1.

        Raises:
            LoaderStateError: If a batch is already active, the loader is closed, or the scan has reached its row limit.
        """
        if self._is_closed:
            raise LoaderStateError("start_batch was called, but the loader is closed.")
        if self._is_active:
            raise LoaderStateError(
                "start_batch was called, but a batch is already active. Harvest the active batch first."
            )
        if self.is_at_scan_limit:
            raise LoaderStateError(f"start_batch was called after all {self._limits.scan_rows} rows of the scan.")
        self._max_rows = self._row_limit(rows)
        self._writer.start_batch(self._max_rows)
        self._is_active = True
        waiting, self._look_ahead = self._look_ahead, []
        for batch in waiting:
            self._admit(batch)

    def append(self, data: pa.RecordBatch | pa.Table) -> None:
        """Append rows in bulk. Rows that do not fit are added to the next batches.

        Columns are matched by name, and case is ignored. New columns are added to the schema. Columns that ``data``
        does not contain are filled with null or with their default value.

        Raises:
            LoaderStateError: If no batch is active, the batch is full, or a row is being written.
            ColumnError: If a column cannot be converted. See :mod:`engine.result_set.conversion.convert`. In this
                case no row was added, but columns may have been added.
        """
        self._check_takes_rows()
        batches = to_batches(data)
        if self._offered is None or not data.schema.equals(self._offered):
            add_columns(self._writer.columns, data.schema, self.context)
            self._offered = data.schema
        self._seal()
        fields = self._writer.columns.visible_fields()
        for batch in [align_batch(batch, fields, self.context) for batch in batches]:
            self._admit(batch)

    def skip_rows(self, count: int) -> None:
        """Add rows without values, for a scan that does not project any columns.

        Raises:
            LoaderStateError: If the batch has columns, or in the same cases as :meth:`append`.
        """
        self._check_takes_rows()
        if len(self.schema):
            raise LoaderStateError("skip_rows was called, but columns are projected. Write the rows instead.")
        self._seal()
        self._admit(batch_without_columns(count))

    def harvest(self) -> pa.RecordBatch:
        """End the batch and return its rows.

        A row that was started but not saved is discarded. A batch without columns still has the correct number of rows.

        Raises:
            LoaderStateError: If no batch is active.
        """
        if not self._is_active:
            raise LoaderStateError("harvest was called, but no batch has been started. Call start_batch first.")
        self._writer.abandon_row()
        self._hide_new_columns()
        schema = self.schema
        batch = self._join_parts(list(schema))
        self._harvested_rows += batch.num_rows
        self._writer.end_batch()
        self._is_active = False
        if schema != (self._harvested_schema or TupleSchema()):
            self._schema_version += 1
        self._harvested_schema = schema
        return batch

    def close(self) -> None:
        """Discard all rows that were not harvested, and free their memory.

        Calling this method more than once has no further effect.
        """
        self._is_closed = True
        self._is_active = False
        self._parts.clear()
        self._look_ahead = []
        self._writer.close()

    def _row_limit(self, rows: int | None) -> int:
        limit = self._limits.rows if rows is None else min(self._limits.rows, max(rows, 1))
        if self._limits.scan_rows is None:
            return limit
        return max(min(limit, self._limits.scan_rows - self._harvested_rows), 0)

    def _check_takes_rows(self) -> None:
        if not self._is_active:
            raise LoaderStateError("Rows were appended, but no batch has been started. Call start_batch first.")
        if self.is_full:
            raise LoaderStateError(
                "Rows were appended, but the batch is full. Check is_full first, and harvest a full batch."
            )
        if self._writer.is_in_row:
            raise LoaderStateError("Rows were appended while another row was being written. Save that row first.")

    def _admit(self, batch: pa.RecordBatch) -> None:
        """Add the rows that fit into the batch, and keep the rest as look-ahead.

        If the look-ahead already contains rows, all rows are added to the look-ahead, so that the order is kept.
        """
        batch = self._cut_at_scan_limit(batch)
        if self._look_ahead:
            self._look_ahead.append(batch)
            return
        if batch.num_rows <= self._max_rows - self._batch.rows and self._parts.append_if_small(batch):
            self._batch.rows += batch.num_rows
            self._writer.set_appended(self._measure_parts)
            return
        used = self._measure_parts()
        fitting, sizes = measure_fitting_rows(batch, self._max_rows - self._batch.rows, used, self._limits)
        if fitting == 0 and batch.num_rows and self._batch.rows == 0 < self._max_rows:
            column, size_bytes, limit_bytes = batch_sizes(batch, 0, 1).excess(self._limits) or ("", 0, 0)
            raise ValueTooLargeError(column, size_bytes, limit_bytes, self.context)
        if fitting:
            self._parts.append(batch.slice(0, fitting), sizes)
            self._batch.rows += fitting
        self._writer.set_appended(self._measure_parts)
        if fitting < batch.num_rows:
            self._look_ahead.append(batch.slice(fitting))

    def _cut_at_scan_limit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._limits.scan_rows is None:
            return batch
        waiting = sum(one.num_rows for one in self._look_ahead)
        return batch.slice(0, self._limits.scan_rows - self.total_rows - waiting)

    def _measure_parts(self) -> Sizes:
        return self._parts.measure(self._writer.columns.visible_fields(), self.context)

    def _seal(self) -> None:
        """Turn the written rows into a part, so that later rows follow them."""
        if self._writer.vector_rows:
            part = self._harvest_rows(self._writer.columns.visible_fields())
            self._measure_parts()
            self._parts.append(part, batch_sizes(part, 0, part.num_rows))

    def _harvest_rows(self, fields: list[pa.Field]) -> pa.RecordBatch:
        rows = self._writer.vector_rows
        arrays = self._writer.harvest()
        if not fields:
            return batch_without_columns(rows)
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _hide_new_columns(self) -> None:
        """Hide columns that were added with rows that are not in this batch.

        The columns appear in the batch that contains these rows.
        """
        if self._look_ahead:
            self._batch.hidden_row = self._batch.rows
        elif self._writer.vector_rows or not self._parts.certainly_fit(self._writer.columns.visible_fields()):
            self._writer.hide_excess_columns()

    def _join_parts(self, fields: list[pa.Field]) -> pa.RecordBatch:
        parts = self._parts.take(fields, self.context)
        if self._writer.vector_rows or not parts:
            parts.append(self._harvest_rows(fields))
        return join_batches(parts)
