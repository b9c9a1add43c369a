"""The reader of delimited text.

Guarantees:

1. With a header, each column is text, or has the type that the scan has promised. pyarrow converts only projected
   columns.
2. Without a header, each row is an array of its fields in a single column ``columns``. A value is null only if the
   option ``min_fields`` added it.
3. Empty lines are not rows. Spaces are kept.
4. Rows are in the order of the file. Memory use is bounded by the block size and the limits.

Not guaranteed: ragged rows and malformed values may go unnoticed in columns that are not read. In particular, a scan
that only counts rows does not detect them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from engine.context import ErrorContext
from engine.errors import LoaderStateError
from engine.readers.delimited.conversion import ColumnPlan, is_direct
from engine.readers.delimited.delimited_options import DelimitedOptions, Dialect, EmptyValue
from engine.readers.delimited.header import COLUMNS, Header, read_header
from engine.readers.delimited.rows import ParsedRows, PlainRows, RowBlocks
from engine.readers.delimited.table_builders import ArrayTableBuilder, HeaderTableBuilder, TableBuilder, context_of
from engine.readers.lines import BLOCK_BYTES, LineBlocks, LinePositions
from engine.readers.read_ahead import map_ahead
from engine.result_set.loader import ResultSetLoader
from engine.scan.reader import SchemaNegotiator, SourceFile
from engine.schema import TupleSchema


class DelimitedReader:
    """The ``RowBatchReader`` of delimited text."""

    def __init__(self, file: SourceFile, options: DelimitedOptions, *, block_bytes: int = BLOCK_BYTES) -> None:
        self._file = file
        self._options = options
        self._block_bytes = block_bytes
        self._dialect = Dialect.of(options, file.path)
        self._lines: LineBlocks | None = None
        self._opened: _OpenReader | None = None

    def open(self, negotiator: SchemaNegotiator) -> bool:
        header = read_header(self._file, self._options)
        if header.names == ():
            return False
        self._lines = self._lines_after(header)
        positions = self._lines.positions
        builder: TableBuilder
        if header.names is None:
            negotiator.table_schema(TupleSchema([COLUMNS]), is_complete=True)
            builder = ArrayTableBuilder(self._dialect, self._options.min_fields, self._options.null_value, positions)
        else:
            schema = _promised_schema(header.schema, negotiator)
            negotiator.table_schema(schema, is_complete=True)
            builder = HeaderTableBuilder(self._plan(schema, negotiator), self._options, positions)
        rows = RowBlocks(self._lines, self._dialect, self._options.max_line_bytes)
        tables = _tables(map_ahead(rows, builder.try_build), builder, positions)
        is_count = _is_count(builder, negotiator)
        self._opened = _OpenReader(rows, tables, builder, negotiator.build(), is_count=is_count)
        return True

    def next(self) -> bool:
        if self._opened is None:
            raise LoaderStateError("the reader is not open.")
        return self._opened.next()

    def close(self) -> None:
        if self._lines is not None:
            self._lines.close()

    def _lines_after(self, header: Header) -> LineBlocks:
        start = max(self._file.start, header.start)
        return LineBlocks(
            replace(self._file, start=start),
            max_line_bytes=self._options.max_line_bytes,
            encoding=self._options.encoding,
            lines_before=header.lines if start == header.start else None,
            block_bytes=self._block_bytes,
        )

    def _plan(self, schema: TupleSchema, negotiator: SchemaNegotiator) -> ColumnPlan:
        wanted = [field for field in schema if negotiator.is_projected(field.name)]
        # At least one column is read, because pyarrow interprets an empty list as all columns.
        wanted = wanted or [schema.fields[0].with_type(pa.string())]
        is_empty_null = self._options.empty_value is EmptyValue.NULL
        return ColumnPlan(schema.names, pa.schema(wanted), is_empty_null, self._options.null_value, self._dialect)


@dataclass(frozen=True, slots=True)
class _OpenReader:
    """State of a reader whose file is open.

    Attributes:
        rows: The rows to read.
        tables: The tables of the same rows, each with its context for error messages.
        builder: Converts rows to tables.
        loader: The loader to write to.
        is_count: Whether the scan does not need any columns.
    """

    rows: RowBlocks
    tables: Iterator[tuple[ErrorContext, pa.Table]]
    builder: TableBuilder
    loader: ResultSetLoader
    is_count: bool

    def next(self) -> bool:
        if self.is_count:
            rows = self.rows.next()
            if rows is not None:
                self.loader.skip_rows(self.builder.count(rows))
                return True
        else:
            found = next(self.tables, None)
            if found is not None:
                self.loader.context, table = found
                self.loader.append(table)
                return True
        self.builder.log_warnings()
        return False


def _tables(
    attempts: Iterator[tuple[PlainRows | ParsedRows, pa.Table | None]], builder: TableBuilder, positions: LinePositions
) -> Iterator[tuple[ErrorContext, pa.Table]]:
    """Return the tables of all rows. A table that was not built ahead of time is built now."""
    for rows, table in attempts:
        for part in builder.parts(builder.build(rows) if table is None else table):
            yield context_of(rows, positions), part


def _promised_schema(schema: TupleSchema, negotiator: SchemaNegotiator) -> TupleSchema:
    """Return the columns with the types that the scan has promised.

    The type of a column is replaced only if pyarrow can convert text to the promised type.
    """
    return TupleSchema(field.with_type(_type_of(field, negotiator)) for field in schema)


def _type_of(field: pa.Field, negotiator: SchemaNegotiator) -> pa.DataType:
    promised = negotiator.promised_type(field)
    return promised if promised is not None and is_direct(promised) else field.type


def _is_count(builder: TableBuilder, negotiator: SchemaNegotiator) -> bool:
    return negotiator.is_projection_empty or not any(negotiator.is_projected(name) for name in builder.names)
