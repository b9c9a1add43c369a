"""The writer of a dict column, which is stored as an Arrow map.

A dict is written as an array of maps with the members ``key`` and ``value``.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from engine.errors import ColumnError
from engine.projection.filter import PROJECT_ALL
from engine.result_set.writers.arrays import ArrayWriter
from engine.result_set.writers.column import ColumnContext, ColumnWriter, VectorWriter
from engine.result_set.writers.maps import MapWriter


class DictWriter(ArrayWriter):
    """Writer of a dict column.

    Write each entry with ``key`` and ``value``, and end the entry with ``save``. If a key occurs more than once, all
    entries are stored.
    """

    __slots__ = ("_keys",)

    def __init__(self, field: pa.Field, context: ColumnContext, offered: pa.DataType) -> None:
        """Create the writer. ``offered`` is the type of the column in the reader."""
        super().__init__(field, context, _entry_field(offered), _entry_field(field.type), PROJECT_ALL)
        self._keys = _key_vector(self._vector)

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
        self.abandon()
        self.open()
        for key, item in value.items() if isinstance(value, Mapping) else value:
            self.key.set_value(key)
            self.value.set_value(item)
            self.save()

    def visible_field(self) -> pa.Field:
        entry = self._vector.visible_field().type
        key, value = self.field.type.key_field, self.field.type.item_field
        return self.field.with_type(pa.map_(entry.field(0).with_name(key.name), entry.field(1).with_name(value.name)))


def _entry_field(type_: pa.MapType) -> pa.Field:
    members = [type_.key_field.with_name("key"), type_.item_field.with_name("value")]
    return pa.field("entries", pa.struct(members), nullable=False)


def _key_vector(entries: VectorWriter) -> VectorWriter:
    assert isinstance(entries, MapWriter)  # noqa: S101 - an entry is a struct, so the factory makes a MapWriter
    keys = entries.columns.vector("key")
    assert keys is not None  # noqa: S101 - PROJECT_ALL keeps both members
    return keys
