"""What rows take in Arrow's buffers, and how many of them a batch can hold.

The size of a buffer is what the rows themselves take in it: of a slice, not what it was sliced from. Bitmaps of
validity always count, so that a batch does not become smaller by its first null.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.types as pt

from engine.limits import BatchLimits
from engine.nested_types import is_any_list


@dataclass(slots=True)
class Sizes:
    """Bytes by buffer: by the column's name and what the buffer is for."""

    buffers: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, column: str, purpose: str, size_bytes: int) -> None:
        key = (column, purpose)
        self.buffers[key] = self.buffers.get(key, 0) + size_bytes

    def add_bits(self, column: str, purpose: str, count: int) -> None:
        self.add(column, purpose, (count + 7) // 8)

    def add_all(self, other: "Sizes") -> None:
        for (column, purpose), size_bytes in other.buffers.items():
            self.add(column, purpose, size_bytes)

    @property
    def total_bytes(self) -> int:
        return sum(self.buffers.values())

    @property
    def largest(self) -> tuple[str, int]:
        """The column of the largest buffer, and the size of it."""
        if not self.buffers:
            return "", 0
        (column, _), size_bytes = max(self.buffers.items(), key=lambda item: item[1])
        return column, size_bytes

    def excess(self, limits: BatchLimits) -> tuple[str, int, int] | None:
        """Column, size and limit, if these rows are more than one batch can hold."""
        column, size_bytes = self.largest
        if size_bytes > limits.vector_bytes:
            return column, size_bytes, limits.vector_bytes
        if limits.batch_bytes is not None and self.total_bytes > limits.batch_bytes:
            return column, self.total_bytes, limits.batch_bytes
        return None


def batch_sizes(batch: pa.RecordBatch, first: int, end: int) -> Sizes:
    """Of the rows from ``first`` to before ``end``."""
    sizes = Sizes()
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        add_array(sizes, name, array, first, end)
    return sizes


def rows_that_fit(batch: pa.RecordBatch, most_rows: int, used: Sizes, limits: BatchLimits) -> int:
    """How many rows from the start of a batch fit beside what is there already."""

    def fits(rows: int) -> bool:
        together = batch_sizes(batch, 0, rows)
        together.add_all(used)
        return together.excess(limits) is None

    most: int = min(most_rows, batch.num_rows)
    if fits(most):
        return most
    fitting, too_many = 0, most
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        if fits(middle):
            fitting = middle
        else:
            too_many = middle
    return fitting


def add_array(sizes: Sizes, column: str, array: pa.Array, first: int, end: int) -> None:
    """Adds what a range of an array takes; the names are those that the writers give to their columns."""
    type_ = array.type
    if pt.is_null(type_):
        return
    sizes.add_bits(column, "validity", end - first)
    if pt.is_struct(type_):
        for index in range(type_.num_fields):
            add_array(sizes, f"{column}.{type_.field(index).name}", array.field(index), first, end)
    elif pt.is_map(type_):
        start, stop = _ends(sizes, column, array, first, end)
        sizes.add_bits(f"{column}[]", "validity", stop - start)
        add_array(sizes, f"{column}[].key", array.keys, start, stop)
        add_array(sizes, f"{column}[].value", array.items, start, stop)
    elif is_any_list(type_):
        start, stop = _ends(sizes, column, array, first, end)
        add_array(sizes, f"{column}[]", array.values, start, stop)
    elif pt.is_boolean(type_):
        sizes.add_bits(column, "values", end - first)
    elif has_offsets(type_):
        start, stop = _ends(sizes, column, array, first, end)
        sizes.add(column, "values", stop - start)
    else:
        sizes.add(column, "values", (end - first) * type_.byte_width)


def has_offsets(type_: pa.DataType) -> bool:
    """Whether values are of any length: text and bytes, but not lists."""
    return bool(pt.is_string(type_) or pt.is_binary(type_) or is_large(type_))


def is_large(type_: pa.DataType) -> bool:
    return bool(pt.is_large_string(type_) or pt.is_large_binary(type_))


def _ends(sizes: Sizes, column: str, array: pa.Array, first: int, end: int) -> tuple[int, int]:
    """Where the values of a range start and end; adds the offsets themselves."""
    is_wide = pt.is_large_list(array.type) or is_large(array.type)
    sizes.add(column, "offsets", (end - first + 1) * (8 if is_wide else 4))
    buffer = array.buffers()[1]
    if buffer is None or buffer.size == 0:
        return 0, 0
    offsets: Sequence[int] = memoryview(buffer).cast("q" if is_wide else "i")
    return offsets[array.offset + first], offsets[array.offset + end]
