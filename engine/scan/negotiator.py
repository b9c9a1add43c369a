"""The scan's side of the agreement with one reader; see :class:`engine.scan.reader.SchemaNegotiator`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from engine.context import ErrorContext
from engine.errors import LoaderStateError
from engine.limits import BatchLimits
from engine.projection.filter import ProjectionFilter
from engine.result_set.loader import ResultSetLoader
from engine.scan.row_filter import RowFilter
from engine.schema import TupleSchema


@dataclass(frozen=True, slots=True)
class ReaderRequest:
    """What the scan wants of one reader.

    Attributes:
        input_schema: The promised columns, without implicit ones.
        projection: Which of the columns that the reader offers become what.
        is_column_wanted: Whether anything of a column of that name is wanted.
        limits: Of each batch, and of the rows that the scan still wants.
        row_filters: See ``SchemaNegotiator``.
        apply_early_schema: Takes the schema of a reader that knows all of it before it reads.
    """

    input_schema: TupleSchema
    projection: ProjectionFilter
    is_column_wanted: Callable[[str], bool]
    limits: BatchLimits
    row_filters: Sequence[RowFilter]
    apply_early_schema: Callable[[TupleSchema], None]


class ScanNegotiator:
    """Implements ``SchemaNegotiator`` for one reader."""

    def __init__(self, wanted: ReaderRequest, context: ErrorContext) -> None:
        self._wanted = wanted
        self._context = context
        self._limits = wanted.limits
        self._schema = TupleSchema()
        self._is_complete = False
        self._loader: ResultSetLoader | None = None

    @property
    def input_schema(self) -> TupleSchema:
        return self._wanted.input_schema

    @property
    def is_projection_empty(self) -> bool:
        return self._wanted.projection.is_empty

    @property
    def row_filters(self) -> Sequence[RowFilter]:
        return self._wanted.row_filters

    @property
    def context(self) -> ErrorContext:
        return self._context

    @property
    def loader(self) -> ResultSetLoader:
        """What the reader has built.

        Raises:
            LoaderStateError: It has built none.
        """
        if self._loader is None:
            raise LoaderStateError(f"{self._context}the reader opened without building a loader.")
        return self._loader

    def is_projected(self, name: str) -> bool:
        return self._wanted.is_column_wanted(name)

    def promised_type(self, field: pa.Field) -> pa.DataType | None:
        wanted = self._wanted.projection.project(field).field
        return None if wanted is None else wanted.type

    def table_schema(self, schema: TupleSchema, *, is_complete: bool) -> None:
        self._schema, self._is_complete = schema, is_complete

    def limit_rows(self, rows: int) -> None:
        self._limits = replace(self._limits, rows=min(rows, self._limits.rows))

    def build(self) -> ResultSetLoader:
        if self._loader is not None:
            raise LoaderStateError(f"{self._context}the reader built its loader twice.")
        if self._is_complete:
            self._wanted.apply_early_schema(self._schema)
        self._loader = ResultSetLoader(
            schema=self._schema, projection=self._wanted.projection, limits=self._limits, context=self._context
        )
        return self._loader
