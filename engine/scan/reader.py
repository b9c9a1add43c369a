"""The interface between formats and scans.

A reader knows nothing of projection, overflow, missing columns or other files. The scan opens it. It declares what it
knows of its schema, builds a result set loader, and fills it batch by batch (``RowBatchReader`` and
``SchemaNegotiator`` in [scan-framework "Class Structure"]).

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
from pydantic import BaseModel

from engine.context import ErrorContext
from engine.result_set.loader import ResultSetLoader
from engine.scan.row_filter import RowFilter
from engine.schema import TupleSchema


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a scan, or a range of one, to be read once.

    Attributes:
        workspace: The name of the workspace, for messages.
        path: The path of the file in the workspace.
        size_bytes: The size of the whole file when it was listed.
        open: Opens the file at its start, for reading, buffered or not. The stream is seekable, and the caller closes
            it.
        start: The start of the range, in the unit of the format: bytes of text, or row groups of Parquet.
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
        """The file, for errors."""
        return ErrorContext(self.workspace, self.path)


class SchemaNegotiator(Protocol):
    """The negotiation between what a reader offers and what the scan wants."""

    context: ErrorContext
    """The file, for errors."""

    @property
    def input_schema(self) -> TupleSchema:
        """The columns that the scan wants of the reader.

        See [scan-schema-tracker "Reader Input Schema"].

        With a wildcard, these are only the promised columns. A LATE column leaves the type to the reader.
        """
        ...

    @property
    def is_projection_empty(self) -> bool:
        """Whether the scan wants no column, only the number of rows.

        See :meth:`ResultSetLoader.skip_rows`.
        """
        ...

    @property
    def row_filters(self) -> Sequence[RowFilter]:
        """Filters of the query.

        The reader may leave out rows for which one of them is not true.
        """
        ...

    def is_projected(self, name: str) -> bool:
        """Return whether the scan wants a top-level column.

        A reader can ask, to save work.
        """
        ...

    def promised_type(self, field: pa.Field) -> pa.DataType | None:
        """Return the type that a column of the reader gets in the batch.

        None if it is not wanted.
        """
        ...

    def table_schema(self, schema: TupleSchema, *, is_complete: bool) -> None:
        """Declare what the reader knows of its columns before it reads. Optional.

        Args:
            schema: The columns, in the reader's order.
            is_complete: Whether the reader adds no columns while it reads (an "early schema").
        """
        ...

    def limit_rows(self, rows: int) -> None:
        """Request batches with fewer rows than the scan's limit."""
        ...

    def build(self) -> ResultSetLoader:
        """Build the loader to write to. Called once, in ``open``.

        Raises:
            SchemaConflictError: If the declared schema cannot become what the scan has promised.
        """
        ...


class RowBatchReader(Protocol):
    """The reader of one file.

    Exceptions that are not an ``EngineError`` are wrapped with the file's name.
    """

    def open(self, negotiator: SchemaNegotiator) -> bool:
        """Open the file and build the loader.

        Returns:
            Whether there may be rows. If not, ``next`` is not called.
        """
        ...

    def next(self) -> bool:
        """Write rows to the loader: a full batch or a part of one.

        Called with an active batch that is not full.

        Returns:
            Whether there may be more rows. Rows that were written before a False count too.
        """
        ...

    def close(self) -> None:
        """Close the file. Called exactly once, even if ``open`` failed."""
        ...


class ReaderFormat(Protocol):
    """A file format. Scans find formats by the entry point group ``lodge.readers``.

    Attributes:
        name: The name of the format, as the option ``format`` uses it.
        suffixes: The suffixes of its files, such as ``.csv``.
        options: The options of its readers.
    """

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    options: ClassVar[type[BaseModel]]

    def discover(self, file: SourceFile, options: Any) -> TupleSchema:
        """Return the schema of a whole file.

        It comes from the header or footer, or from reading the whole file.
        """
        ...

    def reader(self, file: SourceFile, options: Any) -> RowBatchReader:
        """Return a new reader of a file, or of a range of it."""
        ...

    def splits(self, file: SourceFile, options: Any, target_bytes: int) -> list[SourceFile]:
        """Return ranges of about ``target_bytes`` that together are the whole file.

        One range if it cannot be split.
        """
        ...


@runtime_checkable
class LateTypeFormat(ReaderFormat, Protocol):
    """A format whose types come with the rows, so that a type has a place in the file."""

    def find_place(self, file: SourceFile, options: Any, matches: Callable[[TupleSchema], bool]) -> ErrorContext | None:
        """Return the place of the first row whose own columns match.

        None if no row matches.
        """
        ...
