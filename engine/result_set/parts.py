"""The parts of a batch that were appended in bulk.

Measuring a part takes longer than reading a small file. Therefore a part that certainly fits is measured only if a
later one may not fit.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pt

from engine.context import ErrorContext
from engine.limits import BatchLimits
from engine.result_set.bulk import align_batch
from engine.result_set.sizes import Sizes, batch_sizes, estimate_flat_bytes


class AppendedParts:
    """The appended parts of the active batch.

    Args:
        limits: The limits of the batch.
    """

    def __init__(self, limits: BatchLimits) -> None:
        self._limit_bytes = min(limits.vector_bytes, limits.batch_bytes or limits.vector_bytes)
        self._parts: list[pa.RecordBatch] = []
        self._schema: pa.Schema | None = None
        self._is_flat = False
        self._sizes = Sizes()
        self._measured = 0
        self._most_bytes = 0

    def certainly_fit(self, fields: Sequence[pa.Field]) -> bool:
        """Return whether all parts have these columns, and are so small that no limit is exceeded."""
        return self._have_columns(fields) and self._most_bytes <= self._limit_bytes

    def _have_columns(self, fields: Sequence[pa.Field]) -> bool:
        return self._schema is not None and self._schema.equals(pa.schema(fields))

    def append(self, part: pa.RecordBatch, sizes: Sizes) -> None:
        """Append a part with the columns of the batch, and its sizes. All other parts have been measured."""
        self._parts.append(part)
        self._sizes.add_all(sizes)
        self._measured += 1
        self._most_bytes += sizes.total_bytes

    def append_if_small(self, part: pa.RecordBatch) -> bool:
        """Append a part with the columns of the batch if it certainly fits. Return whether it was appended."""
        if self._schema is None or not self._is_flat or not part.schema.equals(self._schema):
            return False
        most_bytes = estimate_flat_bytes(part)
        if self._most_bytes + most_bytes > self._limit_bytes:
            return False
        self._parts.append(part)
        self._most_bytes += most_bytes
        return True

    def measure(self, fields: Sequence[pa.Field], context: ErrorContext) -> Sizes:
        """Return the total sizes of all parts.

        If columns were added since the last call, the parts are first extended with these columns.
        """
        if not self._have_columns(fields):
            self._schema = pa.schema(fields)
            self._is_flat = not any(pt.is_nested(type_) for type_ in self._schema.types)
            self._parts = [align_batch(part, fields, context) for part in self._parts]
            self._sizes, self._measured = Sizes(), 0
        for part in self._parts[self._measured :]:
            self._sizes.add_all(batch_sizes(part, 0, part.num_rows))
        self._measured = len(self._parts)
        self._most_bytes = self._sizes.total_bytes
        return self._sizes

    def take(self, fields: Sequence[pa.Field], context: ErrorContext) -> list[pa.RecordBatch]:
        """Remove all parts, and return them with the given columns."""
        parts = [align_batch(part, fields, context) for part in self._parts]
        self.clear()
        return parts

    def clear(self) -> None:
        """Remove all parts."""
        self._parts, self._schema = [], None
        self._sizes, self._measured, self._most_bytes = Sizes(), 0, 0
