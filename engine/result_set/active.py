"""What all writers of one loader share: how far the batch is, and what it may hold."""

from engine.context import ErrorContext
from engine.limits import BatchLimits

SETTLED = -1
"""Instead of the row at which a column was added: it is part of each batch from here on."""


class ActiveBatch:
    """Attributes:
    limits: Of the loader.
    context: Where the reader is, for errors.
    rows: Saved so far, however they came.
    must_measure: A writer has come to a limit, or cannot tell; the row is measured before it is saved.
    added_columns: How many columns there are at any depth; a change means that capacities have changed.
    shifted_row: The row at which columns were added that this batch does not show; None if it shows all.
    """

    __slots__ = ("added_columns", "context", "limits", "must_measure", "rows", "shifted_row")

    def __init__(self, limits: BatchLimits, context: ErrorContext) -> None:
        self.limits = limits
        self.context = context
        self.rows = 0
        self.added_columns = 0
        self.must_measure = False
        self.shifted_row: int | None = None

    def hides(self, added_at: int) -> bool:
        """Whether a column that came with the overflow row waits for the next batch (seed 003, cases g and h)."""
        return added_at == self.shifted_row
