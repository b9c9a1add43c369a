"""State of the active batch, shared by a loader and all its writers."""

from engine.context import ErrorContext
from engine.limits import BatchLimits

ALWAYS_VISIBLE = -1
"""Marks a column that every batch shows. Replaces the row at which the column was added."""


class BatchState:
    """State of the active batch of a loader.

    Attributes:
        limits: The limits of the loader.
        context: The source that the reader is reading. Error messages include it.
        rows: The number of saved rows in the batch, both written and appended.
        must_measure: Whether the current row must be measured before it is saved. A writer sets this flag when its
            values may exceed a limit.
        added_columns: The number of columns that were added, at any depth. When this number changes, the capacities
            of the vectors have changed too.
        hidden_row: The batch hides columns that were added at this row. None if the batch shows all columns.
    """

    __slots__ = ("added_columns", "context", "hidden_row", "limits", "must_measure", "rows")

    def __init__(self, limits: BatchLimits, context: ErrorContext) -> None:
        self.limits = limits
        self.context = context
        self.rows = 0
        self.added_columns = 0
        self.must_measure = False
        self.hidden_row: int | None = None

    def hides(self, added_at: int) -> bool:
        """Return whether the batch hides a column that was added at the given row.

        A column that was added with the overflow row is hidden until the next batch. Examples are the columns g and h
        of [result-set-impl "Detailed Use Cases"].
        """
        return added_at == self.hidden_row
