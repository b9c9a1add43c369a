"""Fixtures for result sets: write rows value by value, and harvest checked batches."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
import pytest

from engine.limits import BatchLimits
from engine.result_set.loader import ResultSetLoader
from engine.result_set.writers.column import ColumnWriter
from engine.schema import TupleSchema

_SETTERS: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pt.is_boolean, "set_boolean"),
    (pt.is_integer, "set_int"),
    (pt.is_floating, "set_double"),
    (pt.is_string, "set_string"),
    (pt.is_binary, "set_bytes"),
    (pt.is_decimal, "set_decimal"),
    (pt.is_date, "set_date"),
    (pt.is_timestamp, "set_timestamp"),
)


@dataclass(frozen=True, slots=True)
class ValueWriter:
    """Writes values one by one with the setters of their types. A value ``...`` is not written."""

    def saved_row(self, loader: ResultSetLoader, row: dict[str, Any]) -> None:
        """Start a row, write its values, and save it."""
        loader.writer.start_row()
        self.row(loader, row)
        loader.writer.save_row()

    def row(self, loader: ResultSetLoader, row: dict[str, Any]) -> None:
        """Write the values of a row. The test starts and saves the row."""
        for name, value in row.items():
            field = loader.writer.schema.find(name)
            assert field is not None
            self.value(loader.writer.column(name), field.type, value)

    def value(self, writer: ColumnWriter, type_: pa.DataType, value: Any) -> None:
        if value is ...:
            return
        if value is None:
            writer.set_null()
        elif pt.is_struct(type_):
            self._map(writer, type_, value)
        elif pt.is_map(type_):
            self._dict(writer, type_, value)
        elif pt.is_list(type_):
            self._array(writer, type_, value)
        else:
            getattr(writer, next(name for is_it, name in _SETTERS if is_it(type_)))(value)

    def _map(self, writer: ColumnWriter, type_: pa.DataType, value: dict[str, Any]) -> None:
        if all(member is ... for member in value.values()):
            writer.set_value({})
        for name, member in value.items():
            self.value(writer.column(name), type_.field(name).type, member)

    def _dict(self, writer: ColumnWriter, type_: pa.DataType, value: list[tuple[Any, Any]]) -> None:
        if not value:
            writer.set_value({})
        for key, item in value:
            self.value(writer.key, type_.key_type, key)
            self.value(writer.value, type_.item_type, item)
            writer.save()

    def _array(self, writer: ColumnWriter, type_: pa.DataType, value: list[Any]) -> None:
        if not value:
            writer.set_value([])
        for element in value:
            self.value(writer.element, type_.value_type, element)
            writer.save()


@pytest.fixture(scope="session")
def write() -> ValueWriter:
    return ValueWriter()


@dataclass(frozen=True, slots=True)
class Loaders:
    """Makes loaders and harvests them."""

    def of(self, *fields: pa.Field, **limits: Any) -> ResultSetLoader:
        """Return a loader with these columns and an active batch."""
        loader = ResultSetLoader(schema=TupleSchema(fields), limits=BatchLimits(**limits))
        loader.start_batch()
        return loader

    def harvest_all(self, loader: ResultSetLoader) -> list[pa.RecordBatch]:
        """Harvest the active batch and all batches of the rows that wait."""
        batches = [harvest_valid(loader)]
        while loader.has_look_ahead:
            loader.start_batch()
            batches.append(harvest_valid(loader))
        return batches


def harvest_valid(loader: ResultSetLoader) -> pa.RecordBatch:
    batch = loader.harvest()
    batch.validate(full=True)
    return batch


@pytest.fixture(scope="session")
def loaders() -> Loaders:
    return Loaders()
