"""The state of the active batch, which a loader and all its writers share."""

from engine.context import ErrorContext
from engine.limits import BatchLimits

ALWAYS_VISIBLE = -1
"""Replaces the row at which a column was added once every batch shows the column."""


class BatchState:
    """The state of the active batch.

    Attributes:
        limits: The limits of the loader.
        context: What the reader is reading, for errors.
        rows: The number of saved rows, written or appended.
        must_measure: Whether a row must be measured before it is saved. Set by writers that may exceed a limit.
        added_columns: The number of columns at any depth. A change means that capacities changed too.
        hidden_row: The row at which this batch stops to show added columns. None if it shows all of them.
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
        """Return whether a column came with the overflow row, and must wait.

        Examples are the columns g and h of [result-set-impl "Detailed Use Cases"].
        """
        return added_at == self.hidden_row
