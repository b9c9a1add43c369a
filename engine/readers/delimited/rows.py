"""Whole rows out of blocks of lines: as bytes that pyarrow may parse, or parsed here where only that is exact.

Guarantees:

1. The rows are those that Python's ``csv.reader(lines, strict=True)`` makes of the lines, less empty rows and
   comments, in the order of the file.
2. In :class:`PlainRows` every quote opens, closes or doubles a quote by position alone, so that all parsers agree
   about them. This is checked, not assumed: a quote with even number must stand at the start of a field or double
   the one before it, one with odd number at the end of a field or before another. By induction from the start of
   the block, it is then inside or outside of quotes as its number says.
3. What is not this format is an error that names the line: bytes that are not UTF-8, or zero; a quote that is never
   closed; text after a closing quote; a carriage return outside quotes within a row.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np

from engine.readers.byte_arrays import CARRIAGE_RETURN, LINE_FEED, Codes, has, has_pair
from engine.readers.delimited.options import Dialect
from engine.readers.lines import Block, LineBlocks, LinePositions

Offsets = np.ndarray[Any, np.dtype[np.intp]]


@dataclass(frozen=True, slots=True)
class PlainRows:
    """Rows as bytes, see guarantee 2; UTF-8, no comments, no escapes.

    Attributes:
        block: Where they stand.
        has_quotes: Whether there is any quote.
    """

    block: Block
    has_quotes: bool


@dataclass(frozen=True, slots=True)
class ParsedRows:
    """Rows as fields.

    Attributes:
        rows: Each with its fields.
        lines: The line at which each row begins.
    """

    rows: list[list[str]]
    lines: list[int]


class RowBlocks:
    """The rows of some lines, as many at a time as a block holds.

    Args:
        lines: Where they come from; from the first one on, all are rows.
        dialect: How they are written.
        max_row_bytes: A longer row is an error.
    """

    def __init__(self, lines: LineBlocks, dialect: Dialect, max_row_bytes: int) -> None:
        self._lines = lines
        self._dialect = dialect
        self._max_row_bytes = max_row_bytes
        self._rest: Block | None = None

    def __iter__(self) -> Iterator[PlainRows | ParsedRows]:
        while (rows := self.next()) is not None:
            yield rows

    def next(self) -> PlainRows | ParsedRows | None:
        """Raises: FormatError."""
        while (block := self._more()) is not None:
            block.check_text(self._lines.place)
            found, whole_bytes = self._rows_of(block)
            self._rest = block.after(whole_bytes) if whole_bytes < len(block.codes) else None
            if whole_bytes:
                return found
        return None

    def _rows_of(self, block: Block) -> tuple[PlainRows | ParsedRows, int]:
        """The whole rows at the start of a block, and how many bytes they are."""
        plain = plain_bytes(block.codes, self._dialect)
        if plain is None:
            return parse(block, self._dialect, self._lines.place)
        return PlainRows(block.until(plain.whole), plain.has_quotes), plain.whole

    def _more(self) -> Block | None:
        """The begun row, if there is one, and the next lines."""
        more = self._lines.next()
        rest = self._rest
        if rest is None:
            return more
        if more is None:
            problem = "a quote opens in this row and is never closed; close it, or double it inside quotes"
            raise self._lines.place.error(rest.line, problem)
        if len(rest.codes) > self._max_row_bytes:
            raise self._lines.place.too_long(rest.line, self._max_row_bytes)
        return rest.joined(more)


@dataclass(frozen=True, slots=True)
class PlainBytes:
    """What is known of plain rows.

    Attributes:
        whole: How many bytes of the block are whole rows.
        has_quotes: Whether there is any quote.
    """

    whole: int
    has_quotes: bool


def plain_bytes(codes: Codes, dialect: Dialect) -> PlainBytes | None:
    """What is known if all rows are plain; None if some are not. See guarantee 2."""
    if dialect.escape and has(codes, ord(dialect.escape)):
        return None
    if dialect.comment and (codes[0] == ord(dialect.comment) or has_pair(codes, LINE_FEED, ord(dialect.comment))):
        return None
    returns = np.flatnonzero(codes == CARRIAGE_RETURN)
    if len(returns) and (returns[-1] == len(codes) - 1 or not (codes[returns + 1] == LINE_FEED).all()):
        return None
    quotes = np.flatnonzero(codes == ord(dialect.quote)) if dialect.quote else returns[:0]
    if not len(quotes):
        return PlainBytes(len(codes), False)
    whole = _quoted_bytes(codes, quotes, ord(dialect.delimiter))
    return None if whole is None else PlainBytes(whole, True)


def _quoted_bytes(codes: Codes, quotes: Offsets, delimiter: int) -> int | None:
    quote = codes[quotes[0]]
    opening, closing = quotes[0::2], quotes[1::2]
    before = codes[opening - 1]
    if opening[0] == 0:
        before[0] = LINE_FEED
    after = codes[np.minimum(closing + 1, len(codes) - 1)]
    if len(closing) and closing[-1] == len(codes) - 1:
        after[-1] = LINE_FEED
    is_start = (before == delimiter) | (before == LINE_FEED) | (before == quote)
    is_end = (after == delimiter) | (after == LINE_FEED) | (after == CARRIAGE_RETURN) | (after == quote)
    if not (is_start.all() and is_end.all()):
        return None
    if len(opening) == len(closing):
        return len(codes)
    line_ends = np.flatnonzero(codes == LINE_FEED)
    outside = line_ends[np.searchsorted(quotes, line_ends) % 2 == 0]
    return int(outside[-1]) + 1 if len(outside) else 0


def parse(
    block: Block, dialect: Dialect, place: LinePositions, limit_rows: int | None = None
) -> tuple[ParsedRows, int]:
    """Rows by Python's ``csv``, at most so many.

    Returns: The rows, and how many bytes they are; a row that is not whole is left.
    Raises: FormatError.
    """
    # This limit is one of the whole process, and in characters; it only must not be in the way of ours.
    csv.field_size_limit(max(csv.field_size_limit(), len(block.codes)))
    lines = _Lines(block, dialect.comment.encode(), place)
    parser = _parser(lines, dialect)
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
            raise place.error(
                lines.row_line,
                "in this row a quoted field goes on after its closing quote, or a carriage return stands outside "
                "quotes; double the quotes inside a quoted field, and end lines with LF or CRLF",
            ) from None
        if row:
            parsed.rows.append(row)
            parsed.lines.append(lines.row_line)
        lines.end_row()
    return parsed, lines.whole_bytes


def _parser(lines: "_Lines", dialect: Dialect) -> Iterator[list[str]]:
    return csv.reader(
        lines,
        delimiter=dialect.delimiter,
        quotechar=dialect.quote or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        escapechar=dialect.escape or None,
        strict=True,
    )


class _Lines:
    """The lines of a block for ``csv``, which asks for one at the start of a row and for more while a quote is open.

    Attributes:
        row_line: The line at which the current row begins.
        whole_bytes: How many bytes are whole rows, and what was left out between them.
        is_at_end: Whether ``csv`` asked for more lines than there are.
    """

    def __init__(self, block: Block, comment: bytes, place: LinePositions) -> None:
        self.row_line = block.line
        self.whole_bytes = 0
        self.is_at_end = False
        self._bytes = BytesIO(block.data)
        self._line = block.line
        self._comment = comment
        self._is_row_start = True

    def start_row(self) -> None:
        self._is_row_start = True

    def end_row(self) -> None:
        self.whole_bytes = self._bytes.tell()

    def __iter__(self) -> "_Lines":
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
