"""The writers of arrays, of lists in lists, and of dicts: values with elements that count for themselves.

Offsets say where each array ends. When a row overflows, the position of its first element is found by them, and
so on down to the innermost array (seed 003, "Arrays"); the writers' own positions are all closed by then, and open
again where their vectors have arrived (seed 003, "Resynching Writers after Overflow").
"""

from array import array
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from engine.errors import ColumnError, ValueTooLargeError
from engine.projection.filter import PROJECT_ALL, ProjectionFilter
from engine.result_set import building, maps
from engine.result_set.levels import ElementLevel, InnerLevel, Level
from engine.result_set.sizes import Sizes
from engine.result_set.validity import Validity
from engine.result_set.writer import ColumnWriter, Place, VectorWriter


class ArrayWriter(VectorWriter):
    """Elements are written with ``element``; ``save`` ends each one that is a map, a dict or an array.

    An array of which nothing is written is missing: null, or empty if it may not be null. To write an empty one
    where null is possible, use ``set_value([])``.
    """

    __slots__ = (
        "_capacity", "_element", "_elements", "_is_nullable", "_is_open", "_known_columns", "_limit_bytes",
        "_offsets", "_start", "_validity", "_vector",
    )  # fmt: skip

    def __init__(
        self,
        field: pa.Field,
        place: Place,
        offered: pa.Field,
        projection: ProjectionFilter,
    ) -> None:
        """``offered`` is the element as the reader knows it."""
        super().__init__(field, place)
        promised = _element_field(field.type)
        is_scalar = not pt.is_nested(promised.type)
        self._elements: Level = ElementLevel(self) if is_scalar else InnerLevel(self)
        self._element, self._vector = building.make_column(
            offered, promised, projection, Place(f"{place.path}[]", self._elements, place.batch)
        )
        self._offsets: array[int] = array("q" if pt.is_large_list(field.type) else "i", [0])
        self._validity = Validity()
        self._is_nullable = field.nullable
        self._limit_bytes = place.batch.limits.vector_bytes
        self._is_open = False
        self._start = 0
        self._capacity = 0
        self._known_columns = -1

    @property
    def element(self) -> ColumnWriter:
        return self._element

    @property
    def held(self) -> VectorWriter:
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
        self._level.opened.append(self)

    def next_element(self) -> int:
        """See :class:`engine.result_set.levels.ScalarOwner`."""
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
        self._forget_element()
        self._offsets.append(end)
        if end > self._capacity:
            self._batch.must_measure = True
            if end > 2 * self._capacity:
                self._refuse_size(end)

    def abandon(self) -> None:
        self._forget_element()

    def _forget_element(self) -> None:
        self._is_open = False
        self._elements.abandon()

    def _refuse_size(self, end: int) -> None:
        """An array, or all arrays of a row, that no batch can hold."""
        elements = max(end - self._start, end - self._capacity)
        least_bytes = elements * self._limit_bytes // self._capacity
        raise ValueTooLargeError(
            self.path, max(least_bytes, self._limit_bytes + 1), self._limit_bytes, self._batch.context
        )

    def set_null(self) -> None:
        if not self._is_nullable:
            self._refuse_null()
        position = self._level.enter()
        self._forget_element()
        self.resize(position)
        self.resize(position + 1)

    def set_value(self, value: Any) -> None:
        if value is None:
            self.set_null()
            return
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            self._refuse(value)
        self._forget_element()
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

    def take(self, count: int) -> pa.Array:
        if self.count < count:
            self.resize(count)
        offsets = self._offsets
        split = offsets[count]
        self._offsets = array(offsets.typecode, [offset - split for offset in offsets[count:]])
        del offsets[count + 1 :]
        field = self.visible_field()
        buffers = [self._validity.take(count), pa.py_buffer(offsets)]
        return pa.Array.from_buffers(field.type, count, buffers, children=[self._vector.take(split)])

    def measure(self, sizes: Sizes, first: int, end: int) -> None:
        sizes.add_bits(self.path, "validity", end - first)
        sizes.add(self.path, "offsets", (end - first + 1) * self._offsets.itemsize)
        last = self.count
        self._vector.measure(sizes, self._offsets[min(first, last)], self._offsets[min(end, last)])

    def capacity(self, limit_bytes: int) -> int:
        return limit_bytes // self._offsets.itemsize - 1

    def visible_field(self) -> pa.Field:
        element = self._vector.visible_field()
        make = pa.large_list if pt.is_large_list(self.field.type) else pa.list_
        return self.field.with_type(make(element))

    def settle(self) -> None:
        super().settle()
        self._vector.settle()


class DictWriter(ArrayWriter):
    """Entries are written with ``key`` and ``value``; ``save`` ends each one. Keys that repeat are all kept."""

    __slots__ = ("_keys",)

    def __init__(self, field: pa.Field, place: Place, offered: pa.DataType) -> None:
        """``offered`` is the reader's type."""
        super().__init__(field, place, _entry(offered), PROJECT_ALL)
        self._keys = _first_member(self._vector)

    @property
    def element(self) -> ColumnWriter:
        self._refuse_part("elements")

    @property
    def key(self) -> ColumnWriter:
        return self._element.column(0)

    @property
    def value(self) -> ColumnWriter:
        return self._element.column(1)

    def save(self) -> None:
        if self._keys.count <= self._elements.enter():
            raise ColumnError(self.path, "has an entry without a key; write it before save.", self._batch.context)
        super().save()

    def set_value(self, value: Any) -> None:
        if value is None:
            self.set_null()
            return
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            self._refuse(value)
        self._forget_element()
        self.open()
        for key, item in value.items() if isinstance(value, Mapping) else value:
            self.key.set_value(key)
            self.value.set_value(item)
            self.save()

    def visible_field(self) -> pa.Field:
        entry = self._vector.visible_field().type
        key, value = self.field.type.key_field, self.field.type.item_field
        return self.field.with_type(pa.map_(entry.field(0).with_name(key.name), entry.field(1).with_name(value.name)))


def _element_field(type_: pa.DataType) -> pa.Field:
    return _entry(type_) if pt.is_map(type_) else type_.value_field


def _entry(type_: pa.MapType) -> pa.Field:
    """A dict is an array of maps with two members."""
    members = [type_.key_field.with_name("key"), type_.item_field.with_name("value")]
    return pa.field("entries", pa.struct(members), nullable=False)


def _first_member(vector: VectorWriter) -> VectorWriter:
    assert isinstance(vector, maps.MapWriter)  # noqa: S101
    keys = vector.members.vector("key")
    assert keys is not None  # noqa: S101
    return keys
