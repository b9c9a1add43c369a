"""The writer of a column that is not projected: it accepts everything and keeps nothing (seed 000)."""

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from engine.result_set.writer import ColumnWriter
from engine.schema import TupleSchema


class DummyWriter(ColumnWriter):
    """Stands for the column, and for each member, element, key and value in it."""

    __slots__ = ()

    def set_null(self) -> None:
        pass

    def set_boolean(self, value: bool) -> None:
        pass

    def set_int(self, value: int) -> None:
        pass

    def set_double(self, value: float) -> None:
        pass

    def set_string(self, value: str) -> None:
        pass

    def set_bytes(self, value: bytes) -> None:
        pass

    def append_bytes(self, value: bytes) -> None:
        pass

    def set_decimal(self, value: Decimal) -> None:
        pass

    def set_date(self, value: date) -> None:
        pass

    def set_time(self, value: time) -> None:
        pass

    def set_timestamp(self, value: datetime) -> None:
        pass

    def set_interval(self, value: timedelta) -> None:
        pass

    def set_value(self, value: Any) -> None:
        pass

    def column(self, key: int | str) -> ColumnWriter:
        return self

    def add_column(self, field: pa.Field) -> int:
        """Returns: An index, of the same dummy as every other."""
        return 0

    @property
    def schema(self) -> TupleSchema:
        return TupleSchema()

    def is_projected(self, name: str) -> bool:
        return False

    @property
    def element(self) -> ColumnWriter:
        return self

    @property
    def key(self) -> ColumnWriter:
        return self

    @property
    def value(self) -> ColumnWriter:
        return self

    def save(self) -> None:
        pass
