"""The delimited text format: discovery, splits, and creation of the reader."""

from dataclasses import replace
from typing import ClassVar

from engine.errors import FileError
from engine.readers.delimited.delimited_options import DelimitedOptions, Dialect, is_splittable
from engine.readers.delimited.delimited_reader import DelimitedReader
from engine.readers.delimited.header import read_header
from engine.readers.delimited.rows import ParsedRows, RowBlocks
from engine.readers.lines import BLOCK_BYTES, LineBlocks
from engine.readers.splits import split_by_bytes
from engine.readers.text_stream import ByteStream
from engine.scan.reader import RowBatchReader, SourceFile
from engine.schema import TupleSchema
from engine.suffixes import SUFFIXES

_MAX_SEARCH_BYTES = 1024 * 1024 * 1024


class DelimitedFormat:
    """Format of CSV, TSV, PSV and TBL files."""

    name: ClassVar[str] = "text"
    suffixes: ClassVar[tuple[str, ...]] = SUFFIXES[name]
    options: ClassVar[type] = DelimitedOptions

    def discover(self, file: SourceFile, options: DelimitedOptions) -> TupleSchema:
        """Return the columns of the header, which are text.

        Only the header is read. If the file ends before its header, there are no columns.
        """
        return read_header(file, options).schema

    def reader(self, file: SourceFile, options: DelimitedOptions) -> RowBatchReader:
        return DelimitedReader(file, options)

    def splits(self, file: SourceFile, options: DelimitedOptions, target_bytes: int) -> list[SourceFile]:
        """Split a file into ranges of about ``target_bytes``.

        | file | split |
        | --- | --- |
        | no row contains a quote or an escape character, or ``multiline`` is false | at any byte |
        | up to 1 GiB, with quotes | at the ends of rows, which are searched for |
        | compressed, not UTF-8, or with rows that are not plain (see :mod:`engine.readers.delimited.rows`) | never |
        """
        if file.size_bytes <= target_bytes or not is_splittable(options, file.path):
            return [file]
        try:
            if not options.multiline or _has_only_lines(file, options):
                return split_by_bytes(file, target_bytes)
            return [file] if file.size_bytes > _MAX_SEARCH_BYTES else _split_by_rows(file, options, target_bytes)
        except FileError:  # the reader raises the error again, with the position
            return [file]


def _has_only_lines(file: SourceFile, options: DelimitedOptions) -> bool:
    """Return whether each row after the header is a single line.

    Raises:
        FileError: If the file cannot be read.
    """
    special = [character.encode() for character in (options.quote, options.escape) if character]
    if not special:
        return True
    if file.size_bytes > _MAX_SEARCH_BYTES:
        return False
    header = read_header(file, options)
    with ByteStream(file) as stream:
        stream.skip(header.start)
        data = bytearray(BLOCK_BYTES)
        while size_bytes := stream.read_into(memoryview(data)):
            if any(data.find(character, 0, size_bytes) >= 0 for character in special):
                return False
    return True


def _split_by_rows(file: SourceFile, options: DelimitedOptions, target_bytes: int) -> list[SourceFile]:
    """Split a file at the ends of rows.

    Raises:
        FileError: If the file cannot be read.
    """
    header = read_header(file, options)
    starts = [0]
    rest, block_bytes = replace(file, start=header.start), min(BLOCK_BYTES, target_bytes)
    with LineBlocks(rest, max_line_bytes=options.max_line_bytes, block_bytes=block_bytes) as lines:
        end = max(header.start, lines.start_bytes)
        for rows in RowBlocks(lines, Dialect.of(options, file.path), options.max_line_bytes):
            if isinstance(rows, ParsedRows):
                return [file]
            end += len(rows.block.data)
            if end - starts[-1] >= target_bytes and file.size_bytes - end >= target_bytes // 2:
                starts.append(end)
    return [replace(file, start=start, end=stop) for start, stop in zip(starts, [*starts[1:], None], strict=True)]
