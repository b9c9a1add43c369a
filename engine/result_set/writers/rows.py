"""The writer of rows, which also decides when a batch is full.

Guarantees:

1. A row that is not saved has no effect. It leaves no values and takes no space, even if it would have overflowed.
2. A row is measured when it is saved. If the row does not fit, it becomes the first row of the next batch. The client
   writes such a row like any other row. After saving it, the client sees that the batch is full
   [result-set-loader "Handling Batch Limits"].
3. A column that was added with the overflow row appears in the next batch, together with that row. See the columns g
   and h of [result-set-impl "Detailed Use Cases"].
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from engine.errors import LoaderStateError, ValueTooLargeError
from engine.projection.filter import ProjectionFilter
from engine.result_set.batch_state import BatchState
from engine.result_set.sizes import Sizes
from engine.result_set.writers.column import ColumnContext, ColumnWriter
from engine.result_set.writers.factory import make_column
from engine.result_set.writers.levels import CLOSED, Level
from engine.result_set.writers.tuple_columns import TupleColumns
from engine.schema import TupleSchema

_NOT_ACTIVE = -1


class RowWriter:
    """Writer of rows. Each loader has a single row writer for all its batches.

    Attributes:
        columns: The columns of the row.
        vector_rows: The number of saved rows in the vectors, without the overflow row.
        has_overflow: Whether the vectors contain an overflow row.
    """

    def __init__(self, batch: BatchState, projection: ProjectionFilter) -> None:
        self._batch = batch
        self._level = Level()
        self._max_rows = _NOT_ACTIVE
        self._limit_rows = _NOT_ACTIVE
        self._measure_appended: Callable[[], Sizes] | None = None
        self.vector_rows = 0
        self.has_overflow = False
        context = ColumnContext("", self._level, batch, make_column)
        self.columns = TupleColumns(context, projection, self._count_earlier_rows)

    @property
    def schema(self) -> TupleSchema:
        """All added columns in the order of their indexes, projected or not."""
        return self.columns.schema

    @property
    def is_full(self) -> bool:
        """Whether the active batch is full and does not accept more rows."""
        return self._batch.rows >= self._limit_rows

    @property
    def is_in_row(self) -> bool:
        """Whether a row was started, and has not been saved or discarded yet."""
        return self._level.position >= 0

    def is_projected(self, name: str) -> bool:
        """Return whether the batch contains a column with this name."""
        return self.columns.is_projected(name)

    def column(self, key: int | str) -> ColumnWriter:
        """Return the writer of a column, by index or by name.

        Access by index is faster. Names are compared without regard to case.

        Raises:
            ColumnError: If the column was not added.
        """
        return self.columns.column(key)

    def add_column(self, field: pa.Field) -> int:
        """Add a column after the existing columns.

        In earlier rows, the column is null or has its default value.

        Returns:
            The index of the column.

        Raises:
            DuplicateColumnError: If the column already exists.
            SchemaConflictError: If values of the column's type cannot be converted to the promised type.
            ColumnError: If the column is required and has no default value, but there are earlier rows.
        """
        index = self.columns.add(field)
        self._update_row_limit()
        if self._batch.rows:
            self._batch.must_measure = True
        return index

    def start_row(self) -> None:
        """Start a row. If the previous row was not saved, it is discarded.

        Raises:
            LoaderStateError: If no batch is active, or the batch is full.
        """
        if self._batch.rows >= self._limit_rows:
            raise self._start_error()
        level = self._level
        if level.position >= 0:
            self.abandon_row()
        level.position = self.vector_rows

    def save_row(self) -> None:
        """Save the current row.

        Raises:
            LoaderStateError: If no row was started.
            ValueTooLargeError: If the row is too large for any batch. The next ``start_row`` discards the row.
            ColumnError: If the row has no value for a required column without a default value.
        """
        level = self._level
        if level.position < 0:
            raise LoaderStateError("save_row was called, but no row has been started. Call start_row first.")
        if level.open_values or level.required_columns:
            level.leave()
        batch = self._batch
        if batch.must_measure and not self._fits():
            self._overflow()
            return
        level.position = CLOSED
        self.vector_rows += 1
        batch.rows += 1

    def set_row(self, *values: Any) -> None:
        """Write and save a row. Pass one value for each column, in the order of the indexes."""
        if len(values) != len(self.columns):
            raise LoaderStateError(f"A row of {len(values)} values was written to {len(self.columns)} columns.")
        self.start_row()
        for writer, value in zip(self.columns, values, strict=True):
            writer.set_value(value)
        self.save_row()

    def abandon_row(self) -> None:
        """Discard the current row, if a row was started."""
        if self._level.position >= 0:
            self._level.abandon()
            self.columns.truncate(self.vector_rows)

    def start_batch(self, max_rows: int) -> None:
        """Start a batch with the overflow row of the previous batch. Only for the loader."""
        self._max_rows = max_rows
        self._batch.rows = self.vector_rows = int(self.has_overflow)
        self.has_overflow = False
        self.set_appended(None)

    def set_appended(self, measure: Callable[[], Sizes] | None) -> None:
        """Set what measures the rows that were appended in bulk. None if there are none. Only for the loader."""
        self._measure_appended = measure
        self._batch.must_measure = self._must_always_measure
        self._update_row_limit()

    def hide_excess_columns(self) -> None:
        """Hide columns that were added after the last row and do not fit into the batch.

        Only for the loader, before a batch ends.
        """
        if self._batch.must_measure and not self.has_overflow and self._excess(self.vector_rows) is not None:
            self._batch.hidden_row = self._batch.rows

    def harvest(self) -> list[pa.Array]:
        """Remove the saved rows of the active batch from the vectors and return them.

        Only for the loader.
        """
        arrays = self.columns.harvest(self.vector_rows)
        if not self.has_overflow:
            self.columns.truncate(0)
        self.vector_rows = 0
        return arrays

    def end_batch(self) -> None:
        """End the batch after its harvest. Only for the loader."""
        self._limit_rows = self._max_rows = _NOT_ACTIVE
        self._batch.rows = 0
        self._batch.hidden_row = None
        self.columns.make_visible()

    def close(self) -> None:
        """Discard all rows, and free their memory. Only for the loader."""
        self._level.abandon()
        self._limit_rows = self._max_rows = _NOT_ACTIVE
        self.has_overflow = False
        self.columns.truncate(0)

    def _count_earlier_rows(self) -> int:
        return self._batch.rows + self.has_overflow

    def _measure(self, first: int, end: int) -> Sizes:
        sizes = Sizes()
        self.columns.measure(sizes, first, end)
        return sizes

    def _excess(self, rows: int) -> tuple[str, int, int] | None:
        sizes = self._measure(0, rows)
        if self._measure_appended is not None:
            sizes.add_all(self._measure_appended())
        return sizes.excess(self._batch.limits)

    @property
    def _must_always_measure(self) -> bool:
        return self._batch.limits.batch_bytes is not None or self._measure_appended is not None

    def _update_row_limit(self) -> None:
        """Limit the batch to the number of rows that fit, given the widths of its columns."""
        if self.has_overflow or self._max_rows == _NOT_ACTIVE:
            return
        rows = self._batch.rows
        capacity = self.columns.capacity(self._batch.limits.vector_bytes)
        self._limit_rows = min(self._max_rows, max(capacity, rows, 1))
        if capacity <= rows:
            self._batch.must_measure = True

    def _fits(self) -> bool:
        """Return whether the current row fits into the batch.

        Raises:
            ValueTooLargeError: If the row does not even fit into an empty batch.
        """
        position = self.vector_rows
        if self._excess(position + 1) is None:
            self._batch.must_measure = self._must_always_measure
            return True
        alone = self._measure(position, position + 1).excess(self._batch.limits)
        if alone is not None:
            raise ValueTooLargeError(*alone, self._batch.context)
        return False

    def _overflow(self) -> None:
        self._level.position = CLOSED
        self.has_overflow = True
        self._batch.hidden_row = self._batch.rows
        self._limit_rows = self._batch.rows

    def _start_error(self) -> LoaderStateError:
        if self._limit_rows == _NOT_ACTIVE:
            return LoaderStateError("start_row was called, but no batch has been started. Call start_batch first.")
        return LoaderStateError(
            "start_row was called, but the batch is full. Check is_full after each row, and harvest a full batch."
        )
