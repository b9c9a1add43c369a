"""The limits of a batch."""

from dataclasses import dataclass

MAX_ROWS = 65_536
MAX_VECTOR_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Limits of a batch [result-set-loader "Handling Batch Limits"].

    Attributes:
        rows: The maximum number of rows in a batch, from 1 to ``MAX_ROWS``. Other values are adjusted to this range.
        vector_bytes: The maximum size of a vector, measured in Arrow buffers, including offsets and nested values.
        batch_bytes: The maximum size of all vectors together. None for no limit.
        scan_rows: The maximum number of rows in all batches together, such as SQL's LIMIT. None for no limit.
    """

    rows: int = MAX_ROWS
    vector_bytes: int = MAX_VECTOR_BYTES
    batch_bytes: int | None = None
    scan_rows: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", min(max(self.rows, 1), MAX_ROWS))
