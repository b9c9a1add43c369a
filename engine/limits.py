"""How large a batch may become."""

from dataclasses import dataclass

MAX_ROWS = 65_536
MAX_VECTOR_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limits of one batch (seed 000, "Handling Batch Limits").

    Attributes:
        rows: Rows in a batch; below 1 it is 1, above ``MAX_ROWS`` it is that.
        vector_bytes: The largest vector: the real size of an Arrow buffer, offsets and nested values included.
        batch_bytes: All vectors together; None for no limit.
        scan_rows: Rows in all batches together, as of SQL's LIMIT; None for no limit.
    """

    rows: int = MAX_ROWS
    vector_bytes: int = MAX_VECTOR_BYTES
    batch_bytes: int | None = None
    scan_rows: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", min(max(self.rows, 1), MAX_ROWS))
