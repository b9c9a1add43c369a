"""The start of a delimited text file: the skipped lines and the header."""

from dataclasses import dataclass

import pyarrow as pa

from engine.errors import DuplicateColumnError
from engine.readers.byte_arrays import LINE_FEED, as_byte_array, find
from engine.readers.delimited.delimited_options import DelimitedOptions, Dialect
from engine.readers.delimited.rows import parse
from engine.readers.lines import Block, LineBlocks, LinePositions
from engine.scan.reader import SourceFile
from engine.schema import TupleSchema

_BLOCK_BYTES = 64 * 1024

COLUMNS = pa.field("columns", pa.list_(pa.field("item", pa.string())), nullable=False)
"""The only column of a file without a header [scan-framework "Selection List Processing"]."""


@dataclass(frozen=True, slots=True)
class Header:
    """Header of a file, and the position at which the rows start.

    Attributes:
        names: The column names. None for a file without a header. Empty if the file ends before the header.
        start: The offset in the UTF-8 text at which the rows start.
        lines: The number of lines before the rows.
    """

    names: tuple[str, ...] | None
    start: int
    lines: int

    @property
    def schema(self) -> TupleSchema:
        """The columns, all of type string."""
        if self.names is None:
            return TupleSchema([COLUMNS])
        return TupleSchema(pa.field(name, pa.string()) for name in self.names)


def read_header(file: SourceFile, options: DelimitedOptions) -> Header:
    """Read the start of a whole file.

    An empty column name is replaced with ``column_`` and the number of the column, counted from 1.

    Raises:
        DuplicateColumnError: If two names are equal when case is ignored.
        FileError: If the start of the file cannot be read.
    """
    if not options.header and not options.skip_lines:
        return Header(None, 0, 0)
    whole = SourceFile(file.workspace, file.path, file.size_bytes, file.open)
    with LineBlocks(
        whole, max_line_bytes=options.max_line_bytes, encoding=options.encoding, block_bytes=_BLOCK_BYTES
    ) as lines:
        cursor = _Cursor(lines)
        cursor.skip_lines(options.skip_lines)
        names = cursor.read_names(Dialect.of(options, file.path), options.max_line_bytes) if options.header else None
        return Header(names, cursor.offset, cursor.lines)


class _Cursor:
    """Position in the first lines of a file.

    Attributes:
        offset: The offset of the next byte in the UTF-8 text.
        lines: The number of lines before this offset.
    """

    def __init__(self, blocks: LineBlocks) -> None:
        self.lines = 0
        self._blocks = blocks
        self._block = blocks.next() or Block.of(as_byte_array(b""), 1)
        self.offset = blocks.start_bytes

    def skip_lines(self, count: int) -> None:
        for _ in range(count):
            if not len(self._block.data):
                block = self._blocks.next()
                if block is None:
                    return
                self._block = block
            self._advance((find(self._block.data, LINE_FEED) + 1) or len(self._block.data))

    def read_names(self, dialect: Dialect, max_row_bytes: int) -> tuple[str, ...]:
        """Read the next row as column names. Return no names if the file ends before the row."""
        while True:
            self._block.check_text(self._blocks.positions)
            parsed, whole_bytes = parse(self._block, dialect, self._blocks.positions, limit_rows=1)
            self._advance(whole_bytes)
            if parsed.rows:
                return _column_names(parsed.rows[0], self._blocks.positions, parsed.lines[0])
            more = self._blocks.next()
            if more is None and not len(self._block.data):
                return ()
            if more is None:
                raise self._blocks.positions.error(self._block.line, "a quote in the header is never closed")
            if len(self._block.data) > max_row_bytes:
                raise self._blocks.positions.too_long(self._block.line, max_row_bytes)
            self._block = self._block.join(more)

    def _advance(self, count_bytes: int) -> None:
        if count_bytes:
            self.offset += count_bytes
            self._block = self._block.after(count_bytes)
            self.lines = self._block.line - 1


def _column_names(fields: list[str], positions: LinePositions, line: int) -> tuple[str, ...]:
    names = tuple(name or f"column_{number}" for number, name in enumerate(fields, 1))
    try:
        TupleSchema(pa.field(name, pa.string()) for name in names)
    except DuplicateColumnError as error:
        raise DuplicateColumnError(error.first, error.second, positions.at(line)) from None
    return names
