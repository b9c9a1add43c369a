"""A scan of the files of a workspace: which files, with which readers, of which schema, in which parts.

Why it exists: Spark runs a scan in many tasks on several machines. What they must agree on is decided here, before
the first task starts: the files, their parts, and the schema, which is the commit point for all of them.

Guarantees:

1. With discovery ``all``, the schema holds what every file has, or there is an error that names the file at odds; no
   column is lost unasked.
2. The parts of a scan are together all of its files, each byte once.
3. A task reads by the schema alone. What a file has beside it is left out, with one warning a name and task.

Source: seed 002, "Subsequent Readers and Schema Changes"; design, "Engine".
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Self

import pyarrow as pa

from engine.context import ErrorContext
from engine.errors import NoFilesError
from engine.files import list_files, open_file, size_of
from engine.packing import Sized, packed
from engine.projection.path import quoted
from engine.projection.project_list import ProjectionList
from engine.readers.registry import reader_format
from engine.scan.implicit import FileLocation, implicit_field, partition_fields
from engine.scan.missing_columns import named_types
from engine.scan.reader import ReaderFormat, SourceFile
from engine.scan.scan import Scan, ScanInput, ScanPlan
from engine.scan_options import ScanOptions, split_options, validated
from engine.schema import TupleSchema, folded
from engine.schema_tracker.merging import merge_schemas
from engine.source import ScanSource, selected_directory

_DISCOVERY_THREADS = 8
_OPENING_BYTES = 1024 * 1024
_TYPE_OF_NULLS = pa.string()


@dataclass(frozen=True, slots=True)
class FileScan:
    """One scan, as options describe it. Can be pickled.

    Attributes:
        source: What it reads.
        options: How, as far as that does not depend on the format.
        reader_options: How, for the format.
        mentioned: Names, case folded, outside of which no column is needed; None for all columns.
    """

    source: ScanSource
    options: ScanOptions
    reader_options: Mapping[str, str] = field(default_factory=dict)
    mentioned: frozenset[str] | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """Raises: ScanOptionError."""
        own, readers = split_options(options)
        return cls(ScanSource.from_options(options), own, readers, ScanSource.mentioned_in(options))

    def discover(self) -> TupleSchema:
        """The columns that the statement may need, each with the type that holds it in all files.

        Raises:
            EngineError.
        """
        files = self._files()
        if not files:
            raise NoFilesError(self.source.workspace, self.source.path)
        asked = self._asked(files)
        with ThreadPoolExecutor(_DISCOVERY_THREADS, thread_name_prefix="discovery") as pool:
            schemas = list(pool.map(self._schema_of, asked))
        contexts = [file.context for file in asked]
        merged = named_types(merge_schemas(zip(schemas, contexts, strict=True)), _TYPE_OF_NULLS)
        return self._needed(merged, [self._location(file) for file in files])

    def parts(self) -> Sequence[Sequence[SourceFile]]:
        """What each task reads.

        Raises:
            EngineError.
        """
        target_bytes = int(self.options.partition_bytes)
        sized = []
        for file in self._files():
            format_, options = self._format(file)
            ranges = format_.splits(file, options, target_bytes)
            sized += [Sized(one, file.size_bytes // len(ranges)) for one in ranges]
        return list(packed(sized, target_bytes, _OPENING_BYTES))

    def batches(
        self, files: Sequence[SourceFile], schema: TupleSchema, *, is_declared: bool
    ) -> Iterator[pa.RecordBatch]:
        """What a task reads.

        Args:
            files: One of :meth:`parts`.
            schema: The columns that are wanted, in order.
            is_declared: A user has declared the schema, so text becomes its types, and any type text.
        """
        plan = ScanPlan(
            selected=selected_directory(self.source.path),
            projection=ProjectionList.parse(quoted(one.name) for one in schema),
            defined=schema,
            provided=schema if is_declared else None,
        )
        inputs = [ScanInput(file, partial(self._reader, file)) for file in files]
        return Scan(inputs, plan, ErrorContext(self.source.workspace)).batches()

    def _files(self) -> Sequence[SourceFile]:
        workspace = self.source.workspace
        return [
            SourceFile(workspace, path, size_of(self.source, path), partial(open_file, self.source, path))
            for path in list_files(self.source, any_suffix=self.options.format is not None)
        ]

    def _asked(self, files: Sequence[SourceFile]) -> Sequence[SourceFile]:
        """The files whose schemas count."""
        wanted = {"all": len(files), "sample": self.options.sample_files, "first": 1}[self.options.discovery]
        if wanted >= len(files):
            return files
        step = len(files) / wanted
        return [files[int(number * step)] for number in range(wanted)]

    def _needed(self, schema: TupleSchema, locations: Sequence[FileLocation]) -> TupleSchema:
        """Without columns that nobody mentions; with implicit columns that somebody does."""
        if self.mentioned is None:
            return TupleSchema(
                [*schema, *(one for one in partition_fields(locations) if schema.find(one.name) is None)]
            )
        implicit = (implicit_field(name) for name in sorted(self.mentioned) if schema.find(name) is None)
        needed = [one for one in schema if folded(one.name) in self.mentioned]
        return TupleSchema([*needed, *(one for one in implicit if one is not None)])

    def _location(self, file: SourceFile) -> FileLocation:
        return FileLocation.of(str(PurePosixPath(file.path)), selected_directory(self.source.path))

    def _format(self, file: SourceFile) -> tuple[ReaderFormat, Any]:
        format_ = reader_format(file, self.options.format)
        return format_, validated(format_.options, self.reader_options)

    def _schema_of(self, file: SourceFile) -> TupleSchema:
        format_, options = self._format(file)
        return format_.discover(file, options)

    def _reader(self, file: SourceFile) -> Any:
        format_, options = self._format(file)
        return format_.reader(file, options)
