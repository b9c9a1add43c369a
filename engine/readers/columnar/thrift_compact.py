"""Thrift's compact protocol, in which the footer of a Parquet file is encoded.

Source: [parquet-format].
"""

from collections.abc import Iterator

from engine.readers.columnar.orc_tail import read_varint

_BOOLEANS = frozenset({1, 2})
_LONG_LIST = 15
_MAX_DEPTH = 64


class CompactReader:
    """A reader of Thrift's compact protocol.

    Args:
        data: The encoded struct.

    Raises:
        IndexError: If the data ends too early, or is nested too deeply.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def position(self) -> int:
        """The position of the next byte."""
        return self._position

    def fields(self) -> Iterator[tuple[int, int]]:
        """Yield the number and the kind of each field. The caller reads the value before the next field."""
        number = 0
        while True:
            header = self._byte()
            if header == 0:
                return
            delta = header >> 4
            number = number + delta if delta else self._integer()
            yield number, header & 15

    def value(self, kind: int, depth: int = 0) -> object:
        """Read a value. Values that no annotation has are None."""
        if depth > _MAX_DEPTH:
            raise IndexError("The footer is nested too deeply.")
        match kind:
            case 1 | 2:  # true or false
                found: object = None
            case 3:
                found = self._byte()
            case 4 | 5 | 6:
                found = self._integer()
            case 7:  # a double
                found = self._bytes(8)
            case 8:
                found = self._bytes(self._varint())
            case 9 | 10:
                found = self._list(depth)
            case 12:
                found = {number: self.value(inner, depth + 1) for number, inner in self.fields()}
            case _:
                raise IndexError(f"The footer contains a value of the unknown kind {kind}.")
        return found

    def start_list(self) -> int:
        """Read the start of a list of structs, and return its length. The caller reads the structs."""
        return self._start_list()[0]

    def _start_list(self) -> tuple[int, int]:
        header = self._byte()
        count = header >> 4
        return self._varint() if count == _LONG_LIST else count, header & 15

    def _list(self, depth: int) -> list[object]:
        count, kind = self._start_list()
        return [self._element(kind, depth) for _ in range(count)]

    def _element(self, kind: int, depth: int) -> object:
        """Read an element of a list, in which a boolean occupies a byte."""
        return self._byte() if kind in _BOOLEANS else self.value(kind, depth + 1)

    def _byte(self) -> int:
        found = self._data[self._position]
        self._position += 1
        return found

    def _bytes(self, length: int) -> bytes:
        start, self._position = self._position, self._position + length
        if self._position > len(self._data):
            raise IndexError("The footer ends too early.")
        return self._data[start : self._position]

    def _varint(self) -> int:
        number, self._position = read_varint(self._data, self._position)
        return number

    def _integer(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)
