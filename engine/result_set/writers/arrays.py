"""The writer of an array column: a list whose elements are stored in a vector.

The offsets mark where each array ends. When a row overflows, the offsets determine the position of the row's first
element, down to the innermost array [result-set-impl "Arrays"]. The writers do not have an open value at that moment.
They continue at the new positions of their vectors [result-set-impl "Resynching Writers after Overflow"].
"""

from array import array
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from engine.errors import ValueTooLargeError
from engine.projection.filter import ProjectionFilter
from engine.result_set.sizes import Sizes
from engine.result_set.writers.column import ColumnContext, ColumnWriter, VectorWriter
from engine.result_set.writers.levels import ElementLevel, InnerLevel, Level
from engine.result_set.writers.validity import Validity


class ArrayWriter(VectorWriter):
    """Writer of an array column.

    Write each element with ``element``. Call ``save`` after each element that is a map, a dict or an array.

    If no element is written, the array is a missing value. It is then null, or empty if the column is required. To
    write an empty array to a nullable column, call ``set_value([])``.
    """

    __slots__ = (
        "_capacity", "_element", "_elements", "_is_nullable", "_is_open", "_known_columns", "_limit_bytes",
        "_offsets", "_start", "_validity", "_vector",
    )  # fmt: skip

    def __init__(
        self,
        field: pa.Field,
        context: ColumnContext,
        offered: pa.Field,
        promised: pa.Field,
        projection: ProjectionFilter,
    ) -> None:
        """Create the writer and the writer of its elements.

        Args:
            field: The column as it appears in the batch.
            context: The context of the column.
            offered: The element as the reader provides it.
            promised: The element as it appears in the batch.
            projection: The filter for the members of the element.
        """
        super().__init__(field, context)
        self._elements: Level = InnerLevel(self) if pt.is_nested(promised.type) else ElementLevel(self)
        self._element, self._vector = context.make_column(
            offered, promised, projection, context.inside("[]", self._elements), None
        )
        self._offsets: array[int] = array("q" if pt.is_large_list(field.type) else "i", [0])
        self._validity = Validity()
        self._is_nullable = field.nullable
        self._limit_bytes = context.batch.limits.vector_bytes
        self._is_open = False
        self._start = 0
        self._capacity = 0
        self._known_columns = -1

    @property
    def element(self) -> ColumnWriter:
        return self._element

    @property
    def element_vector(self) -> VectorWriter:
        return self._vector

    @property
    def count(self) -> int:
        return len(self._offsets) - 1

    def open(self) -> None:
        position = self._level.enter()
        if self.count != position:
            self.resize(position)
        self._start = self._offsets[-1]
        if self._vector.count > self._start:
            self._vector.resize(self._start)
        if self._known_columns != self._batch.added_columns:
            self._known_columns = self._batch.added_columns
            self._capacity = max(self._vector.capacity(self._limit_bytes), 1)
        self._is_open = True
        if isinstance(self._elements, ElementLevel):
            self._elements.stop = self._start + self._capacity
        else:
            self._elements.position = self._start
        self._level.open_values.append(self)

    def next_element(self) -> int:
        """Open the array and return the position of its first element."""
        if self._is_open:
            self._refuse_size(self._vector.count + 1)
        self.open()
        return self._start

    def save(self) -> None:
        if isinstance(self._elements, ElementLevel):
            return
        position = self._elements.enter()
        self._elements.leave()
        if position - self._start >= self._capacity:
            self._refuse_size(position + 1)
        self._elements.position = position + 1

    def close(self) -> None:
        if not self._is_open:
            return
        end = self._vector.count if isinstance(self._elements, ElementLevel) else self._elements.position
        self.abandon()
        self._offsets.append(end)
        if end > self._capacity:
            self._batch.must_measure = True
            if end > 2 * self._capacity:
                self._refuse_size(end)

    def abandon(self) -> None:
        self._is_open = False
        self._elements.abandon()

    def _refuse_size(self, end: int) -> None:
        """Raise an error for an array that is too large for any batch.

        The error is also raised if all arrays of a row together are too large.
        """
        elements = max(end - self._start, end - self._capacity)
        least_bytes = elements * self._limit_bytes // self._capacity
        raise ValueTooLargeError(
            self.path, max(least_bytes, self._limit_bytes + 1), self._limit_bytes, self._batch.context
        )

    def set_null(self) -> None:
        if not self._is_nullable:
            self._refuse_null()
        position = self._level.enter()
        self.abandon()
        self.resize(position)
        self.resize(position + 1)

    def set_value(self, value: Any) -> None:
        if value is None:
            self.set_null()
            return
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            self._refuse(value)
        self.abandon()
        self.open()
        for element in value:
            self._element.set_value(element)
            self.save()

    def resize(self, count: int) -> None:
        offsets = self._offsets
        lacking = count - self.count
        if lacking < 0:
            del offsets[count + 1 :]
            self._validity.truncate(count)
            if count == 0:
                self._vector.resize(0)
        elif lacking:
            if self._is_nullable:
                self._validity.add_nulls(self.count, lacking)
            offsets.extend(array(offsets.typecode, offsets[-1:]) * lacking)

    def harvest(self, count: int) -> pa.Array:
        if self.count < count:
            self.resize(count)
        offsets = self._offsets
        split = offsets[count]
        self._offsets = array(offsets.typecode, [offset - split for offset in offsets[count:]])
        del offsets[count + 1 :]
        field = self.visible_field()
        buffers = [self._validity.harvest(count), pa.py_buffer(offsets)]
        return pa.Array.from_buffers(field.type, count, buffers, children=[self._vector.harvest(split)])

    def measure(self, sizes: Sizes, first: int, end: int) -> None:
        sizes.add_bits(self.path, "validity", end - first)
        sizes.add(self.path, "offsets", (end - first + 1) * self._offsets.itemsize)
        last = self.count
        self._vector.measure(sizes, self._offsets[min(first, last)], self._offsets[min(end, last)])

    def capacity(self, limit_bytes: int) -> int:
        return limit_bytes // self._offsets.itemsize - 1

    def visible_field(self) -> pa.Field:
        make = pa.large_list if pt.is_large_list(self.field.type) else pa.list_
        return self.field.with_type(make(self._vector.visible_field()))

    def make_visible(self) -> None:
        super().make_visible()
        self._vector.make_visible()
