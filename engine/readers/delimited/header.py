"""What stands before the rows of a file: skipped lines and the names of the columns."""

from dataclasses import dataclass

import pyarrow as pa

from engine.errors import DuplicateColumnError
from engine.readers.byte_arrays import LINE_FEED, codes_of, find
from engine.readers.delimited.options import DelimitedOptions, Dialect
from engine.readers.delimited.rows import parse
from engine.readers.lines import Block, LineBlocks, LinePositions
from engine.scan.reader import SourceFile
from engine.schema import TupleSchema, fold_case

_BLOCK_BYTES = 64 * 1024

COLUMNS = pa.field("columns", pa.list_(pa.field("item", pa.string())), nullable=False)
"""The only column of a file without header (seed 004, the "generic" selection)."""


@dataclass(frozen=True, slots=True)
class Header:
    """What is known of a file before its rows.

    Attributes:
        names: Of the columns; None without header, empty if the file ends before it.
        start: The byte of the UTF-8 text at which the rows start.
        lines: How many lines lie before it.
    """

    names: tuple[str, ...] | None
    start: int
    lines: int

    @property
    def schema(self) -> TupleSchema:
        """As text, for want of types."""
        if self.names is None:
            return TupleSchema([COLUMNS])
        return TupleSchema(pa.field(name, pa.string()) for name in self.names)


def read_header(file: SourceFile, options: DelimitedOptions) -> Header:
    """Reads the start of a whole file. An empty name becomes ``column_`` and its number, counted from 1.

    Raises:
        DuplicateColumnError: Two names are the same but for letter case.
        FileError: The file is not readable so far.
    """
    if not options.header and not options.skip_lines:
        return Header(None, 0, 0)
    whole = SourceFile(file.workspace, file.path, file.size_bytes, file.open)
    with LineBlocks(
        whole, max_line_bytes=options.max_line_bytes, encoding=options.encoding, block_bytes=_BLOCK_BYTES
    ) as lines:
        start = _Start(lines)
        start.skip(options.skip_lines)
        names = start.names(Dialect.of(options, file.path), options.max_line_bytes) if options.header else None
        return Header(names, start.offset, start.lines)


class _Start:
    """Goes through the first lines of a file.

    Attributes:
        offset: The byte of the UTF-8 text that comes next.
        lines: The lines before it.
    """

    def __init__(self, blocks: LineBlocks) -> None:
        self.lines = 0
        self._blocks = blocks
        self._block = blocks.next() or Block.of(codes_of(b""), 1)
        self.offset = blocks.start_bytes

    def skip(self, lines: int) -> None:
        for _ in range(lines):
            if not len(self._block.codes):
                self._block = self._blocks.next() or self._block
            self._go((find(self._block.codes, LINE_FEED) + 1) or len(self._block.codes))

    def names(self, dialect: Dialect, max_row_bytes: int) -> tuple[str, ...]:
        while True:
            self._block.check_text(self._blocks.place)
            parsed, whole_bytes = parse(self._block, dialect, self._blocks.place, limit_rows=1)
            self._go(whole_bytes)
            if parsed.rows:
                return _named(parsed.rows[0], self._blocks.place, parsed.lines[0])
            more = self._blocks.next()
            if more is None and not len(self._block.codes):
                return ()
            if more is None:
                raise self._blocks.place.error(self._block.line, "a quote opens in the header and is never closed")
            if len(self._block.codes) > max_row_bytes:
                raise self._blocks.place.too_long(self._block.line, max_row_bytes)
            self._block = self._block.joined(more)

    def _go(self, count_bytes: int) -> None:
        if count_bytes:
            self.offset += count_bytes
            self._block = self._block.after(count_bytes)
            self.lines = self._block.line - 1


def _named(fields: list[str], place: LinePositions, line: int) -> tuple[str, ...]:
    names = tuple(name or f"column_{number}" for number, name in enumerate(fields, 1))
    first: dict[str, str] = {}
    for name in names:
        if fold_case(name) in first:
            raise DuplicateColumnError(first[fold_case(name)], name, place.at(line))
        first[fold_case(name)] = name
    return names
