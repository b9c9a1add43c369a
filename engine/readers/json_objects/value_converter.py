"""Columns from objects that Python's parser has read.

Guarantees:

1. An integer in a column of doubles or floats must have an exact representation. Otherwise, a ValueConversionError is
   raised. A finite number never becomes infinite.
2. A value in a text column is the text of the value in the file. The white space in an array or an object is removed.
"""

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from engine.errors import ValueConversionError
from engine.readers.json_objects.positions import RowPositions
from engine.readers.json_objects.types import DOUBLE, FLOAT, TEXT, join_names
from engine.readers.json_objects.values import Number, Row, text_of
from engine.result_set.conversion.decimals import exact_decimal


class ValueConverter:
    """Converts values to inferred or promised types.

    Args:
        positions: The positions of the rows, for error messages.
    """

    def __init__(self, positions: RowPositions) -> None:
        self._positions = positions
        self._number = 0

    def table(self, rows: Sequence[Row], wanted: pa.StructType) -> pa.Table:
        """Convert the wanted columns of the rows.

        Raises:
            ValueConversionError: If a value does not match the type of its column.
        """
        if not wanted.num_fields:
            return pa.table({"": pa.nulls(len(rows))}).select([])
        columns = [pa.array([self._member(row, field) for row in rows], field.type) for field in wanted]
        return pa.Table.from_arrays(columns, schema=pa.schema(list(wanted)))

    def _member(self, row: Row, field: pa.Field) -> Any:
        members, self._number = row
        return self._value(members.get(field.name), field.type, field.name)

    def _value(self, value: Any, type_: pa.DataType, path: str) -> Any:
        if value is None:
            return None
        if type_.equals(TEXT):
            return text_of(value)
        if isinstance(value, dict | list):
            return self._nested_value(value, type_, path)
        if isinstance(value, Number):
            return self._number_value(value, type_, path)
        if isinstance(value, bool) and pa.types.is_boolean(type_):
            return value
        if isinstance(value, str) and pa.types.is_decimal128(type_):
            return self._decimal(value, type_, path)
        raise self._error(path, text_of(value), type_)

    def _nested_value(self, value: Any, type_: pa.DataType, path: str) -> Any:
        if isinstance(value, list) and pa.types.is_list(type_):
            return [self._value(one, type_.value_type, path) for one in value]
        if isinstance(value, dict) and pa.types.is_struct(type_):
            return {one.name: self._value(value.get(one.name), one.type, join_names(path, one.name)) for one in type_}
        if isinstance(value, dict) and pa.types.is_map(type_):
            return [(name, self._value(one, type_.item_type, join_names(path, name))) for name, one in value.items()]
        raise self._error(path, text_of(value), type_)

    def _number_value(self, value: Number, type_: pa.DataType, path: str) -> Any:
        if pa.types.is_integer(type_) and value.is_integer and _fits(type_, int(value)):
            return int(value)
        if pa.types.is_decimal128(type_):
            return self._decimal(value, type_, path)
        if type_.equals(DOUBLE):
            return self._floating(value, float(value), "double", path)
        if type_.equals(FLOAT):
            return self._floating(value, pa.scalar(float(value), FLOAT).as_py(), "float", path)
        raise self._error(path, str(value), type_)

    def _floating(self, value: Number, number: float, type_: str, path: str) -> float:
        if math.isinf(number) and not value.endswith("Infinity"):
            raise self._error(path, str(value), f"in the range of {type_}")
        if value.is_integer and int(number) != int(value):
            raise self._error(path, str(value), f"exactly representable as {type_}")
        return number

    def _decimal(self, value: str, type_: pa.Decimal128Type, path: str) -> Decimal:
        try:
            return exact_decimal(value.strip(), type_)
        except ValueError:
            raise self._error(path, str(value), type_) from None

    def _error(self, path: str, value: str, wanted: object) -> ValueConversionError:
        return ValueConversionError(path, value, wanted, self._positions.at(self._number))


def _fits(type_: pa.DataType, value: int) -> bool:
    """Return whether an integer is in the range of a signed type."""
    bits: int = type_.bit_width - 1
    return -(1 << bits) <= value < 1 << bits
