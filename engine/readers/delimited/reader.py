"""The reader of delimited text.

Guarantees:

1. With a header, each column is text, or of the type that the scan has promised; only projected columns are
   converted, by pyarrow.
2. Without a header, each row is the array of its fields, in the one column ``columns``. No value is null.
3. Empty lines are no rows. No space is removed.
4. Rows come in the order of the file, and memory is bounded by block and limits.

Not guaranteed: that a ragged row or a malformed value of a column that nobody reads is noticed, in particular by a scan
that only counts rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from engine.errors import LoaderStateError
from engine.readers.delimited.conversion import ColumnPlan, is_direct
from engine.readers.delimited.header import COLUMNS, Header, read_header
from engine.readers.delimited.options import DelimitedOptions, Dialect, EmptyValue
from engine.readers.delimited.rows import ParsedRows, PlainRows, RowBlocks
from engine.readers.delimited.table_builders import GenericTableBuilder, HeaderTableBuilder, TableBuilder
from engine.readers.lines import BLOCK_BYTES, LineBlocks
from engine.readers.read_ahead import map_ahead
from engine.result_set.loader import ResultSetLoader
from engine.scan.reader import SchemaNegotiator, SourceFile
from engine.schema import TupleSchema


class DelimitedReader:
    """Implements ``RowBatchReader``."""

    def __init__(self, file: SourceFile, options: DelimitedOptions, *, block_bytes: int = BLOCK_BYTES) -> None:
        self._file = file
        self._options = options
        self._block_bytes = block_bytes
        self._dialect = Dialect.of(options, file.path)
        self._lines: LineBlocks | None = None
        self._open: _Open | None = None

    def open(self, negotiator: SchemaNegotiator) -> bool:
        header = read_header(self._file, self._options)
        if header.names == ():
            return False
        self._lines = self._lines_after(header)
        contents: TableBuilder
        if header.names is None:
            negotiator.table_schema(TupleSchema([COLUMNS]), is_complete=True)
            contents = GenericTableBuilder(self._dialect, self._lines.place)
        else:
            schema = _promised(header.schema, negotiator)
            negotiator.table_schema(schema, is_complete=True)
            contents = HeaderTableBuilder(self._plan(schema, negotiator), self._options, self._lines.place)
        rows = RowBlocks(self._lines, self._dialect, self._options.max_line_bytes)
        attempts = map_ahead(rows, contents.attempt)
        self._open = _Open(rows, attempts, contents, negotiator.build(), is_count=_is_count(contents, negotiator))
        return True

    def next(self) -> bool:
        if self._open is None:
            raise LoaderStateError("the reader is not open.")
        return self._open.next()

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
        # One column is read also if none is wanted, because pyarrow takes none for all.
        wanted = wanted or [schema.fields[0].with_type(pa.string())]
        is_empty_null = self._options.empty_value is EmptyValue.NULL
        return ColumnPlan(schema.names, pa.schema(wanted), is_empty_null, self._dialect)


@dataclass(frozen=True, slots=True)
class _Open:
    """An open file.

    Attributes:
        rows: What is still to be read.
        attempts: The same, with what was made of it ahead.
        contents: What becomes of rows.
        loader: Where they go to.
        is_count: No column is wanted.
    """

    rows: RowBlocks
    attempts: Iterator[tuple[PlainRows | ParsedRows, pa.Table | None]]
    contents: TableBuilder
    loader: ResultSetLoader
    is_count: bool

    def next(self) -> bool:
        if self.is_count:
            rows = self.rows.next()
            if rows is not None:
                self.loader.skip_rows(self.contents.count(rows))
                return True
        else:
            rows, table = next(self.attempts, (None, None))
            if rows is not None:
                table = self.contents.table(rows) if table is None else table
                self.loader.context = self.contents.place_of(rows)
                self.loader.append(table)
                return True
        self.contents.finish()
        return False


def _promised(schema: TupleSchema, negotiator: SchemaNegotiator) -> TupleSchema:
    """With the types that the scan wants, where pyarrow can make them of text."""
    return TupleSchema(field.with_type(_type_of(field, negotiator)) for field in schema)


def _type_of(field: pa.Field, negotiator: SchemaNegotiator) -> pa.DataType:
    promised = negotiator.promised_type(field)
    return promised if promised is not None and is_direct(promised) else field.type


def _is_count(contents: TableBuilder, negotiator: SchemaNegotiator) -> bool:
    return negotiator.is_projection_empty or not any(negotiator.is_projected(name) for name in contents.names)
