"""The writer of a column whose promised type differs from its offered type.

The writer converts each value.
"""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from engine.errors import ValueConversionError
from engine.result_set.conversion.conversion_errors import RefusedError
from engine.result_set.conversion.convert import convert_values
from engine.result_set.conversion.decimals import quantize
from engine.result_set.writers.column import ColumnContext, ColumnWriter, VectorWriter


class ConvertingWriter(ColumnWriter):
    """Writer that converts values of the offered type to the promised type.

    The conversion rules are those of :mod:`engine.result_set.conversion.convert`.
    """

    __slots__ = ("_vector",)

    def __init__(self, offered: pa.Field, context: ColumnContext, vector: VectorWriter) -> None:
        super().__init__(offered, context)
        self._vector = vector

    def set_null(self) -> None:
        self._vector.set_null()

    def set_value(self, value: Any) -> None:
        if value is None:
            self._vector.set_null()
            return
        try:
            result = convert_values(self._to_offered(value), self._vector.field.type, self.path)[0]
        except RefusedError as error:
            raise ValueConversionError(self.path, value, error.wanted, self._batch.context) from None
        if pt.is_temporal(result.type):
            self._vector.set_int(result.value)
        else:
            self._vector.set_value(result.as_py())

    set_boolean = set_int = set_double = set_string = set_bytes = set_value
    set_decimal = set_date = set_time = set_timestamp = set_interval = set_value

    def _to_offered(self, value: Any) -> pa.Array:
        """Convert a Python value to the offered type, or raise an error."""
        try:
            if pt.is_decimal(self.field.type) and isinstance(value, Decimal):
                value = quantize(value, self.field.type)
            return pa.array([value], self.field.type)
        except (ValueError, pa.ArrowTypeError, OverflowError):
            self._refuse(value)
