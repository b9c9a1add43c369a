"""The format of delimited text, as scans know it."""

from dataclasses import replace
from typing import ClassVar

from pydantic import BaseModel

from engine.errors import FileError
from engine.readers.delimited.header import read_header
from engine.readers.delimited.options import DelimitedOptions, Dialect, is_splittable
from engine.readers.delimited.reader import DelimitedReader
from engine.readers.delimited.rows import ParsedRows, RowBlocks
from engine.readers.lines import BLOCK_BYTES, LineBlocks
from engine.readers.splits import byte_ranges
from engine.readers.stream import ByteStream
from engine.scan.reader import RowBatchReader, SourceFile
from engine.schema import TupleSchema
from engine.suffixes import SUFFIXES

_LOOK_THROUGH_BYTES = 1024 * 1024 * 1024


class DelimitedFormat:
    """CSV, TSV, PSV, TBL."""

    name: ClassVar[str] = "text"
    suffixes: ClassVar[tuple[str, ...]] = SUFFIXES[name]
    options: ClassVar[type[BaseModel]] = DelimitedOptions

    def discover(self, file: SourceFile, options: DelimitedOptions) -> TupleSchema:
        """By the header alone: columns of text; none if the file ends before it."""
        return read_header(file, options).schema

    def reader(self, file: SourceFile, options: DelimitedOptions) -> RowBatchReader:
        return DelimitedReader(file, options)

    def splits(self, file: SourceFile, options: DelimitedOptions, target_bytes: int) -> list[SourceFile]:
        """Ranges of about ``target_bytes``.

        Rows of one line each are cut anywhere: those of files without a quote, and of all files if the option
        ``multiline`` says so. Other files of at most 1 GiB are looked through for the ends of rows. Compressed files,
        other encodings than UTF-8, and rows that are not plain (see :mod:`engine.readers.delimited.rows`) are never
        split.
        """
        if file.size_bytes <= target_bytes or not is_splittable(options, file.path):
            return [file]
        try:
            if not options.multiline or _has_only_lines(file, options):
                ranges = byte_ranges(file.size_bytes, target_bytes)
                return [replace(file, start=start, end=end) for start, end in ranges]
            return [file] if file.size_bytes > _LOOK_THROUGH_BYTES else _row_ranges(file, options, target_bytes)
        except FileError:  # whoever reads it tells
            return [file]


def _has_only_lines(file: SourceFile, options: DelimitedOptions) -> bool:
    """Whether no row but the header has more than one line. Raises: FileError."""
    special = [character.encode() for character in (options.quote, options.escape) if character]
    if not special:
        return True
    if file.size_bytes > _LOOK_THROUGH_BYTES:
        return False
    header = read_header(file, options)
    with ByteStream(file) as stream:
        stream.skip(header.start)
        data = bytearray(BLOCK_BYTES)
        while size_bytes := stream.read_into(memoryview(data)):
            if any(data.find(character, 0, size_bytes) >= 0 for character in special):
                return False
    return True


def _row_ranges(file: SourceFile, options: DelimitedOptions, target_bytes: int) -> list[SourceFile]:
    """Raises: FileError."""
    header = read_header(file, options)
    cuts = [0]
    rest, block_bytes = replace(file, start=header.start), min(BLOCK_BYTES, target_bytes)
    with LineBlocks(rest, max_line_bytes=options.max_line_bytes, block_bytes=block_bytes) as lines:
        end = max(header.start, lines.start_bytes)
        for rows in RowBlocks(lines, Dialect.of(options, file.path), options.max_line_bytes):
            if isinstance(rows, ParsedRows):
                return [file]
            end += len(rows.block.codes)
            if end - cuts[-1] >= target_bytes and file.size_bytes - end >= target_bytes // 2:
                cuts.append(end)
    return [replace(file, start=start, end=stop) for start, stop in zip(cuts, [*cuts[1:], None], strict=True)]
