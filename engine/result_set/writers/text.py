"""Writers of text and bytes.

These writers store the bytes of all values consecutively, and the offset at which each value ends.
"""

from array import array
from typing import Any

import pyarrow as pa

from engine.errors import LoaderStateError, ValueConversionError, ValueTooLargeError
from engine.result_set.sizes import Sizes, is_large
from engine.result_set.writers.column import ColumnContext
from engine.result_set.writers.levels import ElementLevel
from engine.result_set.writers.scalars import ScalarWriter


class VariableWriter(ScalarWriter):
    """Base class of the writers of variable-length values.

    A value that exceeds the limit of the batch does not cause the overflow immediately. Instead, the row is measured
    when it is saved, because the value may still be replaced and the row may still be discarded.
    """

    __slots__ = ("_data", "_fill", "_limit_bytes", "_offsets")

    def __init__(self, field: pa.Field, context: ColumnContext) -> None:
        super().__init__(field, context)
        self._data = bytearray()
        self._offsets: array[int] = array("q" if is_large(field.type) else "i", [0])
        self._limit_bytes = context.batch.limits.vector_bytes
        self._fill = b"" if self._default is None else self._default.as_buffer().to_pybytes()
        if self._fill:
            context.level.required_columns.append(self)

    def ensure_value(self, position: int) -> None:
        """Write a default value that takes space, so that the row's size includes it."""
        if self.count <= position:
            self.resize(position + 1)
            if len(self._data) > self._limit_bytes:
                self._check_size(len(self._data), self._offsets[-2])

    @property
    def count(self) -> int:
        return len(self._offsets) - 1

    def resize(self, count: int) -> None:
        offsets = self._offsets
        lacking = count - self.count
        if lacking < 0:
            del offsets[count + 1 :]
            del self._data[offsets[-1] :]
            self._validity.truncate(count)
        elif lacking:
            self._fill_up(lacking)

    def _fill_up(self, lacking: int) -> None:
        offsets = self._offsets
        if self._is_nullable:
            self._validity.add_nulls(self.count, lacking)
        if self._fill:
            start, step = offsets[-1], len(self._fill)
            self._data += self._fill * lacking
            offsets.extend(range(start + step, start + step * lacking + 1, step))
        else:
            offsets.extend(array(offsets.typecode, offsets[-1:]) * lacking)

    def harvest(self, count: int) -> pa.Array:
        if self.count < count:
            self.resize(count)
        offsets, data = self._offsets, self._data
        end = offsets[count]
        self._data = data[end:]
        self._offsets = array(offsets.typecode, [offset - end for offset in offsets[count:]])
        del offsets[count + 1 :]
        del data[end:]
        buffers = [self._validity.harvest(count), pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(self.field.type, count, buffers)

    def measure(self, sizes: Sizes, first: int, end: int) -> None:
        sizes.add_bits(self.path, "validity", end - first)
        sizes.add(self.path, "offsets", (end - first + 1) * self._offsets.itemsize)
        last = self.count
        size_bytes = self._offsets[min(end, last)] - self._offsets[min(first, last)]
        sizes.add(self.path, "values", size_bytes + len(self._fill) * (end - max(first, min(end, last))))

    def capacity(self, limit_bytes: int) -> int:
        return limit_bytes // self._offsets.itemsize - 1

    def append_bytes(self, value: bytes) -> None:
        if isinstance(self._level, ElementLevel):
            raise LoaderStateError(
                f"Column {self.path!r}: array elements cannot be written in pieces. Use set_bytes instead."
            )
        if not isinstance(value, bytes | bytearray | memoryview):
            self._refuse(value)
        position = self._level.enter()
        if self.count != position + 1 or self._validity.is_null(position):
            self.resize(position)
            self._offsets.append(len(self._data))
        self._data += value
        end = len(self._data)
        if end > self._limit_bytes:
            self._check_size(end, self._offsets[-2])
        self._offsets[-1] = end

    def _put(self, value: bytes) -> None:
        offsets = self._offsets
        if len(offsets) != self._level.position + 1:
            self._seek()
        data = self._data
        data += value
        end = len(data)
        if end > self._limit_bytes:
            self._check_size(end, offsets[-1])
        offsets.append(end)

    def _check_size(self, end: int, start: int) -> None:
        """Raise an error if a value is too large for any batch.

        The error is also raised if all values of the row together are too large. If the value is within these limits,
        the method only requests that the row is measured.

        Args:
            end: The end of the data.
            start: The start of the last value. If the value is rejected, the data is truncated to this position.
        """
        size_bytes = end - start
        if size_bytes > self._limit_bytes or end > 2 * self._limit_bytes:
            del self._data[start:]
            self._offsets[-1] = start
            least_bytes = max(size_bytes, end - self._limit_bytes)
            raise ValueTooLargeError(self.path, least_bytes, self._limit_bytes, self._batch.context)
        self._batch.must_measure = True


class TextWriter(VariableWriter):
    """Writer of text.

    Bytes from ``append_bytes`` are validated as UTF-8 at the harvest, because a piece may end in the middle of a
    character.
    """

    __slots__ = ("_has_pieces",)

    def __init__(self, field: pa.Field, context: ColumnContext) -> None:
        super().__init__(field, context)
        self._has_pieces = False

    def _set(self, value: Any) -> None:
        offsets = self._offsets
        if len(offsets) != self._level.position + 1:
            self._seek()
        data = self._data
        try:
            data += value.encode()
        except (AttributeError, UnicodeEncodeError):
            self._refuse(value)
        end = len(data)
        if end > self._limit_bytes:
            self._check_size(end, offsets[-1])
        offsets.append(end)

    set_string = _set

    def set_bytes(self, value: bytes) -> None:
        try:
            value.decode()
        except (AttributeError, UnicodeDecodeError):
            self._refuse(value)
        self._put(value)

    def append_bytes(self, value: bytes) -> None:
        self._has_pieces = True
        super().append_bytes(value)

    def harvest(self, count: int) -> pa.Array:
        harvested = super().harvest(count)
        if self._has_pieces:
            self._has_pieces = self.count > 0
            self._check_text(harvested)
        return harvested

    def _check_text(self, harvested: pa.Array) -> None:
        for row, value in enumerate(harvested.cast(pa.large_binary())):
            try:
                (value.as_py() or b"").decode()
            except UnicodeDecodeError:
                context = self._batch.context.at(f"row {row + 1} of the batch")
                raise ValueConversionError(self.path, value.as_py(), self.field.type, context) from None


class BytesWriter(VariableWriter):
    """Writer of bytes."""

    __slots__ = ()

    def _set(self, value: Any) -> None:
        if not isinstance(value, bytes | bytearray | memoryview):
            self._refuse(value)
        self._put(bytes(value))

    set_bytes = _set
