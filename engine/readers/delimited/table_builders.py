"""Conversion of text rows to tables, with one builder for files with a header and one without."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow_types import EMPTY_TEXT, text_array
from engine.context import ErrorContext
from engine.readers.byte_arrays import CARRIAGE_RETURN, LINE_FEED, ByteArray, as_byte_array, contains
from engine.readers.delimited.conversion import ColumnPlan, convert_block, replace_nulls
from engine.readers.delimited.delimited_options import DelimitedOptions, Dialect
from engine.readers.delimited.header import COLUMNS
from engine.readers.delimited.row_repair import RowRepair
from engine.readers.delimited.rows import ParsedRows, PlainRows, parse
from engine.readers.lines import LinePositions
from engine.readers.malformed_policy import MalformedPolicy

_SCHEMA = pa.schema([COLUMNS])
_FIELDS_OF_PART = 1024 * 1024


class TableBuilder(Protocol):
    """Converts the rows of a file to tables."""

    @property
    def names(self) -> Sequence[str]:
        """The column names of the file."""
        ...

    def try_build(self, rows: PlainRows | ParsedRows) -> pa.Table | None:
        """Convert all rows at once. Return None if that is not possible.

        This method is thread-safe, because it does not change any state.
        """
        ...

    def build(self, rows: PlainRows | ParsedRows) -> pa.Table:
        """Convert the rows one by one.

        Raises:
            FormatError: If a row cannot be read.
            ValueConversionError: If a value does not match the type of its column.
        """
        ...

    def parts(self, table: pa.Table) -> Iterator[pa.Table]:
        """Return the final rows of a table that this builder made, in parts that limit the use of memory."""
        ...

    def count(self, rows: PlainRows | ParsedRows) -> int:
        """Return the number of rows that :meth:`build` would return."""
        ...

    def log_warnings(self) -> None:
        """Log the changes that the policies made. Call this method after the last rows."""
        ...


class HeaderTableBuilder:
    """Builds tables with the columns of the file's header."""

    def __init__(self, plan: ColumnPlan, options: DelimitedOptions, positions: LinePositions) -> None:
        self._plan = plan
        self._positions = positions
        self._repair = RowRepair(plan, options, positions)
        # If no rows are skipped, every row counts. It is then sufficient to count the lines.
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

    def parts(self, table: pa.Table) -> Iterator[pa.Table]:
        yield table

    def count(self, rows: PlainRows | ParsedRows) -> int:
        if isinstance(rows, PlainRows) and not rows.has_quotes and self._may_count_lines:
            return _count_lines(rows.block.data)
        table = self.try_build(rows)
        return int((self.build(rows) if table is None else table).num_rows)

    def log_warnings(self) -> None:
        self._repair.log_warnings()


class ArrayTableBuilder:
    """Builds tables with the single column ``columns``, for a file without a header.

    Args:
        dialect: The syntax of the rows.
        min_fields: The minimum number of fields of a row. Shorter rows end with nulls.
        null_value: The text that is null. None if there is none.
        positions: The positions of lines, for error messages.
    """

    names = (COLUMNS.name,)

    def __init__(self, dialect: Dialect, min_fields: int, null_value: str | None, positions: LinePositions) -> None:
        self._dialect = dialect
        self._min_fields = min_fields
        self._null_value = null_value
        self._positions = positions

    def try_build(self, rows: PlainRows | ParsedRows) -> pa.Table | None:
        if isinstance(rows, PlainRows) and not rows.has_quotes:
            return _to_table(_split(rows.block.to_bytes().decode(), self._dialect.delimiter))
        return None

    def build(self, rows: PlainRows | ParsedRows) -> pa.Table:
        if isinstance(rows, PlainRows):
            rows, _ = parse(rows.block, self._dialect, self._positions)
        return _to_table(pa.array(rows.rows, COLUMNS.type))

    def parts(self, table: pa.Table) -> Iterator[pa.Table]:
        if self._null_value is not None:
            lists = table.column(0).combine_chunks()
            values = replace_nulls(lists.flatten(), self._null_value)
            table = _to_table(pa.ListArray.from_arrays(pc.subtract(lists.offsets, lists.offsets[0]), values))
        if not self._min_fields:
            yield table
            return
        for batch in table.to_batches(max_chunksize=_FIELDS_OF_PART // self._min_fields):
            yield _to_table(_fill(batch.column(0), self._min_fields))

    def count(self, rows: PlainRows | ParsedRows) -> int:
        if isinstance(rows, PlainRows) and not rows.has_quotes:
            return _count_lines(rows.block.data)
        return int(self.build(rows).num_rows)

    def log_warnings(self) -> None:
        """Do nothing, because no policy applies to files without a header."""


def context_of(rows: PlainRows | ParsedRows, positions: LinePositions) -> ErrorContext:
    """Return the context of several rows for error messages."""
    if isinstance(rows, PlainRows):
        return positions.between(rows.block.line, rows.block.last_line)
    return positions.between(rows.lines[0], rows.lines[-1]) if rows.lines else positions.file.context


def _split(text: str, delimiter: str) -> pa.ListArray:
    lines = pc.split_pattern(text_array(text.replace("\r\n", "\n")), "\n").flatten()
    return pc.split_pattern(lines.filter(pc.not_equal(lines, EMPTY_TEXT)), delimiter)


def _fill(lists: pa.ListArray, min_fields: int) -> pa.ListArray:
    """Append nulls to the lists that have fewer than ``min_fields`` values."""
    lengths = lists.value_lengths().to_numpy()
    if not len(lengths) or lengths.min() >= min_fields:
        return lists
    filled = np.maximum(lengths, min_fields)
    ends = np.cumsum(filled)
    positions = np.arange(ends[-1]) - np.repeat(ends - filled, filled)
    starts = np.cumsum(lengths) - lengths
    values = pa.array(np.repeat(starts, filled) + positions, mask=positions >= np.repeat(lengths, filled))
    return pa.ListArray.from_arrays(pa.array(np.append(0, ends), pa.int32()), lists.flatten().take(values))


def _to_table(lists: pa.ListArray) -> pa.Table:
    return pa.Table.from_arrays([lists.cast(COLUMNS.type)], schema=_SCHEMA)


def _count_lines(data: ByteArray) -> int:
    """Count the lines that are not empty. The data must not contain quotes."""
    if contains(data, CARRIAGE_RETURN):
        data = as_byte_array(data.tobytes().replace(b"\r\n", b"\n"))
    is_end = data == LINE_FEED
    ends_row = is_end[1:] & ~is_end[:-1]
    return int(np.count_nonzero(ends_row)) + int(not is_end[-1])
