"""The writer of a column that is not projected.

The writer accepts every value and does not store any [result-set-loader].
"""

from typing import Any

import pyarrow as pa

from engine.result_set.writers.column import ColumnWriter
from engine.schema import TupleSchema


class DummyWriter(ColumnWriter):
    """Writer that discards the values of a column.

    The same object also serves as the writer of each member, element, key and value of the column.
    """

    __slots__ = ()

    def set_null(self) -> None:
        pass

    def set_value(self, value: Any) -> None:
        pass

    set_boolean = set_int = set_double = set_string = set_bytes = append_bytes = set_value
    set_decimal = set_date = set_time = set_timestamp = set_interval = set_value

    def column(self, key: int | str) -> ColumnWriter:
        return self

    def add_column(self, field: pa.Field) -> int:
        """Return an index. Every index refers to this same writer."""
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
