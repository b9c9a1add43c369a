"""Text files without header: each row is the array of its fields, in the one column ``columns``.

The format is RFC 4180, with the delimiter that the suffix names:

- Rows end with LF or CRLF, the last one also with the end of the file. Each row keeps its own number of
  fields. Empty lines are skipped; a line of ``""`` is a row with one empty field.
- A field that starts with ``"`` ends with the next ``"`` that is not doubled, and may hold delimiters and
  line ends, which stay as they are. A ``"`` inside a field that does not start with one is a character like
  any other.
- No value is null, and no space is removed. Text is UTF-8, with or without a byte order mark at the start.

Guarantees:

1. The rows are those that Python's ``csv.reader(lines, strict=True)`` makes of the lines, less the empty
   rows, in the order of the file.
2. A batch has at least one row, at most ``MAX_BATCH_ROWS`` rows, and values of at most ``MAX_VALUES_BYTES``
   bytes (seed 000, "Handling Batch Limits").
3. What is not this format is an error that names the line, never a guess: bytes that are not UTF-8, a quote
   that is never closed, text after a closing quote, a carriage return outside quotes within a row, a row of
   more than ``MAX_VALUES_BYTES`` bytes.
4. Memory is bounded by the limits, not by the file.

The file is read in blocks of whole lines. In a block without quotes every line is a row, and Arrow splits it
without Python seeing a row; a block with quotes goes through Python's ``csv``.
"""

import csv
from collections.abc import Iterator
from io import BytesIO
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import TextFormatError

MAX_BATCH_ROWS = 65_536
MAX_VALUES_BYTES = 16 * 1024 * 1024
_BLOCK_BYTES = 4 * 1024 * 1024

_COLUMNS = pa.list_(pa.string())
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class TextReader:
    """Reads one file from start to end, once."""

    def __init__(
        self, file: BinaryIO, *, delimiter: str, workspace: str, path: str, block_bytes: int = _BLOCK_BYTES
    ) -> None:
        """``workspace`` and ``path`` name the file in messages; ``block_bytes`` is less than a row may be."""
        self._file = file
        self._delimiter = delimiter
        self._workspace = workspace
        self._path = path
        self._block_bytes = block_bytes
        self._lines_read = 0
        self._row_line = 0
        self._row_bytes = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Raises: TextFormatError; OSError of the file."""
        # This limit is one of the whole process, and in characters; it only must not be in the way of ours.
        csv.field_size_limit(max(csv.field_size_limit(), MAX_VALUES_BYTES))
        block = self._next_block().removeprefix(_BYTE_ORDER_MARK)
        while block:
            rows = self._split(block)
            if rows is None:
                rows = pa.array(self._parse(block), _COLUMNS)
            for columns in _within_limits(rows):
                yield pa.RecordBatch.from_arrays([columns], names=["columns"])
            block = self._next_block()

    def _next_block(self) -> bytes:
        """Whole lines; nothing at the end of the file."""
        block = self._file.read(self._block_bytes)
        if not block or block.endswith(b"\n"):
            return block
        begun_bytes = len(block) - (block.rfind(b"\n") + 1)
        rest = self._file.readline(MAX_VALUES_BYTES - begun_bytes + 1)
        if begun_bytes + len(rest) > MAX_VALUES_BYTES:
            raise self._too_long(self._lines_read + block.count(b"\n") + 1)
        return block + rest

    def _split(self, block: bytes) -> pa.ListArray | None:
        """The rows of a block in which every line is a row; None if the block needs :meth:`_parse`."""
        unified = block.replace(b"\r\n", b"\n")
        if b'"' in unified or b"\r" in unified:
            return None
        try:
            text = unified.decode()
        except UnicodeDecodeError:
            return None
        self._lines_read += block.count(b"\n")
        lines = pc.split_pattern(pa.array([text]), "\n").flatten()
        return pc.split_pattern(lines.filter(pc.not_equal(lines, "")), self._delimiter)

    def _parse(self, block: bytes) -> list[list[str]]:
        """The rows that begin in a block, by Python's ``csv``; the last one may end after the block."""
        lines = BytesIO(block)
        parser = csv.reader(self._decoded_lines(lines), delimiter=self._delimiter, strict=True)
        rows = []
        while lines.tell() < len(block):
            self._row_line = self._lines_read + 1
            self._row_bytes = 0
            try:
                row = next(parser)
            except csv.Error:
                raise self._error(
                    self._row_line,
                    "in this row a quoted field goes on after its closing quote, or a carriage return stands "
                    "outside quotes; double the quotes inside a quoted field, and end lines with LF or CRLF",
                ) from None
            if row:
                rows.append(row)
        return rows

    def _decoded_lines(self, block: BytesIO) -> Iterator[str]:
        """The lines of a block, then those after it; ``csv`` asks for these only while a quote is open."""
        while line := block.readline() or self._file.readline(MAX_VALUES_BYTES + 1):
            self._lines_read += 1
            self._row_bytes += len(line)
            if self._row_bytes > MAX_VALUES_BYTES:
                raise self._too_long(self._row_line)
            try:
                text = line.decode()
            except UnicodeDecodeError:
                problem = "the bytes are not UTF-8; convert the file to UTF-8, for instance with iconv"
                raise self._error(self._lines_read, problem) from None
            yield text
        problem = "a quote opens in this row and is never closed; close it, or double it inside quotes"
        raise self._error(self._row_line, problem)

    def _too_long(self, line: int) -> TextFormatError:
        problem = f"the row is longer than {MAX_VALUES_BYTES:,} bytes; look for a quote that is never closed"
        return self._error(line, f"{problem}, or for missing line ends")

    def _error(self, line: int, problem: str) -> TextFormatError:
        return TextFormatError(self._workspace, self._path, line, problem)


def _within_limits(rows: pa.ListArray) -> Iterator[pa.ListArray]:
    """Halves, without a copy, until each part is within the limits; one row always is."""
    if not len(rows):
        return
    values_bytes = pc.sum(pc.binary_length(rows.flatten())).as_py() or 0
    if len(rows) <= MAX_BATCH_ROWS and values_bytes <= MAX_VALUES_BYTES:
        yield rows
    else:
        half = len(rows) // 2
        yield from _within_limits(rows[:half])
        yield from _within_limits(rows[half:])
