"""Writers of values of more than eight bytes that all have the same length: decimals, and bytes of fixed size."""

from decimal import Decimal
from typing import Any

import pyarrow as pa

from engine.result_set.scalars import ScalarWriter
from engine.result_set.sizes import Sizes
from engine.result_set.writer import Place


class WideWriter(ScalarWriter):
    __slots__ = ("_data", "_fill", "_width_bytes")

    def __init__(self, field: pa.Field, place: Place) -> None:
        super().__init__(field, place)
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

    def take(self, count: int) -> pa.Array:
        if self.count < count:
            self.resize(count)
        end = count * self._width_bytes
        taken, self._data = self._data, self._data[end:]
        del taken[end:]
        return pa.Array.from_buffers(self.field.type, count, [self._validity.take(count), pa.py_buffer(taken)])

    def measure(self, sizes: Sizes, first: int, end: int) -> None:
        sizes.add_bits(self.path, "validity", end - first)
        sizes.add(self.path, "values", (end - first) * self._width_bytes)

    def capacity(self, limit_bytes: int) -> int:
        return limit_bytes // max(self._width_bytes, 1)

    def set_value(self, value: Any) -> None:
        if value is None:
            self.set_null()
        else:
            self._put(self._to_bytes(value))

    def _to_bytes(self, value: Any) -> bytes:
        raise NotImplementedError

    def _put(self, value: bytes) -> None:
        if self.count != self._level.position:
            self._seek()
        self._data += value


class DecimalWriter(WideWriter):
    """Digits behind the scale of the column are refused unless they are zeros."""

    __slots__ = ()

    def set_decimal(self, value: Decimal) -> None:
        self._put(self._to_bytes(value))

    def set_int(self, value: int) -> None:
        self._put(self._to_bytes(value))

    def _to_bytes(self, value: Any) -> bytes:
        if not isinstance(value, Decimal | int) or isinstance(value, bool):
            self._refuse(value)
        sign, digits, exponent = Decimal(value).as_tuple()
        if not isinstance(exponent, int):
            self._refuse(value)
        return self._scaled(sign, int("".join(map(str, digits)) or "0"), exponent, value)

    def _scaled(self, sign: int, digits: int, exponent: int, value: object) -> bytes:
        type_ = self.field.type
        shift = exponent + type_.scale
        if digits and shift > type_.precision:
            self._refuse(value)
        unscaled, lost = (digits * 10 ** max(shift, 0), 0) if digits else (0, 0)
        if digits and shift < 0:
            unscaled, lost = divmod(digits, 10**-shift)
        if lost or unscaled >= 10**type_.precision:
            self._refuse(value)
        return (-unscaled if sign else unscaled).to_bytes(self._width_bytes, "little", signed=True)


class FixedBytesWriter(WideWriter):
    __slots__ = ()

    def set_bytes(self, value: bytes) -> None:
        self._put(self._to_bytes(value))

    def _to_bytes(self, value: Any) -> bytes:
        if not isinstance(value, bytes | bytearray) or len(value) != self._width_bytes:
            self._refuse(value)
        return bytes(value)
