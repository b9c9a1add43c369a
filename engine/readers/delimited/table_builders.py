"""What becomes of whole rows: the columns of a header, or the one column ``columns``."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.context import ErrorContext
from engine.readers.byte_arrays import CARRIAGE_RETURN, LINE_FEED, Codes, codes_of, has
from engine.readers.delimited.conversion import ColumnPlan, convert_block
from engine.readers.delimited.header import COLUMNS
from engine.readers.delimited.options import DelimitedOptions, Dialect
from engine.readers.delimited.row_repair import RowRepair
from engine.readers.delimited.rows import ParsedRows, PlainRows, parse
from engine.readers.lines import LinePositions
from engine.readers.malformed_policy import MalformedPolicy

_SCHEMA = pa.schema([COLUMNS])


class TableBuilder(Protocol):
    """Turns the rows of one file into columns."""

    @property
    def names(self) -> Sequence[str]:
        """Of the columns that the file has."""
        ...

    def attempt(self, rows: PlainRows | ParsedRows) -> pa.Table | None:
        """The columns, if they are to be had at once. For another thread: it changes nothing."""
        ...

    def table(self, rows: PlainRows | ParsedRows) -> pa.Table:
        """Raises: FormatError, ValueConversionError."""
        ...

    def count(self, rows: PlainRows | ParsedRows) -> int:
        """How many rows :meth:`table` would give."""
        ...

    def place_of(self, rows: PlainRows | ParsedRows) -> ErrorContext: ...

    def finish(self) -> None:
        """Called after the last rows."""
        ...


class HeaderTableBuilder:
    """Rows of a file with header."""

    def __init__(self, plan: ColumnPlan, options: DelimitedOptions, place: LinePositions) -> None:
        self._plan = plan
        self._place = place
        self._repair = RowRepair(plan, options, place)
        # Only then every row counts that has its own line, whatever is in it.
        self._may_count_lines = options.malformed is not MalformedPolicy.SKIP

    @property
    def names(self) -> Sequence[str]:
        return self._plan.names

    def attempt(self, rows: PlainRows | ParsedRows) -> pa.Table | None:
        if isinstance(rows, ParsedRows):
            return None
        try:
            return convert_block(rows.block.codes, self._plan, has_quotes=rows.has_quotes)
        except pa.ArrowInvalid:
            return None

    def table(self, rows: PlainRows | ParsedRows) -> pa.Table:
        """What was not to be had at once, row by row."""
        if isinstance(rows, PlainRows):
            rows, _ = parse(rows.block, self._plan.dialect, self._place)
        return self._repair.table(rows)

    def count(self, rows: PlainRows | ParsedRows) -> int:
        if isinstance(rows, PlainRows) and not rows.has_quotes and self._may_count_lines:
            return _count_lines(rows.block.codes)
        table = self.attempt(rows)
        return int((self.table(rows) if table is None else table).num_rows)

    def place_of(self, rows: PlainRows | ParsedRows) -> ErrorContext:
        return _place_of(rows, self._place)

    def finish(self) -> None:
        self._repair.warn()


class GenericTableBuilder:
    """Rows of a file without header."""

    names = (COLUMNS.name,)

    def __init__(self, dialect: Dialect, place: LinePositions) -> None:
        self._dialect = dialect
        self._place = place

    def attempt(self, rows: PlainRows | ParsedRows) -> pa.Table | None:
        if isinstance(rows, PlainRows) and not rows.has_quotes:
            return _of_lists(_split(rows.block.data.decode(), self._dialect.delimiter))
        return None

    def table(self, rows: PlainRows | ParsedRows) -> pa.Table:
        """What was not to be had at once, by Python's parser."""
        if isinstance(rows, PlainRows):
            rows, _ = parse(rows.block, self._dialect, self._place)
        return _of_lists(pa.array(rows.rows, COLUMNS.type))

    def count(self, rows: PlainRows | ParsedRows) -> int:
        if isinstance(rows, PlainRows) and not rows.has_quotes:
            return _count_lines(rows.block.codes)
        return int(self.table(rows).num_rows)

    def place_of(self, rows: PlainRows | ParsedRows) -> ErrorContext:
        return _place_of(rows, self._place)

    def finish(self) -> None:
        pass


def _split(text: str, delimiter: str) -> pa.ListArray:
    lines = pc.split_pattern(pa.array([text.replace("\r\n", "\n")]), "\n").flatten()
    return pc.split_pattern(lines.filter(pc.not_equal(lines, "")), delimiter)


def _of_lists(lists: pa.ListArray) -> pa.Table:
    return pa.Table.from_arrays([lists.cast(COLUMNS.type)], schema=_SCHEMA)


def _count_lines(codes: Codes) -> int:
    """Lines that are not empty, without quotes in them."""
    if has(codes, CARRIAGE_RETURN):
        codes = codes_of(codes.tobytes().replace(b"\r\n", b"\n"))
    is_end = codes == LINE_FEED
    ends_row = is_end[1:] & ~is_end[:-1]
    return int(np.count_nonzero(ends_row)) + int(not is_end[-1])


def _place_of(rows: PlainRows | ParsedRows, place: LinePositions) -> ErrorContext:
    if isinstance(rows, PlainRows):
        return place.near(rows.block.line, rows.block.last_line)
    return place.near(rows.lines[0], rows.lines[-1]) if rows.lines else place.file.context
