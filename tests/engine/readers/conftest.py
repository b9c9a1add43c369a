"""Scans of one file in memory, through the real scan."""

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pytest

from engine.options import parse_options
from engine.projection.project_list import EVERYTHING, ProjectionList
from engine.readers.registry import reader_format
from engine.scan.reader import RowBatchReader, SourceFile
from engine.scan.scan import Scan, ScanInput, ScanPlan
from engine.schema import TupleSchema


@dataclass(frozen=True)
class MemoryFile:
    """A file in memory, with its options.

    Attributes:
        path: The path. Its suffix chooses the format.
        data: The content.
        options: The options of the format.
        make_reader: Returns the reader for a file and its options; by default the format does.
    """

    path: str
    data: bytes | str
    options: dict[str, object] = field(default_factory=dict)
    make_reader: Callable[..., RowBatchReader] | None = None

    @property
    def source(self) -> SourceFile:
        data = self.data.encode() if isinstance(self.data, str) else self.data
        return SourceFile("dfs", self.path, len(data), lambda: io.BytesIO(data))

    @property
    def format(self):
        return reader_format(self.source)

    @property
    def typed_options(self):
        return parse_options(self.format.options, {name: str(value) for name, value in self.options.items()})

    def discover(self) -> TupleSchema:
        return self.format.discover(self.source, self.typed_options)

    def splits(self, target_bytes: int) -> list[SourceFile]:
        return self.format.splits(self.source, self.typed_options, target_bytes)

    def batches(self, *, split=None, columns=None, provided=None, row_filters=()) -> list[pa.RecordBatch]:
        """Scan the file. ``columns`` are names, and ``provided`` maps names to types."""
        file = split or self.source
        make = partial(self.make_reader or self.format.reader, file, self.typed_options)
        plan = ScanPlan(
            selected=self.path,
            projection=EVERYTHING if columns is None else ProjectionList.parse(columns),
            provided=None if provided is None else TupleSchema(pa.field(*item) for item in provided.items()),
            row_filters=row_filters,
        )
        return list(Scan([ScanInput(file, make)], plan, file.context).batches())

    def rows(self, **how) -> list[dict[str, object]]:
        return [row for batch in self.batches(**how) for row in batch.to_pylist()]

    def split_rows(self, target_bytes: int, **how) -> list[dict[str, object]]:
        """Return the rows of all splits of the file, in order."""
        return [row for split in self.splits(target_bytes) for row in self.rows(split=split, **how)]


@pytest.fixture(scope="session")
def memory_file():
    """Create a file: ``memory_file("a.csv", "a,b\\n1,2\\n", header=True)``."""

    def make(path, data, make_reader=None, **options):
        return MemoryFile(path, data, options, make_reader)

    return make
