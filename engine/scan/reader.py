"""What a reader is: the small interface that all formats implement, and what the scan gives a reader to work with.

A reader is written without knowledge of projection, overflow, missing columns or other files. It is opened,
tells what it knows of its schema, gets a result set loader, and fills it batch by batch (seed 004, "Class
Structure": RowBatchReader, SchemaNegotiator).

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
        workspace: The workspace's name, for messages.
        path: The file's path in the workspace.
        size_bytes: Of the whole file, when it was listed.
        open: Opens the file at its start, for reading, unbuffered or not; seekable. The caller closes it.
        start: Of the range, in the unit of its format (bytes of text, row groups of Parquet).
        end: Of the range, exclusive; None for the end of the file.
    """

    workspace: str
    path: str
    size_bytes: int
    open: Callable[[], BinaryIO]
    start: int = 0
    end: int | None = None

    @property
    def context(self) -> ErrorContext:
        return ErrorContext(self.workspace, self.path)


class SchemaNegotiator(Protocol):
    """Brings together what a reader can offer and what the scan wants."""

    @property
    def input_schema(self) -> TupleSchema:
        """The columns that the scan wants of the reader, as far as they are known (seed 002, "Reader Input
        Schema"); with a wildcard, those that are promised already, LATE where the reader is to choose the type."""
        ...

    @property
    def is_projection_empty(self) -> bool:
        """No column is wanted, only the number of rows: see :meth:`ResultSetLoader.skip_rows`."""
        ...

    @property
    def row_filters(self) -> Sequence[RowFilter]:
        """Rows for which one of these is not true may be left out; none has to be."""
        ...

    @property
    def context(self) -> ErrorContext: ...

    def is_projected(self, name: str) -> bool:
        """Whether a top-level column of this name is wanted; a reader may ask, to save work, but need not."""
        ...

    def promised_type(self, field: pa.Field) -> pa.DataType | None:
        """The type that a column the reader is about to offer must have in the end; None if the reader may choose."""
        ...

    def table_schema(self, schema: TupleSchema, *, is_complete: bool) -> None:
        """What the reader knows of its columns before it reads. Optional.

        Args:
            schema: The columns, in the reader's order.
            is_complete: The reader will add none while it reads (an "early schema").
        """
        ...

    def limit_rows(self, rows: int) -> None:
        """Asks for smaller batches than the scan's own limit."""
        ...

    def build(self) -> ResultSetLoader:
        """The loader to write to. Called once, in ``open``.

        Raises: SchemaConflictError as the reader's schema cannot become what the scan has promised.
        """
        ...


class RowBatchReader(Protocol):
    """Reads one file. Anything it raises that is not an EngineError is wrapped with the file's name."""

    def open(self, negotiator: SchemaNegotiator) -> bool:
        """Returns: Whether there may be rows; False for "nothing here", and ``next`` is not called."""
        ...

    def next(self) -> bool:
        """Fills one batch, or a part of one. Called with an active batch that is not full.

        Returns: Whether there may be more rows. Rows written together with False count.
        """
        ...

    def close(self) -> None:
        """Called once, whatever happened, also if ``open`` failed."""
        ...


class ReaderFormat(Protocol):
    """A format that scans know, found by the entry point group ``lodge.readers``."""

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    options: ClassVar[type[BaseModel]]

    def discover(self, file: SourceFile, options: Any) -> TupleSchema:
        """The schema of one whole file: from header or footer where there is one, else by reading all of it."""
        ...

    def reader(self, file: SourceFile, options: Any) -> RowBatchReader: ...

    def splits(self, file: SourceFile, options: Any, target_bytes: int) -> list[SourceFile]:
        """Ranges that are read apart, together the whole file; the file alone if it cannot be split."""
        ...


@runtime_checkable
class LateTypeFormat(ReaderFormat, Protocol):
    """A format whose types come with the rows, so that a type has a place in the file."""

    def first_place(
        self, file: SourceFile, options: Any, is_meant: Callable[[TupleSchema], bool]
    ) -> ErrorContext | None:
        """The first row whose own columns are those that are meant; None if there is none."""
        ...
