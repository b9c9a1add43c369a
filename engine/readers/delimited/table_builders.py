"""Tables from whole rows of text, one builder for files with a header and one for files without."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.context import ErrorContext
from engine.readers.byte_arrays import CARRIAGE_RETURN, LINE_FEED, ByteArray, as_byte_array, contains
from engine.readers.delimited.conversion import ColumnPlan, convert_block
from engine.readers.delimited.header import COLUMNS
from engine.readers.delimited.options import DelimitedOptions, Dialect
from engine.readers.delimited.row_repair import RowRepair
from engine.readers.delimited.rows import ParsedRows, PlainRows, parse
from engine.readers.lines import LinePositions
from engine.readers.malformed_policy import MalformedPolicy

_SCHEMA = pa.schema([COLUMNS])


class TableBuilder(Protocol):
    """Converts the rows of one file to tables."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the columns of the file."""
        ...

    def try_build(self, rows: PlainRows | ParsedRows) -> pa.Table | None:
        """Convert all rows at once; None if that is not possible. Thread-safe, because it changes no state."""
        ...

    def build(self, rows: PlainRows | ParsedRows) -> pa.Table:
        """Convert the rows one by one.

        Raises:
            FormatError: A row cannot be read.
            ValueConversionError: A value is not of its column's type.
        """
        ...

    def count(self, rows: PlainRows | ParsedRows) -> int:
        """Return the number of rows that :meth:`build` would return."""
        ...

    def log_warnings(self) -> None:
        """Log what the policies changed. Call this after the last rows."""
        ...


class HeaderTableBuilder:
    """Builds the columns that the header of a file names."""

    def __init__(self, plan: ColumnPlan, options: DelimitedOptions, positions: LinePositions) -> None:
        self._plan = plan
        self._positions = positions
        self._repair = RowRepair(plan, options, positions)
        # If no row is skipped, each row counts, so counting lines is enough.
        self._may_count_lines = options.malformed is not MalformedPolicy.SKIP

    @property
    def names(self) -> Sequence[str]:
        return self._plan.names

    def try_build(self, rows: PlainRows | ParsedRows) -> pa.Table | None:
        if isinstance(rows, ParsedRows):
            return None
        try:
            return convert_block(rows.block.data, self._plan, has_quotes=rows.has_quotes)
        except pa.ArrowInvalid:
            return None

    def build(self, rows: PlainRows | ParsedRows) -> pa.Table:
        if isinstance(rows, PlainRows):
            rows, _ = parse(rows.block, self._plan.dialect, self._positions)
        return self._repair.table(rows)

    def count(self, rows: PlainRows | ParsedRows) -> int:
        if isinstance(rows, PlainRows) and not rows.has_quotes and self._may_count_lines:
            return _count_lines(rows.block.data)
        table = self.try_build(rows)
        return int((self.build(rows) if table is None else table).num_rows)

    def log_warnings(self) -> None:
        self._repair.log_warnings()


class ArrayTableBuilder:
    """Builds the one column ``columns`` of a file without a header."""

    names = (COLUMNS.name,)

    def __init__(self, dialect: Dialect, positions: LinePositions) -> None:
        self._dialect = dialect
        self._positions = positions

    def try_build(self, rows: PlainRows | ParsedRows) -> pa.Table | None:
        if isinstance(rows, PlainRows) and not rows.has_quotes:
            return _to_table(_split(rows.block.to_bytes().decode(), self._dialect.delimiter))
        return None

    def build(self, rows: PlainRows | ParsedRows) -> pa.Table:
        if isinstance(rows, PlainRows):
            rows, _ = parse(rows.block, self._dialect, self._positions)
        return _to_table(pa.array(rows.rows, COLUMNS.type))

    def count(self, rows: PlainRows | ParsedRows) -> int:
        if isinstance(rows, PlainRows) and not rows.has_quotes:
            return _count_lines(rows.block.data)
        return int(self.build(rows).num_rows)

    def log_warnings(self) -> None:
        """Do nothing, because no policy applies to files without a header."""


def context_of(rows: PlainRows | ParsedRows, positions: LinePositions) -> ErrorContext:
    """Return the lines of some rows, for error messages."""
    if isinstance(rows, PlainRows):
        return positions.between(rows.block.line, rows.block.last_line)
    return positions.between(rows.lines[0], rows.lines[-1]) if rows.lines else positions.file.context


def _split(text: str, delimiter: str) -> pa.ListArray:
    lines = pc.split_pattern(pa.array([text.replace("\r\n", "\n")]), "\n").flatten()
    return pc.split_pattern(lines.filter(pc.not_equal(lines, "")), delimiter)


def _to_table(lists: pa.ListArray) -> pa.Table:
    return pa.Table.from_arrays([lists.cast(COLUMNS.type)], schema=_SCHEMA)


def _count_lines(data: ByteArray) -> int:
    """Count the lines that are not empty. The data must not contain quotes."""
    if contains(data, CARRIAGE_RETURN):
        data = as_byte_array(data.tobytes().replace(b"\r\n", b"\n"))
    is_end = data == LINE_FEED
    ends_row = is_end[1:] & ~is_end[:-1]
    return int(np.count_nonzero(ends_row)) + int(not is_end[-1])
