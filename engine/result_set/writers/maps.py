"""The writer of a map column, which is stored as an Arrow struct.

A map is a tuple that is nested in a column [result-set-loader "Terminology"].
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from engine.projection.filter import ProjectionFilter
from engine.result_set.sizes import Sizes
from engine.result_set.writers.column import ColumnContext, ColumnWriter, VectorWriter
from engine.result_set.writers.levels import CLOSED, InnerLevel
from engine.result_set.writers.tuple_columns import TupleColumns
from engine.result_set.writers.validity import Validity
from engine.schema import TupleSchema


class MapWriter(VectorWriter):
    """Writer of a map column.

    A map exists as soon as one of its members is written, even if the member is null, or after ``set_value({})``. A
    map that is not written is null. If the column is required, each member of a missing map gets its own missing
    value instead.

    Attributes:
        columns: The members of the map.
    """

    __slots__ = ("_count", "_inner", "_validity", "columns")

    def __init__(
        self, field: pa.Field, context: ColumnContext, offered: pa.DataType, projection: ProjectionFilter
    ) -> None:
        """Create the writer and the writers of its members.

        Args:
            field: The column as it appears in the batch.
            context: The context of the column.
            offered: The type of the column in the reader. Its members may differ from the members of ``field``.
            projection: The filter for the members.
        """
        super().__init__(field, context)
        self._count = 0
        self._validity = Validity()
        self._inner = InnerLevel(self)
        self.columns = TupleColumns(context.inside(".", self._inner), projection, self._count_complete)
        self.columns.add_promised(TupleSchema.of(field.type).fields, TupleSchema.of(offered))
        if not field.nullable:
            context.level.required_columns.append(self)

    def _count_complete(self) -> int:
        return self._count if self._inner.position < 0 else self._inner.position

    def column(self, key: int | str) -> ColumnWriter:
        return self.columns.column(key)

    def add_column(self, field: pa.Field) -> int:
        index = self.columns.add(field)
        self._batch.must_measure = True
        return index

    @property
    def schema(self) -> TupleSchema:
        return self.columns.schema

    def is_projected(self, name: str) -> bool:
        return self.columns.is_projected(name)

    @property
    def needs_value(self) -> bool:
        return not self.field.nullable and self.columns.needs_value

    @property
    def count(self) -> int:
        return self._count

    def open(self) -> None:
        position = self._level.enter()
        self.resize(position)
        self._count = position + 1
        self._inner.position = position
        self._level.open_values.append(self)

    def close(self) -> None:
        if self._inner.position >= 0:
            self._inner.leave()
            self._inner.position = CLOSED

    def abandon(self) -> None:
        self._inner.abandon()

    def ensure_value(self, position: int) -> None:
        """Write a map with missing members if no map was written at the position."""
        if self._count <= position:
            self.open()
            self._level.open_values.pop()
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
        self.columns.truncate(self._inner.position)
        for name, member in value.items():
            self.columns.column(str(name)).set_value(member)

    def resize(self, count: int) -> None:
        if count > self._count and self.field.nullable:
            self._validity.add_nulls(self._count, count - self._count)
        elif count < self._count:
            self._validity.truncate(count)
            self.columns.truncate(count)
        self._count = count

    def harvest(self, count: int) -> pa.Array:
        if self._count < count:
            self.resize(count)
        self._count -= count
        field = self.visible_field()
        arrays = self.columns.harvest(count)
        return pa.Array.from_buffers(field.type, count, [self._validity.harvest(count)], children=arrays)

    def measure(self, sizes: Sizes, first: int, end: int) -> None:
        sizes.add_bits(self.path, "validity", end - first)
        self.columns.measure(sizes, first, end)

    def capacity(self, limit_bytes: int) -> int:
        return min(limit_bytes * 8, self.columns.capacity(limit_bytes))

    def visible_field(self) -> pa.Field:
        return self.field.with_type(pa.struct(self.columns.visible_fields()))

    def make_visible(self) -> None:
        super().make_visible()
        self.columns.make_visible()
