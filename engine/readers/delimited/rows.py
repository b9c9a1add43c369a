"""Whole rows from blocks of lines.

Rows are passed to pyarrow as bytes if pyarrow parses them exactly. Otherwise, Python's ``csv`` module parses them.

Guarantees:

1. The rows are those that Python's ``csv.reader(lines, strict=True)`` returns, without empty rows and comments, in the
   order of the file.
2. In :class:`PlainRows`, the number of quotes before a quote determines whether it opens, closes or doubles a quote.
   Therefore all parsers agree. This is checked as follows. A quote with an even number must be at the start of a field,
   or double the quote before it. A quote with an odd number must be at the end of a field, or before another quote. By
   induction from the start of the block, the number of each quote then determines whether the text after it is quoted.
3. Content that does not match the format raises an error that includes the line: bytes that are zero or not UTF-8, a
   quote that is never closed, text after a closing quote, or a carriage return outside quotes within a row.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np

from engine.readers.byte_arrays import CARRIAGE_RETURN, LINE_FEED, ByteArray, contains, contains_pair
from engine.readers.delimited.delimited_options import Dialect
from engine.readers.lines import Block, LineBlocks, LinePositions

Offsets = np.ndarray[Any, np.dtype[np.intp]]


@dataclass(frozen=True, slots=True)
class PlainRows:
    """Rows as UTF-8 bytes, without comments and escape characters (guarantee 2).

    Attributes:
        block: The rows.
        has_quotes: Whether the rows contain quotes.
    """

    block: Block
    has_quotes: bool


@dataclass(frozen=True, slots=True)
class ParsedRows:
    """Rows as lists of fields.

    Attributes:
        rows: The fields of each row.
        lines: The number of the line at which each row begins.
    """

    rows: list[list[str]]
    lines: list[int]


class RowBlocks:
    """Reads the rows of a file in blocks.

    Args:
        lines: The lines to read, starting at the first row.
        dialect: The syntax of the rows.
        max_row_bytes: The maximum length of a row. A longer row raises an error.
    """

    def __init__(self, lines: LineBlocks, dialect: Dialect, max_row_bytes: int) -> None:
        self._lines = lines
        self._dialect = dialect
        self._max_row_bytes = max_row_bytes
        self._incomplete: Block | None = None

    def __iter__(self) -> Iterator[PlainRows | ParsedRows]:
        while (rows := self.next()) is not None:
            yield rows

    def next(self) -> PlainRows | ParsedRows | None:
        """Return the next rows. Return None at the end.

        Raises:
            FormatError: If a row cannot be read (guarantee 3).
        """
        while (block := self._read_more()) is not None:
            block.check_text(self._lines.positions)
            found, whole_bytes = self._whole_rows(block)
            self._incomplete = block.after(whole_bytes) if whole_bytes < len(block.data) else None
            if whole_bytes:
                return found
        return None

    def _whole_rows(self, block: Block) -> tuple[PlainRows | ParsedRows, int]:
        """Return the whole rows at the start of a block, and their length in bytes."""
        plain = find_plain_rows(block.data, self._dialect)
        if plain is None:
            return parse(block, self._dialect, self._lines.positions)
        whole_bytes, has_quotes = plain
        return PlainRows(block.until(whole_bytes), has_quotes), whole_bytes

    def _read_more(self) -> Block | None:
        """Return the incomplete row, if there is one, together with the next lines."""
        more = self._lines.next()
        incomplete = self._incomplete
        if incomplete is None:
            return more
        if more is None:
            problem = "a quote in this row is never closed; close the quote, or double it inside a quoted field"
            raise self._lines.positions.error(incomplete.line, problem)
        if len(incomplete.data) > self._max_row_bytes:
            raise self._lines.positions.too_long(incomplete.line, self._max_row_bytes)
        return incomplete.join(more)


def find_plain_rows(data: ByteArray, dialect: Dialect) -> tuple[int, bool] | None:
    """Find the whole rows at the start of a block.

    Returns:
        The length of the whole rows in bytes, and whether the block contains quotes. None if a row is not plain
        (guarantee 2).
    """
    if dialect.escape and contains(data, ord(dialect.escape)):
        return None
    if dialect.comment and (data[0] == ord(dialect.comment) or contains_pair(data, LINE_FEED, ord(dialect.comment))):
        return None
    returns = np.flatnonzero(data == CARRIAGE_RETURN)
    if len(returns) and (returns[-1] == len(data) - 1 or not (data[returns + 1] == LINE_FEED).all()):
        return None
    quotes = np.flatnonzero(data == ord(dialect.quote)) if dialect.quote else returns[:0]
    if not len(quotes):
        return len(data), False
    whole_bytes = _whole_bytes(data, quotes, ord(dialect.delimiter))
    return None if whole_bytes is None else (whole_bytes, True)


def _whole_bytes(data: ByteArray, quotes: Offsets, delimiter: int) -> int | None:
    """Return the length of the whole rows. Return None if a quote violates guarantee 2."""
    quote = data[quotes[0]]
    opening, closing = quotes[0::2], quotes[1::2]
    before = data[opening - 1]
    if opening[0] == 0:
        before[0] = LINE_FEED
    after = data[np.minimum(closing + 1, len(data) - 1)]
    if len(closing) and closing[-1] == len(data) - 1:
        after[-1] = LINE_FEED
    is_start = (before == delimiter) | (before == LINE_FEED) | (before == quote)
    is_end = (after == delimiter) | (after == LINE_FEED) | (after == CARRIAGE_RETURN) | (after == quote)
    if not (is_start.all() and is_end.all()):
        return None
    if len(opening) == len(closing):
        return len(data)
    line_ends = np.flatnonzero(data == LINE_FEED)
    outside = line_ends[np.searchsorted(quotes, line_ends) % 2 == 0]
    return int(outside[-1]) + 1 if len(outside) else 0


def parse(
    block: Block, dialect: Dialect, positions: LinePositions, limit_rows: int | None = None
) -> tuple[ParsedRows, int]:
    """Parse rows with Python's ``csv`` module.

    Args:
        block: The lines.
        dialect: The syntax of the rows.
        positions: The positions of lines, for error messages.
        limit_rows: The maximum number of rows. None for all rows of the block.

    Returns:
        The whole rows, and their length in bytes. An incomplete row at the end is not included.

    Raises:
        FormatError: If a row cannot be read (guarantee 3).
    """
    # This limit counts characters and applies to the whole process. It is raised so that our own limit applies first.
    csv.field_size_limit(max(csv.field_size_limit(), len(block.data)))
    lines = _CsvLines(block, dialect.comment.encode())
    parser = _csv_reader(lines, dialect)
    parsed = ParsedRows([], [])
    while limit_rows is None or len(parsed.rows) < limit_rows:
        lines.start_row()
        try:
            row = next(parser)
        except StopIteration:
            break
        except csv.Error:
            if lines.is_at_end:
                break
            raise positions.error(
                lines.row_line,
                "in this row a quoted field continues after its closing quote, or a carriage return is outside quotes; "
                "double the quotes inside a quoted field, and end lines with LF or CRLF",
            ) from None
        if row:
            parsed.rows.append(row)
            parsed.lines.append(lines.row_line)
        lines.end_row()
    return parsed, lines.whole_bytes


def _csv_reader(lines: "_CsvLines", dialect: Dialect) -> Iterator[list[str]]:
    return csv.reader(
        lines,
        delimiter=dialect.delimiter,
        quotechar=dialect.quote or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        escapechar=dialect.escape or None,
        strict=True,
    )


class _CsvLines:
    """Lines of a block for Python's ``csv`` module.

    The module reads one line for each row, and further lines while a quote is open.

    Attributes:
        row_line: The line at which the current row begins.
        whole_bytes: The length of the whole rows, including the comments between them.
        is_at_end: Whether the module requested more lines than the block contains.
    """

    def __init__(self, block: Block, comment: bytes) -> None:
        self.row_line = block.line
        self.whole_bytes = 0
        self.is_at_end = False
        self._bytes = BytesIO(block.to_bytes())
        self._line = block.line
        self._comment = comment
        self._is_row_start = True

    def start_row(self) -> None:
        self._is_row_start = True

    def end_row(self) -> None:
        self.whole_bytes = self._bytes.tell()

    def __iter__(self) -> "_CsvLines":
        return self

    def __next__(self) -> str:
        line = self._bytes.readline()
        while self._is_row_start and self._comment and line.startswith(self._comment):
            self._line += 1
            self.whole_bytes = self._bytes.tell()
            line = self._bytes.readline()
        if self._is_row_start:
            self.row_line = self._line
            self._is_row_start = False
        if not line:
            self.is_at_end = True
            raise StopIteration
        self._line += 1
        return line.decode()
