"""Which values of a vector are null.

Nulls are stored as one byte for each value up to the last null, and packed into a bitmap at the harvest.

A value that is not null costs nothing here, and most values are not.
"""

import pyarrow as pa

_NULL = b"\x00"
_VALID = b"\x01"


class Validity:
    """Which positions of a vector are null."""

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add_nulls(self, first: int, count: int) -> None:
        """Mark ``count`` positions from ``first`` on as null.

        Positions before ``first`` without a mark are valid.
        """
        known = self._bytes
        known += _VALID * (first - len(known))
        known += _NULL * count

    def is_null(self, position: int) -> bool:
        return position < len(self._bytes) and self._bytes[position] == 0

    def truncate(self, count: int) -> None:
        del self._bytes[count:]

    def harvest(self, count: int) -> pa.Buffer | None:
        """Return the bitmap of the first positions, and move the others to the front.

        Returns:
            None if no position is null.
        """
        harvested, self._bytes = self._bytes[:count], self._bytes[count:]
        if _NULL not in harvested:
            return None
        harvested += _VALID * (count - len(harvested))
        return pack_bits(harvested)


def pack_bits(flags: bytearray) -> pa.Buffer:
    """Return bytes that are 0 or 1 as bits."""
    array = pa.Array.from_buffers(pa.uint8(), len(flags), [None, pa.py_buffer(flags)], 0)
    return array.cast(pa.bool_()).buffers()[1]
