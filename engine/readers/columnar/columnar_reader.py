"""The reader of all columnar files.

Guarantees:

1. Only projected columns are read, and only units that may contain a row for which the scan's filters are true.
2. If the scan does not need any columns, the rows are counted from the metadata, if the file stores the number of rows.
3. Values have the types of :mod:`engine.readers.columnar.type_mapping`. A value that cannot be converted raises an
   error that includes the column and the unit.
4. If a file does not match its format, a FormatError is raised. It includes the unit that was being read, if any. This
   also applies to encrypted files. If the size of a file changes before its end is read, a FileChangedError is raised.
5. Encoded values are decoded in parts of a limited size.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from engine.context import ErrorContext
from engine.errors import LoaderStateError
from engine.readers.columnar.columnar_file import ColumnarFile
from engine.readers.columnar.decoded_size import bounded_parts
from engine.readers.columnar.type_mapping import ScanTypes, scan_field, scan_schema
from engine.readers.reader_errors import FormatError, check_readable, format_errors
from engine.readers.text_stream import ArrowFileAdapter, check_size, open_checked
from engine.result_set.loader import ResultSetLoader
from engine.scan.reader import SchemaNegotiator, SourceFile
from engine.schema import fold_case


@dataclass(frozen=True, slots=True)
class OpenColumnarFile:
    """A columnar file, together with the raw file that must be closed."""

    columns: ColumnarFile
    raw: BinaryIO

    def close(self) -> None:
        self.raw.close()


def open_columnar(file: SourceFile, kind: type[ColumnarFile], options: Any) -> OpenColumnarFile:
    """Open a file in the given format.

    Raises:
        FileError: If the file cannot be opened, or does not match the format.
    """
    raw = open_checked(file)
    try:
        if file.size_bytes == 0:
            raise FormatError(file.context, f"the file is empty, so it is not a {kind.kind} file")
        with format_errors(file.context, kind.kind):
            return OpenColumnarFile(kind(ArrowFileAdapter(file, raw), options), raw)
    except BaseException:
        raw.close()
        raise


class ColumnarReader:
    """The ``ContinuingReader`` of columnar files."""

    def __init__(self, file: SourceFile, kind: type[ColumnarFile], options: Any) -> None:
        self._file = file
        self._kind = kind
        self._options = options
        self._opened: OpenColumnarFile | None = None
        self._loader: ResultSetLoader | None = None
        self._conditions: Sequence[pc.Expression] = ()
        self._wanted: list[str] = []
        self._types = ScanTypes()
        self._batches: Iterator[tuple[pa.RecordBatch | int, ErrorContext]] = iter(())

    def open(self, negotiator: SchemaNegotiator) -> bool:
        self._opened = open_columnar(self._file, self._kind, self._options)
        columns = self._opened.columns
        with format_errors(self._file.context, columns.kind):
            schema = scan_schema(columns.schema)
            negotiator.table_schema(schema, is_complete=True)
            self._conditions = _conditions(columns.schema, negotiator)
        if not negotiator.is_projection_empty:
            wanted = [column for column in schema if negotiator.is_projected(column.name)]
            for column in wanted:
                check_readable(column, self._file.context)
            self._wanted = [column.name for column in wanted]
        self._loader = negotiator.build()
        self._start(columns)
        return True

    def proceed(self, file: SourceFile) -> bool:
        if self._opened is None:
            raise LoaderStateError("the reader is not open.")
        following = open_columnar(file, self._kind, self._options)
        if not following.columns.schema.equals(self._opened.columns.schema):
            following.close()
            return False
        self._opened.close()
        self._file, self._opened = file, following
        self._start(following.columns)
        return True

    def _start(self, columns: ColumnarFile) -> None:
        """Start to read the selected units of an open file."""
        with format_errors(self._file.context, columns.kind):
            units = self._select_units(columns)
        self._batches = self._read(columns, units, self._wanted) if self._wanted else self._count(columns, units)

    def next(self) -> bool:
        if self._loader is None or self._opened is None:
            raise LoaderStateError("the reader is not open.")
        batch, context = next(self._batches, (None, self._file.context))
        if batch is None:
            check_size(self._file, self._opened.raw)
            return False
        self._loader.context = context
        if isinstance(batch, int):
            self._loader.skip_rows(batch)
        elif batch.num_rows:
            self._loader.append(batch)
        return True

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _select_units(self, columns: ColumnarFile) -> Sequence[int]:
        end = columns.unit_count if self._file.end is None else min(self._file.end, columns.unit_count)
        units = range(self._file.start, end)
        return columns.may_match(units, self._conditions) if units and self._conditions else units

    def _read(
        self, columns: ColumnarFile, units: Sequence[int], wanted: list[str]
    ) -> Iterator[tuple[pa.RecordBatch | int, ErrorContext]]:
        for unit in units:
            context = self._context(columns, unit)
            with format_errors(context, columns.kind):
                for batch in columns.batches(unit, wanted):
                    # Arrow trusts the offsets in a file and does not validate text.
                    batch.validate(full=True)
                    for part in bounded_parts(batch.select(wanted)):
                        yield self._types.convert(part, context), context

    def _count(
        self, columns: ColumnarFile, units: Sequence[int]
    ) -> Iterator[tuple[pa.RecordBatch | int, ErrorContext]]:
        for unit in units:
            context = self._context(columns, unit)
            with format_errors(context, columns.kind):
                rows = columns.rows_in(unit)
                yield (sum(batch.num_rows for batch in columns.batches(unit, [])) if rows is None else rows), context

    def _context(self, columns: ColumnarFile, unit: int) -> ErrorContext:
        return self._file.context.at(f"{columns.unit} {unit + 1}")


def _conditions(schema: pa.Schema, negotiator: SchemaNegotiator) -> Sequence[pc.Expression]:
    """Return the filters of the scan that apply to columns of the file.

    A filter applies only if the scan reads the column with the type that the column has in the file. A filter on an
    implicit column does not apply to a column of the file with the same name.
    """
    fields = {fold_case(field.name): field for field in schema}
    found = [(fields.get(fold_case(one.column)), one) for one in negotiator.row_filters]
    conditions = [
        one.expression(field)
        for field, one in found
        if field is not None and negotiator.promised_type(scan_field(field)) == field.type
    ]
    return [condition for condition in conditions if condition is not None]
