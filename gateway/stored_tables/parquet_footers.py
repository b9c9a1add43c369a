"""Reads the number of rows from the footers of Parquet files.

A footer contains the columns, then the number of rows, then the row groups. Libraries decode the whole footer, and some
footers of a few megabytes decode to gigabytes. This module skips the columns and decodes only the number.

Guarantee: The memory and the work are bounded for any content. At most ``MAX_FOOTER_BYTES`` of each file are read, and
at most ``MAX_VALUES`` values of all files together are skipped.

Source: [parquet-format].
"""

import os
from typing import BinaryIO

MAX_FOOTER_BYTES = 1024 * 1024
MAX_VALUES = 500_000

_MAGIC = b"PAR1"
_TRAILER_BYTES = 8
_MAX_DEPTH = 16
_MAX_VARINT_BYTES = 10
_NUM_ROWS = 3
"""The id of the field of ``FileMetaData`` that contains the number of rows."""

# Kinds of values in the Thrift compact protocol.
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)
_LONG_LIST = 15


class UnknownRowCountError(ValueError):
    """An error for a file whose number of rows cannot be determined.

    A limit was reached, or the file is not a Parquet file with a plain footer.
    """


class ParquetRowCounter:
    """Counts the rows in Parquet files."""

    def __init__(self) -> None:
        self._values = 0
        self._data = b""
        self._position = 0

    def count(self, file: BinaryIO) -> int:
        """Return the number of rows in a file. An empty file has no rows, as for Spark.

        Raises:
            UnknownRowCountError: If the number cannot be determined.
            OSError: If the file cannot be read.
        """
        if file.seek(0, os.SEEK_END) == 0:
            return 0
        self._data, self._position = _read_footer(file), 0
        try:
            rows = self._find_row_count()
        except IndexError:
            raise UnknownRowCountError("the footer ends before the number of rows") from None
        if rows < 0:
            raise UnknownRowCountError(f"the number of rows is {rows}")
        return rows

    def _find_row_count(self) -> int:
        field = 0
        while True:
            header = self._byte()
            kind = header & 15
            if kind == _STOP:
                raise UnknownRowCountError("the footer contains no number of rows")
            delta = header >> 4
            field = field + delta if delta else self._integer()
            if field == _NUM_ROWS and kind == _I64:
                return self._integer()
            self._skip_field(kind, 1)

    def _skip_field(self, kind: int, depth: int) -> None:
        if kind not in {_TRUE, _FALSE}:  # the kind of a field is its value
            self._skip(kind, depth)

    def _skip(self, kind: int, depth: int) -> None:
        self._values += 1
        if self._values > MAX_VALUES or depth > _MAX_DEPTH:
            raise UnknownRowCountError("the footers contain too many values")
        if kind in {_I16, _I32, _I64}:
            self._varint()
        elif kind in {_TRUE, _FALSE, _BYTE}:
            self._position += 1
        elif kind == _DOUBLE:
            self._position += 8
        elif kind == _BINARY:
            length_bytes = self._varint()
            self._position += length_bytes
        elif kind in {_LIST, _SET}:
            header = self._byte()
            size = header >> 4
            for _ in range(self._varint() if size == _LONG_LIST else size):
                self._skip(header & 15, depth + 1)
        elif kind == _STRUCT:
            while (header := self._byte()) & 15 != _STOP:
                if not header >> 4:
                    self._varint()
                self._skip_field(header & 15, depth + 1)
        else:
            raise UnknownRowCountError(f"the footer contains a value of kind {kind}")

    def _byte(self) -> int:
        value = self._data[self._position]
        self._position += 1
        return value

    def _varint(self) -> int:
        value = 0
        for number in range(_MAX_VARINT_BYTES):
            byte = self._byte()
            value |= (byte & 0x7F) << (7 * number)
            if byte < 0x80:
                return value
        raise UnknownRowCountError("the footer contains an integer that is too long")

    def _integer(self) -> int:
        encoded = self._varint()
        return encoded >> 1 ^ -(encoded & 1)


def _read_footer(file: BinaryIO) -> bytes:
    """Return the beginning of the encoded ``FileMetaData`` of a file."""
    size_bytes = file.seek(0, os.SEEK_END)
    file.seek(max(0, size_bytes - _TRAILER_BYTES))
    trailer = file.read(_TRAILER_BYTES)
    footer_bytes = int.from_bytes(trailer[:4], "little")
    if trailer[4:] != _MAGIC or footer_bytes > size_bytes - _TRAILER_BYTES:
        raise UnknownRowCountError("the file has no plain Parquet footer")
    file.seek(size_bytes - _TRAILER_BYTES - footer_bytes)
    return file.read(min(footer_bytes, MAX_FOOTER_BYTES))
