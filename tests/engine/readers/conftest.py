"""Scans of one file that is only in memory, through the real scan."""

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pytest

from engine.projection.project_list import EVERYTHING, ProjectionList
from engine.readers.registry import reader_format
from engine.scan.reader import RowBatchReader, SourceFile
from engine.scan.scan import Scan, ScanInput, ScanPlan
from engine.schema import TupleSchema


@dataclass(frozen=True)
class MemoryFile:
    """A file, and how it is scanned.

    Attributes:
        path: Its suffix chooses the format.
        data: Its bytes.
        options: Of the format.
        make_reader: Makes the reader of a file and its options; by default the format does.
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
        return self.format.options.model_validate(self.options)

    def discover(self) -> TupleSchema:
        return self.format.discover(self.source, self.typed_options)

    def splits(self, target_bytes: int) -> list[SourceFile]:
        return self.format.splits(self.source, self.typed_options, target_bytes)

    def batches(self, *, part=None, columns=None, provided=None, row_filters=()) -> list[pa.RecordBatch]:
        """What a scan gives; ``columns`` are names, ``provided`` is a dictionary of types."""
        file = part or self.source
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
        """The rows of all parts of the file, one after the other."""
        return [row for part in self.splits(target_bytes) for row in self.rows(part=part, **how)]


@pytest.fixture(scope="session")
def memory_file():
    """Makes a file: ``memory_file("a.csv", "a,b\\n1,2\\n", header=True)``."""

    def make(path, data, make_reader=None, **options):
        return MemoryFile(path, data, options, make_reader)

    return make
