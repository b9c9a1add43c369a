"""The interface between formats and scans.

A reader does not need to handle projection, overflow, missing columns or other files. The scan opens the reader. The
reader then declares the part of its schema that it knows, builds a result set loader, and fills the loader batch by
batch (``RowBatchReader`` and ``SchemaNegotiator`` in [scan-framework "Class Structure"]).

    class Numbers:
        def open(self, negotiator):
            negotiator.table_schema(TupleSchema([pa.field("n", pa.int64(), nullable=False)]), is_complete=True)
            self._loader = negotiator.build()
            return True

        def next(self):
            row = self._loader.writer
            while not row.is_full and self._n < 10:
                row.start_row()
                row.column("n").set_int(self._n)
                row.save_row()
                self._n += 1
            return self._n < 10

        def close(self): ...
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar, Protocol, runtime_checkable

import pyarrow as pa

from engine.context import ErrorContext
from engine.result_set.loader import ResultSetLoader
from engine.scan.row_filter import RowFilter
from engine.schema import TupleSchema


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a scan, or a range of a file, that is read once.

    Attributes:
        workspace: The name of the workspace, for error messages.
        path: The path of the file in the workspace.
        size_bytes: The size of the whole file when it was listed.
        open: Opens the file for reading, at its start. The stream is seekable and may be unbuffered. The caller closes
            the stream.
        start: The start of the range. Its unit depends on the format: bytes of text, or row groups of Parquet.
        end: The end of the range, exclusive. None for the end of the file.
    """

    workspace: str
    path: str
    size_bytes: int
    open: Callable[[], BinaryIO]
    start: int = 0
    end: int | None = None

    @property
    def context(self) -> ErrorContext:
        """The file, as the context of error messages."""
        return ErrorContext(self.workspace, self.path)


class SchemaNegotiator(Protocol):
    """Negotiation between the columns that a reader offers and those that the scan needs."""

    context: ErrorContext
    """The file, as the context of error messages."""

    @property
    def input_schema(self) -> TupleSchema:
        """The columns that the scan expects from the reader.

        With a wildcard, these are only the columns that are already promised. The reader chooses the type of a LATE
        column. See [scan-schema-tracker "Reader Input Schema"].
        """
        ...

    @property
    def is_projection_empty(self) -> bool:
        """Whether the scan needs only the number of rows, and no columns.

        See :meth:`ResultSetLoader.skip_rows`.
        """
        ...

    @property
    def row_filters(self) -> Sequence[RowFilter]:
        """The filters of the query.

        The reader may skip a row if at least one filter is not true for the row.
        """
        ...

    def is_projected(self, name: str) -> bool:
        """Return whether the scan needs a top-level column.

        A reader can use this method to skip unnecessary work.
        """
        ...

    def promised_type(self, field: pa.Field) -> pa.DataType | None:
        """Return the type that a column of the reader has in the batch.

        Return None if the scan does not need the column.
        """
        ...

    def table_schema(self, schema: TupleSchema, *, is_complete: bool) -> None:
        """Declare the columns that the reader knows before it reads. Optional.

        Args:
            schema: The columns, in the reader's order.
            is_complete: Whether the reader adds no columns while it reads (an "early schema").
        """
        ...

    def limit_rows(self, rows: int) -> None:
        """Request batches with fewer rows than the limit of the scan."""
        ...

    def build(self) -> ResultSetLoader:
        """Build the loader to write to. Call this method once, in ``open``.

        Raises:
            SchemaConflictError: If the declared columns cannot be converted to the promised types.
        """
        ...


class RowBatchReader(Protocol):
    """Reads the rows of one file.

    If a reader raises an exception that is not an ``EngineError``, the scan wraps the exception and adds the name of
    the file.
    """

    def open(self, negotiator: SchemaNegotiator) -> bool:
        """Open the file and build the loader.

        Returns:
            Whether there may be rows. If false, ``next`` is not called.
        """
        ...

    def next(self) -> bool:
        """Write rows to the loader: a full batch or a part of a batch.

        This method is called while a batch is active and not full.

        Returns:
            Whether there may be more rows. Rows that were written before the method returned false are kept.
        """
        ...

    def close(self) -> None:
        """Close the file. Called exactly once, even if ``open`` failed."""
        ...


@runtime_checkable
class ContinuingReader(RowBatchReader, Protocol):
    """A reader that can also read the rows of further files, as if they followed those of its file.

    A scan then opens one reader for many small files with the same columns.
    """

    def proceed(self, file: SourceFile) -> bool:
        """Continue with another whole file of the same format and options, after ``next`` has returned false.

        Returns:
            Whether the reader continues. If false, another reader reads the file, for example because the file has
            other columns. The reader is then only closed.
        """
        ...


class ReaderFormat(Protocol):
    """A file format. Scans find formats by the entry point group ``lodge.readers``.

    Attributes:
        name: The name of the format in the option ``format``.
        suffixes: The suffixes of files with this format, such as ``.csv``.
        options: The options of the readers, as a class of :mod:`engine.options`.
    """

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    options: ClassVar[type]

    def discover(self, file: SourceFile, options: Any) -> TupleSchema:
        """Return the schema of a whole file.

        The schema comes from the header or footer, or is inferred by reading the whole file.
        """
        ...

    def reader(self, file: SourceFile, options: Any) -> RowBatchReader:
        """Return a new reader for a file, or for a range of a file."""
        ...

    def splits(self, file: SourceFile, options: Any, target_bytes: int) -> list[SourceFile]:
        """Split a file into ranges of about ``target_bytes`` that together cover the whole file.

        If the file cannot be split, return a single range.
        """
        ...


@runtime_checkable
class LateTypeFormat(ReaderFormat, Protocol):
    """A format that infers types from rows, so that each type has a position in the file."""

    def find_place(self, file: SourceFile, options: Any, matches: Callable[[TupleSchema], bool]) -> ErrorContext | None:
        """Return the position of the first row whose columns match.

        Return None if no row matches.
        """
        ...
