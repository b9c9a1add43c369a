"""The writer of rows: the tuple at the top, and the one that knows when a batch is full.

Guarantees:

1. A row that is not saved leaves nothing behind: neither values nor space, also if it would have overflowed.
2. A row that does not fit is measured when it is saved, whole; then it is the first row of the next batch. The
   client writes on meanwhile, and sees only that the batch is full afterwards (seed 000, "Handling Batch Limits").
3. A column that came with the overflow row appears with it, in the next batch (seed 003, cases g and h).
"""

from typing import Any

import pyarrow as pa

from engine.errors import LoaderStateError, ValueTooLargeError
from engine.projection.filter import ProjectionFilter
from engine.result_set.active import ActiveBatch
from engine.result_set.levels import CLOSED, Level
from engine.result_set.members import Members
from engine.result_set.sizes import Sizes
from engine.result_set.writer import ColumnWriter, Place
from engine.schema import TupleSchema

_NOT_ACTIVE = -1


class RowWriter:
    """Writes rows. Got from a loader, and the same object for all its batches."""

    def __init__(self, batch: ActiveBatch, projection: ProjectionFilter) -> None:
        self._batch = batch
        self._level = Level()
        self._rows = 0
        self._most_rows = _NOT_ACTIVE
        self._limit_rows = _NOT_ACTIVE
        self._has_overflow = False
        self._other = Sizes()
        self.members = Members(Place("", self._level, batch), projection, self._earlier_rows)

    @property
    def schema(self) -> TupleSchema:
        """The columns that were added, by index, those that are not projected too."""
        return self.members.schema

    @property
    def row_count(self) -> int:
        """Rows of the active batch, the overflow row not among them."""
        return self._batch.rows

    @property
    def is_full(self) -> bool:
        return self._batch.rows >= self._limit_rows

    @property
    def has_overflow(self) -> bool:
        return self._has_overflow

    @property
    def is_in_row(self) -> bool:
        return self._level.position >= 0

    @property
    def vector_rows(self) -> int:
        """Saved rows that stand in the vectors; the overflow row is not among them."""
        return self._rows

    def is_projected(self, name: str) -> bool:
        """Whether a column of this name is kept."""
        return self.members.is_projected(name)

    def column(self, key: int | str) -> ColumnWriter:
        """The writer of a column, by index (faster) or by name in any letter case.

        Raises: ColumnError if it was not added.
        """
        return self.members.column(key)

    def add_column(self, field: pa.Field) -> int:
        """Adds a column behind the others; rows so far get what stands for a missing value.

        Returns: Its index.

        Raises: See :meth:`Members.add`.
        """
        index = self.members.add(field)
        self._allow_rows()
        if self._batch.rows:
            self._batch.must_measure = True
        return index

    def start_row(self) -> None:
        """Begins a row. One that was begun and not saved is given up.

        Raises: LoaderStateError if no batch is active, or it is full.
        """
        if self._batch.rows >= self._limit_rows:
            raise self._not_now()
        level = self._level
        if level.position >= 0:
            self.abandon_row()
        level.position = self._rows

    def save_row(self) -> None:
        """Ends the row and keeps it.

        Raises:
            LoaderStateError: There is none.
            ValueTooLargeError: No batch can hold it. It is not saved, and the next ``start_row`` gives it up.
            ColumnError: It lacks the value of a required column for which nothing can stand.
        """
        level = self._level
        if level.position < 0:
            raise LoaderStateError("A row was saved that was not started: call start_row first.")
        if level.opened or level.completed:
            level.leave()
        batch = self._batch
        if batch.must_measure and not self._fits():
            self._overflow()
            return
        level.position = CLOSED
        self._rows += 1
        batch.rows += 1

    def set_row(self, *values: Any) -> None:
        """Writes and saves a whole row: a value for each column in the order of their indexes."""
        if len(values) != len(self.members):
            raise LoaderStateError(f"A row of {len(values)} values was written to {len(self.members)} columns.")
        self.start_row()
        for writer, value in zip(self.members, values, strict=True):
            writer.set_value(value)
        self.save_row()

    def abandon_row(self) -> None:
        """Gives up the row that was not saved, if there is one."""
        if self._level.position >= 0:
            self._level.abandon()
            self.members.resize(self._rows)

    def start_batch(self, most_rows: int) -> None:
        """For the loader: begins a batch, with the overflow row of the one before."""
        self._most_rows = most_rows
        self._batch.rows = self._rows = int(self._has_overflow)
        self._has_overflow = False
        self.measure_beside(Sizes())

    def measure_beside(self, other: Sizes) -> None:
        """For the loader: what the batch has beside the vectors."""
        self._other = other
        self._batch.must_measure = self._must_always_measure
        self._allow_rows()

    def hide_what_does_not_fit(self) -> None:
        """For the loader, before a batch ends: a column that came after its last row may be too large for it."""
        if self._batch.must_measure and not self._has_overflow and self._excess(self._rows) is not None:
            self._batch.shifted_row = self._batch.rows

    def take(self) -> list[pa.Array]:
        """For the loader: the saved rows in the vectors, as far as they are of this batch."""
        arrays = self.members.take(self._rows)
        if not self._has_overflow:
            self.members.resize(0)
        self._rows = 0
        return arrays

    def end_batch(self) -> None:
        """For the loader: the vectors were taken."""
        self._limit_rows = self._most_rows = _NOT_ACTIVE
        self._batch.rows = 0
        self._batch.shifted_row = None
        self.members.settle()

    def close(self) -> None:
        """For the loader: gives up all rows, and their memory."""
        self._level.abandon()
        self._limit_rows = self._most_rows = _NOT_ACTIVE
        self._has_overflow = False
        self.members.resize(0)

    def _earlier_rows(self) -> int:
        return self._batch.rows + self._has_overflow

    def _excess(self, rows: int) -> tuple[str, int, int] | None:
        sizes = self.sizes(0, rows)
        sizes.add_all(self._other)
        return sizes.excess(self._batch.limits)

    def sizes(self, first: int, end: int) -> Sizes:
        sizes = Sizes()
        self.members.measure(sizes, first, end)
        return sizes

    @property
    def _must_always_measure(self) -> bool:
        return self._batch.limits.batch_bytes is not None or bool(self._other.buffers)

    def _allow_rows(self) -> None:
        """How many rows there may be: also as many as fit by the widths of the columns alone."""
        if self._has_overflow or self._most_rows == _NOT_ACTIVE:
            return
        rows = self._batch.rows
        capacity = self.members.capacity(self._batch.limits.vector_bytes)
        self._limit_rows = min(self._most_rows, max(capacity, rows, 1))
        if capacity <= rows:
            self._batch.must_measure = True

    def _fits(self) -> bool:
        """Raises: ValueTooLargeError if the row would not even fit alone."""
        limits = self._batch.limits
        position = self._rows
        if self._excess(position + 1) is None:
            self._batch.must_measure = self._must_always_measure
            return True
        alone = self.sizes(position, position + 1).excess(limits)
        if alone is not None:
            raise ValueTooLargeError(*alone, self._batch.context)
        return False

    def _overflow(self) -> None:
        self._level.position = CLOSED
        self._has_overflow = True
        self._batch.shifted_row = self._batch.rows
        self._limit_rows = self._batch.rows

    def _not_now(self) -> LoaderStateError:
        if self._limit_rows == _NOT_ACTIVE:
            return LoaderStateError("A row was started without a batch: call start_batch first.")
        return LoaderStateError("A row was started in a full batch: ask is_full after each row, and harvest.")
