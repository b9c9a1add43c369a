"""The writer of a map: a tuple in a column (seed 000, "Terminology"; an Arrow struct)."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from engine.projection.filter import ProjectionFilter
from engine.result_set.levels import CLOSED, InnerLevel
from engine.result_set.members import Members
from engine.result_set.sizes import Sizes
from engine.result_set.validity import Validity
from engine.result_set.writer import ColumnWriter, Place, VectorWriter
from engine.schema import TupleSchema


class MapWriter(VectorWriter):
    """A map is there as soon as one of its members is written, be it with null, or ``set_value({})`` says so.

    One that is not written is null, or, if it is required, has what its members have for missing values.
    """

    __slots__ = ("_count", "_inner", "_validity", "members")

    def __init__(
        self,
        field: pa.Field,
        place: Place,
        offered: pa.DataType,
        projection: ProjectionFilter,
    ) -> None:
        """``offered`` is the reader's type, which may have other members than the field."""
        super().__init__(field, place)
        self._count = 0
        self._validity = Validity()
        self._inner = InnerLevel(self)
        self.members = Members(Place(f"{place.path}.", self._inner, place.batch), projection, self._complete_positions)
        self.members.promise(TupleSchema.of(field.type).fields, TupleSchema.of(offered))
        if not field.nullable:
            place.level.completed.append(self)

    def _complete_positions(self) -> int:
        return self._count if self._inner.position < 0 else self._inner.position

    def column(self, key: int | str) -> ColumnWriter:
        return self.members.column(key)

    def add_column(self, field: pa.Field) -> int:
        index = self.members.add(field)
        self._batch.must_measure = True
        return index

    @property
    def schema(self) -> TupleSchema:
        return self.members.schema

    def is_projected(self, name: str) -> bool:
        return self.members.is_projected(name)

    @property
    def needs_value(self) -> bool:
        return not self.field.nullable and self.members.needs_value

    @property
    def count(self) -> int:
        return self._count

    def open(self) -> None:
        position = self._level.enter()
        self.resize(position)
        self._count = position + 1
        self._inner.position = position
        self._level.opened.append(self)

    def close(self) -> None:
        if self._inner.position >= 0:
            self._inner.leave()
            self._inner.position = CLOSED

    def abandon(self) -> None:
        self._inner.abandon()

    def complete(self, position: int) -> None:
        """A required map that was not written is one whose members were not."""
        if self._count <= position:
            self.open()
            self._level.opened.pop()
            self.close()

    def set_null(self) -> None:
        if not self.field.nullable:
            self._refuse_null()
        position = self._level.enter()
        self._inner.abandon()
        self.resize(position)
        self.resize(position + 1)

    def set_value(self, value: Any) -> None:
        if value is None:
            self.set_null()
            return
        if not isinstance(value, Mapping):
            self._refuse(value)
        self._inner.abandon()
        self.open()
        self.members.resize(self._inner.position)
        for name, member in value.items():
            self.members.column(str(name)).set_value(member)

    def resize(self, count: int) -> None:
        if count > self._count and self.field.nullable:
            self._validity.add_nulls(self._count, count - self._count)
        elif count < self._count:
            self._validity.truncate(count)
            self.members.resize(count)
        self._count = count

    def take(self, count: int) -> pa.Array:
        if self._count < count:
            self.resize(count)
        self._count -= count
        field = self.visible_field()
        arrays = self.members.take(count)
        return pa.Array.from_buffers(field.type, count, [self._validity.take(count)], children=arrays)

    def measure(self, sizes: Sizes, first: int, end: int) -> None:
        sizes.add_bits(self.path, "validity", end - first)
        self.members.measure(sizes, first, end)

    def capacity(self, limit_bytes: int) -> int:
        return min(limit_bytes * 8, self.members.capacity(limit_bytes))

    def visible_field(self) -> pa.Field:
        return self.field.with_type(pa.struct(self.members.visible_fields()))

    def settle(self) -> None:
        super().settle()
        self.members.settle()
