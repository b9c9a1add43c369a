"""Reader of fixed-width text for Lodge. Each column has the same position in every line.

    select name, amount from dfs.`stock.fwf` with (columns = 'id int 4, name string 10, amount int 6')

Guarantees:

1. Each line that is not blank is a row. Spaces around a value are removed. A value that consists only of spaces is
   null.
2. If a value in an integer column is not an integer, or text follows after the last column, an error with the line
   number is raised.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import pyarrow as pa

from engine.context import ErrorContext
from engine.errors import ValueConversionError
from engine.options import Text, option
from engine.readers.lines import LineBlocks
from engine.readers.reader_errors import FormatError
from engine.result_set.writers.column import ColumnWriter
from engine.scan.reader import RowBatchReader, SchemaNegotiator, SourceFile
from engine.schema import TupleSchema

TYPES: Mapping[str, pa.DataType] = MappingProxyType({"int": pa.int64(), "string": pa.string()})

_COLUMN = re.compile(r"\s*(?P<name>\w+)\s+(?P<type>int|string)\s+(?P<width>[1-9]\d{0,3})\s*")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class Column:
    """A column and its position in each line: from character ``start`` up to, but not including, ``end``."""

    field: pa.Field
    start: int
    end: int


def columns_of(text: str) -> tuple[Column, ...]:
    """Parse the option ``columns``.

    Raises:
        ValueError: If the text is invalid. Lodge reports this error as an error of the option.
    """
    columns: list[Column] = []
    start = 0
    for part in text.split(","):
        found = _COLUMN.fullmatch(part)
        if found is None:
            raise ValueError(f"{part.strip()!r} is not a name, a type and a width, such as 'id int 4'")
        end = start + int(found["width"])
        columns.append(Column(pa.field(found["name"], TYPES[found["type"]]), start, end))
        start = end
    return tuple(columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedWidthOptions:
    """Options of fixed-width text."""

    columns: tuple[Column, ...] = option(
        Text(columns_of),
        description="The name, type (`int` or `string`) and width in characters of each column, separated by commas: "
        "`id int 4, name string 10`.",
    )


class FixedWidthFormat:
    """Format to which the entry points refer. Implements ``engine.scan.reader.ReaderFormat``."""

    name: ClassVar[str] = "fixed_width"
    suffixes: ClassVar[tuple[str, ...]] = (".fwf",)
    options: ClassVar[type] = FixedWidthOptions

    def discover(self, file: SourceFile, options: FixedWidthOptions) -> TupleSchema:
        return TupleSchema(column.field for column in options.columns)

    def reader(self, file: SourceFile, options: FixedWidthOptions) -> RowBatchReader:
        return FixedWidthReader(file, options)

    def splits(self, file: SourceFile, options: FixedWidthOptions, target_bytes: int) -> list[SourceFile]:
        return [file]


class FixedWidthReader:
    """Reads a single file. Implements ``engine.scan.reader.RowBatchReader``."""

    def __init__(self, file: SourceFile, options: FixedWidthOptions) -> None:
        self._file = file
        self._columns = options.columns
        self._open_files = ExitStack()

    def open(self, negotiator: SchemaNegotiator) -> bool:
        negotiator.table_schema(TupleSchema(column.field for column in self._columns), is_complete=True)
        self._loader = negotiator.build()
        self._blocks = self._open_files.enter_context(LineBlocks(self._file))
        self._lines = _numbered_lines(self._blocks)
        return True

    def next(self) -> bool:
        row = self._loader.writer
        while not row.is_full:
            number, line = next(self._lines, (0, ""))
            if not number:
                return False
            position = self._loader.context = self._blocks.positions.at(number)
            row.start_row()
            for index, column in enumerate(self._columns):
                _write(row.column(index), column.field, line[column.start : column.end].strip(" "), position)
            if len(line) > self._columns[-1].end:
                raise FormatError(position, "there is text after the last column; correct the widths or the line")
            row.save_row()
        return True

    def close(self) -> None:
        self._open_files.close()


def _write(writer: ColumnWriter, field: pa.Field, text: str, position: ErrorContext) -> None:
    if not text:
        writer.set_null()
    elif field.type == TYPES["string"]:
        writer.set_string(text)
    elif _INTEGER.fullmatch(text):
        writer.set_int(int(text))
    else:
        raise ValueConversionError(field.name, text, field.type, position)


def _numbered_lines(blocks: LineBlocks) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, with their numbers and without trailing spaces."""
    while (block := blocks.next()) is not None:
        for number, line in enumerate(block.text(blocks.positions).split("\n"), block.line):
            text = line.rstrip(" \r")
            if text:
                yield number, text
