"""The format of delimited text, as scans know it."""

from dataclasses import replace
from typing import ClassVar

from pydantic import BaseModel

from engine.readers.delimited.header import read_header
from engine.readers.delimited.options import DELIMITERS, DelimitedOptions, Dialect, is_splittable
from engine.readers.delimited.reader import DelimitedReader
from engine.readers.lines import BLOCK_BYTES
from engine.readers.ranges import byte_ranges
from engine.readers.stream import ByteStream
from engine.scan.reader import RowBatchReader, SourceFile
from engine.schema import TupleSchema

_QUICK_LOOK_BYTES = 1024 * 1024 * 1024


class DelimitedFormat:
    """CSV, TSV, PSV, TBL."""

    name: ClassVar[str] = "text"
    suffixes: ClassVar[tuple[str, ...]] = tuple(DELIMITERS)
    options: ClassVar[type[BaseModel]] = DelimitedOptions

    def discover(self, file: SourceFile, options: DelimitedOptions) -> TupleSchema:
        """By the header alone: columns of text; none if the file ends before it."""
        return read_header(file, options).schema

    def reader(self, file: SourceFile, options: DelimitedOptions) -> RowBatchReader:
        return DelimitedReader(file, options)

    def splits(self, file: SourceFile, options: DelimitedOptions, target_bytes: int) -> list[SourceFile]:
        """Ranges of about ``target_bytes``.

        A file is split where no quoted field can hold a line end: if it has no quotes, if the option ``multiline``
        says so, or if it is at most 1 GiB and has no quote character in it, which is looked up. An escaped line end
        is as a quoted one. Compressed files and other encodings than UTF-8 are never split.
        """
        if file.size_bytes <= target_bytes or not is_splittable(options, file.path):
            return [file]
        if options.multiline and not _has_only_lines(file, Dialect.of(options, file.path)):
            return [file]
        return [replace(file, start=start, end=end) for start, end in byte_ranges(file.size_bytes, target_bytes)]


def _has_only_lines(file: SourceFile, dialect: Dialect) -> bool:
    """Whether no row has more than one line."""
    special = [character.encode() for character in (dialect.quote, dialect.escape) if character]
    if not special:
        return True
    if file.size_bytes > _QUICK_LOOK_BYTES:
        return False
    with ByteStream(file) as stream:
        while data := stream.read(BLOCK_BYTES):
            if any(character in data for character in special):
                return False
    return True
