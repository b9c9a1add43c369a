"""The part of ``ReaderFormat`` that all columnar formats have in common."""

from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from engine.packing import pack
from engine.readers.columnar.columnar_file import ColumnarFile
from engine.readers.columnar.columnar_reader import ColumnarReader, open_columnar
from engine.readers.columnar.type_mapping import scan_schema
from engine.readers.reader_errors import format_errors
from engine.scan.reader import RowBatchReader, SourceFile
from engine.schema import TupleSchema


@dataclass(frozen=True, slots=True)
class NoOptions:
    """Options of columnar files. There are none."""


class ColumnarFormat:
    """Base class of the columnar formats.

    Subclasses define the name, the suffixes and the class of the file.
    """

    options: ClassVar[type] = NoOptions
    columnar_file: ClassVar[type[ColumnarFile]]

    def discover(self, file: SourceFile, options: Any) -> TupleSchema:
        """Return the schema from the footer or header of the file."""
        with (
            closing(open_columnar(file, self.columnar_file, options)) as opened,
            format_errors(file.context, opened.columns.kind),
        ):
            return self._schema(opened.columns)

    def _schema(self, columns: Any) -> TupleSchema:
        """Return the schema of an open file with the types of a scan."""
        return scan_schema(columns.schema)

    def reader(self, file: SourceFile, options: Any) -> RowBatchReader:
        return ColumnarReader(file, self.columnar_file, options)

    def splits(self, file: SourceFile, options: Any, target_bytes: int) -> list[SourceFile]:
        """Split a file between units.

        A split contains several units if their total size does not exceed ``target_bytes``.
        """
        if file.size_bytes <= target_bytes:
            return [file]
        with (
            closing(open_columnar(file, self.columnar_file, options)) as opened,
            format_errors(file.context, opened.columns.kind),
        ):
            groups = list(pack(enumerate(opened.columns.unit_bytes()), target_bytes))
        if len(groups) < 2:
            return [file]
        return [replace(file, start=units[0], end=units[-1] + 1) for units in groups]
