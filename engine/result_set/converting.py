"""The writer of a column that was promised with another type: each value is converted before it is kept."""

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from engine.errors import ValueConversionError
from engine.result_set.conversion import converted_values
from engine.result_set.refusal import RefusedError
from engine.result_set.writer import ColumnWriter, Place, VectorWriter


class ConvertingWriter(ColumnWriter):
    """Takes what a column of the offered type takes, under the rules of :mod:`engine.result_set.conversion`."""

    __slots__ = ("_kept",)

    def __init__(self, offered: pa.Field, kept: VectorWriter) -> None:
        super().__init__(offered, Place(kept.path, kept._level, kept._batch))
        self._kept = kept

    def set_null(self) -> None:
        self._kept.set_null()

    def set_boolean(self, value: bool) -> None:
        self.set_value(value)

    def set_int(self, value: int) -> None:
        self.set_value(value)

    def set_double(self, value: float) -> None:
        self.set_value(value)

    def set_string(self, value: str) -> None:
        self.set_value(value)

    def set_bytes(self, value: bytes) -> None:
        self.set_value(value)

    def set_decimal(self, value: Decimal) -> None:
        self.set_value(value)

    def set_date(self, value: date) -> None:
        self.set_value(value)

    def set_time(self, value: time) -> None:
        self.set_value(value)

    def set_timestamp(self, value: datetime) -> None:
        self.set_value(value)

    def set_interval(self, value: timedelta) -> None:
        self.set_value(value)

    def set_value(self, value: Any) -> None:
        if value is None:
            self._kept.set_null()
            return
        try:
            result = converted_values(self._offered(value), self._kept.field.type, self.path)[0]
        except RefusedError as error:
            raise ValueConversionError(self.path, value, error.wanted, self._batch.context) from None
        self._keep(result)

    def _offered(self, value: Any) -> pa.Array:
        """The value as one of the offered type: what that type does not take is refused, as its writer would."""
        try:
            return pa.array([value], self.field.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
            self._refuse(value)

    def _keep(self, result: pa.Scalar) -> None:
        type_ = result.type
        if pt.is_temporal(type_):
            self._kept.set_int(result.value)
        else:
            self._kept.set_value(result.as_py())
