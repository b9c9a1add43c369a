"""Writers of decimals and of fixed-size binary values.

Values of these types have a fixed length, but ``array.array`` does not support them.
"""

from decimal import Decimal
from typing import Any

import pyarrow as pa

from engine.result_set.conversion.decimals import exact_context, quantize
from engine.result_set.sizes import Sizes
from engine.result_set.writers.column import ColumnContext
from engine.result_set.writers.scalars import ScalarWriter


class WideWriter(ScalarWriter):
    """Base class of the writers that store fixed-length values in a ``bytearray``."""

    __slots__ = ("_data", "_fill", "_width_bytes")

    def __init__(self, field: pa.Field, context: ColumnContext) -> None:
        super().__init__(field, context)
        self._width_bytes: int = field.type.byte_width
        self._data = bytearray()
        default = None if self._default is None else self._to_bytes(self._default.as_py())
        self._fill = default or bytes(self._width_bytes)

    @property
    def count(self) -> int:
        return len(self._data) // self._width_bytes

    def resize(self, count: int) -> None:
        lacking = count - self.count
        if lacking < 0:
            del self._data[count * self._width_bytes :]
            self._validity.truncate(count)
        elif lacking:
            if self._is_nullable:
                self._validity.add_nulls(self.count, lacking)
            self._data += self._fill * lacking

    def harvest(self, count: int) -> pa.Array:
        if self.count < count:
            self.resize(count)
        end = count * self._width_bytes
        harvested, self._data = self._data, self._data[end:]
        del harvested[end:]
        buffers = [self._validity.harvest(count), pa.py_buffer(harvested)]
        return pa.Array.from_buffers(self.field.type, count, buffers)

    def measure(self, sizes: Sizes, first: int, end: int) -> None:
        sizes.add_bits(self.path, "validity", end - first)
        sizes.add(self.path, "values", (end - first) * self._width_bytes)

    def capacity(self, limit_bytes: int) -> int:
        return limit_bytes // max(self._width_bytes, 1)

    def _set(self, value: Any) -> None:
        stored = self._to_bytes(value)
        if self.count != self._level.position:
            self._seek()
        self._data += stored

    def _to_bytes(self, value: Any) -> bytes:
        """Convert a value to its stored bytes, or raise an error."""
        raise NotImplementedError


class DecimalWriter(WideWriter):
    """Writer of decimals.

    Digits beyond the scale of the column are rejected, unless they are zeros.
    """

    __slots__ = ()

    set_decimal = WideWriter._set
    set_int = WideWriter._set

    def _to_bytes(self, value: Any) -> bytes:
        if not isinstance(value, Decimal | int) or isinstance(value, bool):
            self._refuse(value)
        type_ = self.field.type
        try:
            number = quantize(Decimal(value), type_)
        except ValueError:
            self._refuse(value)
        unscaled = int(number.scaleb(type_.scale, exact_context(type_.precision)))
        return unscaled.to_bytes(self._width_bytes, "little", signed=True)


class FixedBytesWriter(WideWriter):
    """Writer of fixed-size binary values."""

    __slots__ = ()

    set_bytes = WideWriter._set

    def _to_bytes(self, value: Any) -> bytes:
        if not isinstance(value, bytes | bytearray) or len(value) != self._width_bytes:
            self._refuse(value)
        return bytes(value)
