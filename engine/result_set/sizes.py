"""Sizes of rows in Arrow buffers, and the number of rows that fit into a batch.

The size of a slice includes only the rows of the slice, not the whole buffer that it shares. A validity bitmap is
always counted, even if there are no nulls. Therefore the first null value does not reduce the number of rows that
fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.types as pt

from engine.arrow_types import is_any_list
from engine.limits import BatchLimits

_OFFSET_BYTES = 8
"""The maximum size of an offset. A column without rows can have no buffer for its only offset."""


@dataclass(slots=True)
class Sizes:
    """Sizes of a set of buffers.

    Attributes:
        buffers: The size of each buffer in bytes. The key consists of the column's path and the purpose of the buffer.
    """

    buffers: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, column: str, purpose: str, size_bytes: int) -> None:
        key = (column, purpose)
        self.buffers[key] = self.buffers.get(key, 0) + size_bytes

    def add_bits(self, column: str, purpose: str, count: int) -> None:
        self.add(column, purpose, (count + 7) // 8)

    def add_all(self, other: "Sizes") -> None:
        for key, size_bytes in other.buffers.items():
            self.buffers[key] = self.buffers.get(key, 0) + size_bytes

    @property
    def total_bytes(self) -> int:
        return sum(self.buffers.values())

    def excess(self, limits: BatchLimits) -> tuple[str, int, int] | None:
        """Return a column that exceeds a limit, with its size and the limit.

        Return None if all buffers are within the limits.
        """
        if not self.buffers:
            return None
        (column, _), size_bytes = max(self.buffers.items(), key=lambda item: item[1])
        if size_bytes > limits.vector_bytes:
            return column, size_bytes, limits.vector_bytes
        if limits.batch_bytes is not None and self.total_bytes > limits.batch_bytes:
            return column, self.total_bytes, limits.batch_bytes
        return None


def batch_sizes(batch: pa.RecordBatch, first: int, end: int) -> Sizes:
    """Return the sizes of the rows from ``first`` up to, but not including, ``end``."""
    sizes = Sizes()
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        _add_array(sizes, name, array, first, end)
    return sizes


def estimate_flat_bytes(batch: pa.RecordBatch) -> int:
    """Return an upper bound of the size of a batch without nested columns.

    This is faster than measuring. The bound includes the whole buffers of a slice, and counts a shared buffer each time
    it is used.
    """
    buffer_bytes = sum(buffer.size for array in batch.columns for buffer in array.buffers() if buffer is not None)
    return int(buffer_bytes + batch.num_columns * ((batch.num_rows + 7) // 8 + _OFFSET_BYTES))


def measure_fitting_rows(batch: pa.RecordBatch, max_rows: int, used: Sizes, limits: BatchLimits) -> tuple[int, Sizes]:
    """Return how many of the batch's first rows fit within the limits, and the sizes of these rows.

    The sizes in ``used`` are already taken, and count towards the limits.
    """

    def fits(sizes: Sizes) -> bool:
        together = Sizes(dict(used.buffers))
        together.add_all(sizes)
        return together.excess(limits) is None

    most: int = min(max_rows, batch.num_rows)
    sizes = batch_sizes(batch, 0, most)
    if fits(sizes):
        return most, sizes
    fitting, too_many = 0, most
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        if fits(batch_sizes(batch, 0, middle)):
            fitting = middle
        else:
            too_many = middle
    return fitting, batch_sizes(batch, 0, fitting)


def _add_array(sizes: Sizes, column: str, array: pa.Array, first: int, end: int) -> None:
    """Add the sizes of a range of an array.

    The column paths have the same form as the paths of the column writers.
    """
    type_ = array.type
    if pt.is_null(type_):
        return
    if isinstance(type_, pa.BaseExtensionType):
        _add_array(sizes, column, array.storage, first, end)
        return
    sizes.add_bits(column, "validity", end - first)
    if pt.is_struct(type_):
        for index in range(type_.num_fields):
            _add_array(sizes, f"{column}.{type_.field(index).name}", array.field(index), first, end)
    elif pt.is_map(type_):
        start, stop = _add_offsets(sizes, column, array, first, end)
        sizes.add_bits(f"{column}[]", "validity", stop - start)
        _add_array(sizes, f"{column}[].key", array.keys, start, stop)
        _add_array(sizes, f"{column}[].value", array.items, start, stop)
    elif is_any_list(type_):
        start, stop = _add_offsets(sizes, column, array, first, end)
        _add_array(sizes, f"{column}[]", array.values, start, stop)
    elif pt.is_boolean(type_):
        sizes.add_bits(column, "values", end - first)
    elif pt.is_string(type_) or pt.is_binary(type_) or is_large(type_):
        start, stop = _add_offsets(sizes, column, array, first, end)
        sizes.add(column, "values", stop - start)
    else:
        sizes.add(column, "values", (end - first) * type_.byte_width)


def is_large(type_: pa.DataType) -> bool:
    """Return whether the type is a string or binary type with 64-bit offsets."""
    return bool(pt.is_large_string(type_) or pt.is_large_binary(type_))


def _add_offsets(sizes: Sizes, column: str, array: pa.Array, first: int, end: int) -> tuple[int, int]:
    """Add the size of the offsets of a range, and return the first and last offset."""
    is_wide = pt.is_large_list(array.type) or is_large(array.type)
    sizes.add(column, "offsets", (end - first + 1) * (8 if is_wide else 4))
    buffer = array.buffers()[1]
    if buffer is None or buffer.size == 0:
        return 0, 0
    offsets: Sequence[int] = memoryview(buffer).cast("q" if is_wide else "i")
    return offsets[array.offset + first], offsets[array.offset + end]
