"""Which values of a vector are null: one byte each up to the last null, a bitmap when they are handed over.

A value that is not null costs nothing here; that is most of them.
"""

import pyarrow as pa

_NULL = b"\x00"
_VALID = b"\x01"


class Validity:
    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add_nulls(self, first: int, count: int) -> None:
        """Nulls from a position on; the positions before it that nobody spoke of are not null."""
        known = self._bytes
        known += _VALID * (first - len(known))
        known += _NULL * count

    def is_null(self, position: int) -> bool:
        return position < len(self._bytes) and self._bytes[position] == 0

    def truncate(self, count: int) -> None:
        del self._bytes[count:]

    def take(self, count: int) -> pa.Buffer | None:
        """The bitmap of the first positions, None without nulls among them; the others move to the front."""
        taken, self._bytes = self._bytes[:count], self._bytes[count:]
        if _NULL not in taken:
            return None
        taken += _VALID * (count - len(taken))
        return packed(taken)


def packed(flags: bytearray) -> pa.Buffer:
    """Bytes that are 0 or 1, as bits."""
    array = pa.Array.from_buffers(pa.uint8(), len(flags), [None, pa.py_buffer(flags)], 0)
    return array.cast(pa.bool_()).buffers()[1]
