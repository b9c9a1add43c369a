"""Validity of the values in a vector.

The writer stores one byte for each value up to the last null. The harvest packs these bytes into a bitmap.

Writing a value that is not null does not change this state. Most values are not null, so they are not slowed down.
"""

import pyarrow as pa

_NULL = b"\x00"
_VALID = b"\x01"


class Validity:
    """Records which positions of a vector are null."""

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add_nulls(self, first: int, count: int) -> None:
        """Mark ``count`` positions as null, starting at ``first``.

        Earlier positions that are not marked yet are valid.
        """
        known = self._bytes
        known += _VALID * (first - len(known))
        known += _NULL * count

    def is_null(self, position: int) -> bool:
        return position < len(self._bytes) and self._bytes[position] == 0

    def truncate(self, count: int) -> None:
        del self._bytes[count:]

    def harvest(self, count: int) -> pa.Buffer | None:
        """Return the bitmap of the first positions, and move the other positions to the front.

        Returns:
            The bitmap. None if no position is null.
        """
        harvested, self._bytes = self._bytes[:count], self._bytes[count:]
        if _NULL not in harvested:
            return None
        harvested += _VALID * (count - len(harvested))
        return pack_bits(harvested)


def pack_bits(flags: bytearray) -> pa.Buffer:
    """Pack bytes with the values 0 and 1 into bits."""
    array = pa.Array.from_buffers(pa.uint8(), len(flags), [None, pa.py_buffer(flags)], 0)
    return array.cast(pa.bool_()).buffers()[1]
