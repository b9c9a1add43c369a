"""A scan of files in a workspace, as described by its options.

Spark runs a scan as many tasks on several machines. Before the first task starts, the folder of this module decides the
properties that all tasks have in common: the files, the partitions and the schema. This decision is the commit point of
the scan.

Sources: [scan-schema-tracker "Subsequent Readers and Schema Changes"], [architecture "Engine"].
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

from engine.errors import NoFilesError
from engine.file_list import FILES, unpack_files
from engine.options import parse_options
from engine.readers.columnar.parquet import ParquetFormat
from engine.readers.columnar.rebase_modes import RebaseModes
from engine.readers.registry import reader_format
from engine.scan.reader import ReaderFormat, SourceFile
from engine.scan_options import ScanOptions, split_options
from engine.scan_source import ScanSource
from engine.storage.files import list_files, open_file
from engine.storage.listed_file import ListedFile, OnProgress, ignore_progress
from engine.storage.open_ahead import opened_ahead


@dataclass(frozen=True, slots=True)
class FileScan:
    """A scan, as described by its options. Instances can be pickled.

    Attributes:
        source: The files to read.
        options: The options that do not depend on the format.
        reader_options: The options of the format.
        mentioned: The names that the statement contains, in their ``mentioned_form``. No others are needed. None for
            all columns.
        listed: The files of the scan, if they were listed before. None if the scan lists them itself.
    """

    source: ScanSource
    options: ScanOptions
    reader_options: Mapping[str, str] = field(default_factory=dict)
    mentioned: frozenset[str] | None = None
    listed: Sequence[ListedFile] | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """Create a scan from the options of Spark's data source.

        Raises:
            ScanOptionError: If an option is missing or invalid.
        """
        own, readers = split_options(options)
        given = {key.lower(): value for key, value in options.items()}
        listed = unpack_files(given[FILES]) if FILES in given else None
        return cls(ScanSource.from_options(options), own, readers, ScanSource.mentioned_in(options), listed)

    def list_files(self, on_progress: OnProgress = ignore_progress) -> Sequence[ListedFile]:
        """Return the files of the scan, sorted by path.

        Args:
            on_progress: Called while directories are listed.

        Raises:
            NoFilesError: If the path contains no files.
            EngineError: If a file cannot be listed.
        """
        files = self.list_any_files(on_progress)
        if not files:
            raise NoFilesError(self.source.workspace, self.source.path)
        return files

    def list_any_files(self, on_progress: OnProgress = ignore_progress) -> Sequence[ListedFile]:
        """Return the files of the scan, sorted by path. They may be none; see :meth:`list_files`."""
        if self.listed is not None:
            return self.listed
        return list_files(
            self.source,
            any_suffix=self.options.format is not None,
            on_progress=on_progress,
            is_raw=self.options.raw_files,
        )

    def without_files(self) -> "FileScan":
        """Return the scan as its tasks get it. Each task gets its own files, because unpickling all takes long."""
        return replace(self, listed=())

    def open_later(self, file: ListedFile) -> SourceFile:
        """Return a listed file in the form that readers open."""
        return SourceFile(self.source.workspace, file.path, file.size_bytes, partial(open_file, self.source, file))

    def opened_ahead(self, files: Sequence[SourceFile]) -> AbstractContextManager[Sequence[SourceFile]]:
        """Return files that are read in this order. Small files in object stores are opened ahead."""
        return opened_ahead(files) if self.source.is_remote else nullcontext(files)

    def find_format(self, file: SourceFile) -> tuple[ReaderFormat, Any]:
        """Return the format of a file, and the options of the format."""
        format_ = reader_format(file, self.options.format)
        options = parse_options(format_.options, self.reader_options)
        if isinstance(format_, ParquetFormat):
            options = RebaseModes(self.options.datetime_rebase, self.options.int96_rebase)
        return format_, options
