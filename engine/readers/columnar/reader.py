"""The reader of columnar files.

Guarantees:

1. Only projected columns are read, and only units that may have a row for which the scan's filter is true.
2. If no column is wanted, rows are counted without reading them where the file says how many there are.
3. Values come in the types of :mod:`engine.readers.columnar.type_mapping`. A value that cannot is an error that names
   the column and the unit.
4. A file that cannot be read as its format, encrypted ones included, is a FormatError that names the unit, if one
   was being read. A file that changed its size before its end was read is a FileChangedError.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from engine.context import ErrorContext
from engine.errors import LoaderStateError
from engine.readers.columnar.columnar_file import ColumnarFile
from engine.readers.columnar.type_mapping import scan_schema, scan_type, to_scan_types
from engine.readers.errors import FormatError, format_errors
from engine.readers.stream import ArrowFileAdapter, check_size, open_checked
from engine.result_set.loader import ResultSetLoader
from engine.scan.reader import SchemaNegotiator, SourceFile
from engine.schema import fold_case


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A columnar file and what it is read from."""

    columns: ColumnarFile
    raw: BinaryIO

    @property
    def kind(self) -> str:
        return self.columns.kind

    def close(self) -> None:
        self.raw.close()


def open_columnar(file: SourceFile, kind: type[ColumnarFile]) -> OpenedFile:
    """Raises: FileError."""
    raw = open_checked(file)
    try:
        if file.size_bytes == 0:
            raise FormatError(file.context, f"it is empty, which no {kind.kind} file is")
        with format_errors(file.context, kind.kind):
            return OpenedFile(kind(ArrowFileAdapter(file, raw)), raw)
    except BaseException:
        raw.close()
        raise


class ColumnarReader:
    """Implements ``RowBatchReader``."""

    def __init__(self, file: SourceFile, kind: type[ColumnarFile]) -> None:
        self._file = file
        self._columnar_file = kind
        self._opened: OpenedFile | None = None
        self._loader: ResultSetLoader | None = None
        self._batches: Iterator[tuple[pa.RecordBatch | int, ErrorContext]] = iter(())

    def open(self, negotiator: SchemaNegotiator) -> bool:
        self._opened = open_columnar(self._file, self._columnar_file)
        with format_errors(self._file.context, self._opened.kind):
            columns = self._opened.columns
            schema = scan_schema(columns.schema)
            negotiator.table_schema(schema, is_complete=True)
            units = self._units(columns, negotiator)
        self._loader = negotiator.build()
        wanted = [] if negotiator.is_projection_empty else [one for one in schema.names if negotiator.is_projected(one)]
        self._batches = self._counts(columns, units) if not wanted else self._reads(columns, units, wanted)
        return True

    def next(self) -> bool:
        if self._loader is None or self._opened is None:
            raise LoaderStateError("the reader is not open.")
        batch, place = next(self._batches, (None, self._file.context))
        if batch is None:
            check_size(self._file, self._opened.raw)
            return False
        self._loader.context = place
        if isinstance(batch, int):
            self._loader.skip_rows(batch)
        elif batch.num_rows:
            self._loader.append(batch)
        return True

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _units(self, columns: ColumnarFile, negotiator: SchemaNegotiator) -> Sequence[int]:
        end = columns.unit_count if self._file.end is None else min(self._file.end, columns.unit_count)
        units = range(self._file.start, end)
        conditions = _conditions(columns.schema, negotiator)
        return columns.may_match(units, conditions) if units and conditions else units

    def _reads(
        self, columns: ColumnarFile, units: Sequence[int], wanted: list[str]
    ) -> Iterator[tuple[pa.RecordBatch | int, ErrorContext]]:
        for unit in units:
            place = self._place(columns, unit)
            with format_errors(place, columns.kind):
                for batch in columns.batches(unit, wanted):
                    # Offsets in a file are trusted by Arrow, and text is not looked at.
                    batch.validate(full=True)
                    yield to_scan_types(batch.select(wanted), place), place

    def _counts(
        self, columns: ColumnarFile, units: Sequence[int]
    ) -> Iterator[tuple[pa.RecordBatch | int, ErrorContext]]:
        for unit in units:
            place = self._place(columns, unit)
            with format_errors(place, columns.kind):
                rows = columns.rows_in(unit)
                yield (sum(batch.num_rows for batch in columns.batches(unit, [])) if rows is None else rows), place

    def _place(self, columns: ColumnarFile, unit: int) -> ErrorContext:
        return self._file.context.at(f"{columns.unit} {unit + 1}")


def _conditions(schema: pa.Schema, negotiator: SchemaNegotiator) -> Sequence[pc.Expression]:
    """The scan's filters about columns that it wants as they are: none about an implicit column of the same name."""
    fields = {fold_case(field.name): field for field in schema}
    found = [(fields.get(fold_case(one.column)), one) for one in negotiator.row_filters]
    conditions = [
        one.expression(field)
        for field, one in found
        if field is not None and negotiator.promised_type(_scan_field(field)) == field.type
    ]
    return [condition for condition in conditions if condition is not None]


def _scan_field(field: pa.Field) -> pa.Field:
    return field.with_type(scan_type(field.type))
