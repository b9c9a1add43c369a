"""What the formats of columnar files have in common, as scans know them."""

from contextlib import closing
from dataclasses import replace
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from engine.readers.columnar.columnar_file import ColumnarFile
from engine.readers.columnar.reader import ColumnarReader, open_columnar
from engine.readers.columnar.type_mapping import scan_schema
from engine.readers.errors import format_errors
from engine.readers.splits import packed_ranges
from engine.scan.reader import RowBatchReader, SourceFile
from engine.schema import TupleSchema


class NoOptions(BaseModel):
    """Columnar files have no options: what they are is in the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ColumnarFormat:
    """Implements all of ``ReaderFormat`` but its names."""

    options: ClassVar[type[BaseModel]] = NoOptions
    columnar_file: ClassVar[type[ColumnarFile]]

    def discover(self, file: SourceFile, options: Any) -> TupleSchema:
        """By the footer alone."""
        with closing(open_columnar(file, self.columnar_file)) as opened, format_errors(file.context, opened.kind):
            return scan_schema(opened.columns.schema)

    def reader(self, file: SourceFile, options: Any) -> RowBatchReader:
        return ColumnarReader(file, self.columnar_file)

    def splits(self, file: SourceFile, options: Any, target_bytes: int) -> list[SourceFile]:
        """By units, as many of them together as stay within ``target_bytes``."""
        if file.size_bytes <= target_bytes:
            return [file]
        with closing(open_columnar(file, self.columnar_file)) as opened, format_errors(file.context, opened.kind):
            ranges = list(packed_ranges(opened.columns.unit_bytes(), target_bytes))
        if len(ranges) < 2:
            return [file]
        return [replace(file, start=start, end=end) for start, end in ranges]
