"""Writers of numbers and booleans, and the base class of all scalar writers.

Values are stored in an ``array.array``. Arrow uses the memory of this array without a copy, and the array rejects
numbers that are out of range. See ``docs/decisions/row-writer-storage.md``.
"""

import math
from array import array
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from engine.result_set.conversion.defaults import declared_default, has_natural_default, missing_value_error
from engine.result_set.sizes import Sizes
from engine.result_set.writers.column import ColumnContext, VectorWriter
from engine.result_set.writers.levels import ElementLevel
from engine.result_set.writers.validity import Validity, pack_bits

_TYPE_CODES = {
    (True, 8): "b",
    (True, 16): "h",
    (True, 32): "i",
    (True, 64): "q",
    (False, 8): "B",
    (False, 16): "H",
    (False, 32): "I",
    (False, 64): "Q",
}


class ScalarWriter(VectorWriter):
    """Base class of all scalar writers. Handles nulls and default values."""

    __slots__ = ("_default", "_is_nullable", "_validity")

    def __init__(self, field: pa.Field, context: ColumnContext) -> None:
        super().__init__(field, context)
        self._is_nullable = field.nullable
        self._validity = Validity()
        self._default: pa.Scalar | None = None
        if not field.nullable:
            self._default = declared_default(field, context.path, context.batch.context)
            if self._default is None and not has_natural_default(field.type):
                context.level.required_columns.append(self)

    @property
    def needs_value(self) -> bool:
        return not self._is_nullable and self._default is None and not has_natural_default(self.field.type)

    def ensure_value(self, position: int) -> None:
        if self.count <= position:
            raise missing_value_error(self.field, self.path, self._batch.context)

    def set_null(self) -> None:
        if self._is_nullable or self._default is not None:
            count = self.count
            if count != self._level.position:
                self._seek()
                count = self.count
            self.resize(count + 1)
        else:
            self._refuse_null()

    def set_value(self, value: Any) -> None:
        if value is None:
            self.set_null()
        else:
            self._set(value)

    def _set(self, value: Any) -> None:
        """Write a value other than None."""
        raise NotImplementedError

    def _seek(self) -> None:
        """Extend or truncate the vector so that the next value is written at the position."""
        level = self._level
        if not isinstance(level, ElementLevel):
            self.resize(level.enter())
        elif self.count >= level.stop:
            level.enter()


class FixedWriter(ScalarWriter):
    """Base class of the writers that store values in an ``array.array``."""

    __slots__ = ("_fill", "_values", "_width_bytes")

    type_code = "q"

    def __init__(self, field: pa.Field, context: ColumnContext) -> None:
        super().__init__(field, context)
        self._values: array[Any] = array(self.type_code)
        self._width_bytes = self._values.itemsize
        self._fill = array(self.type_code, [0 if self._default is None else self._to_stored(self._default)])

    @staticmethod
    def _to_stored(default: pa.Scalar) -> Any:
        return default.value

    @property
    def count(self) -> int:
        return len(self._values)

    def resize(self, count: int) -> None:
        lacking = count - len(self._values)
        if lacking < 0:
            del self._values[count:]
            self._validity.truncate(count)
        elif lacking:
            if self._is_nullable:
                self._validity.add_nulls(len(self._values), lacking)
            self._values.extend(self._fill * lacking)

    def harvest(self, count: int) -> pa.Array:
        if len(self._values) < count:
            self.resize(count)
        harvested, self._values = self._values, self._values[count:]
        del harvested[count:]
        return pa.Array.from_buffers(self.field.type, count, [self._validity.harvest(count), self._buffer(harvested)])

    def _buffer(self, values: "array[Any]") -> pa.Buffer:
        return pa.py_buffer(values)

    def measure(self, sizes: Sizes, first: int, end: int) -> None:
        sizes.add_bits(self.path, "validity", end - first)
        sizes.add(self.path, "values", (end - first) * self._width_bytes)

    def capacity(self, limit_bytes: int) -> int:
        return limit_bytes // self._width_bytes

    def _put(self, stored: int) -> None:
        """Append a value that is already in its stored form.

        Writers of plain numbers do the same inline, which is faster.
        """
        if len(self._values) != self._level.position:
            self._seek()
        self._values.append(stored)


class NumberWriter(FixedWriter):
    """Base class of the writers that store Python numbers without a conversion."""

    __slots__ = ()

    @staticmethod
    def _to_stored(default: pa.Scalar) -> Any:
        return default.as_py()

    def _set(self, value: Any) -> None:
        values = self._values
        if len(values) != self._level.position:
            self._seek()
        try:
            values.append(value)
        except (OverflowError, TypeError):
            self._refuse(value)

    def set_value(self, value: Any) -> None:
        if value is True or value is False:
            self._refuse(value)
        elif value is None:
            self.set_null()
        else:
            self._set(value)


class IntWriter(NumberWriter):
    """Writer of integers. There is one subclass for each integer type."""

    __slots__ = ()

    set_int = NumberWriter._set


def int_writer(type_: pa.DataType) -> type[IntWriter]:
    """Return the writer class for an integer type."""
    return _INT_WRITERS[pt.is_signed_integer(type_), type_.bit_width]


_INT_WRITERS = {
    key: type(f"IntWriter_{code}", (IntWriter,), {"__slots__": (), "type_code": code})
    for key, code in _TYPE_CODES.items()
}


class DoubleWriter(NumberWriter):
    """Writer of doubles. Integers are rounded to the nearest double, as in SQL."""

    __slots__ = ()
    type_code = "d"

    set_int = NumberWriter._set
    set_double = NumberWriter._set


class FloatWriter(NumberWriter):
    """Writer of floats. Python floats are rounded. Values that would become infinite are rejected."""

    __slots__ = ()
    type_code = "f"

    def _set(self, value: Any) -> None:
        super()._set(value)
        if math.isinf(self._values[-1]) and not math.isinf(value):
            self._values.pop()
            self._refuse(value)

    set_int = _set
    set_double = _set


class BooleanWriter(FixedWriter):
    """Writer of booleans. Each value takes one byte until the harvest packs the values."""

    __slots__ = ()
    type_code = "B"

    @staticmethod
    def _to_stored(default: pa.Scalar) -> Any:
        return int(default.as_py())

    def _set(self, value: Any) -> None:
        if value is not True and value is not False:
            self._refuse(value)
        self._put(value)

    set_boolean = _set

    def _buffer(self, values: "array[Any]") -> pa.Buffer:
        return pack_bits(bytearray(values))

    def measure(self, sizes: Sizes, first: int, end: int) -> None:
        sizes.add_bits(self.path, "validity", end - first)
        sizes.add_bits(self.path, "values", end - first)

    def capacity(self, limit_bytes: int) -> int:
        return limit_bytes * 8


class NullWriter(ScalarWriter):
    """Writer of a LATE column, whose type is not known yet, or of a type of Spark. Accepts only nulls."""

    __slots__ = ("_count",)

    def __init__(self, field: pa.Field, context: ColumnContext) -> None:
        super().__init__(field, context)
        self._is_nullable = True
        self._count = 0

    @property
    def count(self) -> int:
        return self._count

    def _set(self, value: Any) -> None:
        self._refuse(value)

    def resize(self, count: int) -> None:
        self._count = count

    def harvest(self, count: int) -> pa.Array:
        self._count = max(self._count - count, 0)
        return pa.nulls(count, self.field.type)

    def measure(self, sizes: Sizes, first: int, end: int) -> None:
        pass

    def capacity(self, limit_bytes: int) -> int:
        return max(limit_bytes, 1) * 8
