"""The scan's implementation of the negotiation with a reader.

See :class:`engine.scan.reader.SchemaNegotiator`.
"""

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
    """The columns and rows that the scan requests from a reader.

    Attributes:
        input_schema: The promised columns, without implicit columns.
        projection: The filter for the columns that the reader offers.
        is_projected: Returns whether the scan needs any part of the column with a given name.
        limits: The limits of each batch, and the number of rows that the scan still needs.
        row_filters: Filters that allow the reader to skip rows.
        apply_early_schema: Applies the schema of a reader that knows its complete schema before it reads.
    """

    input_schema: TupleSchema
    projection: ProjectionFilter
    is_projected: Callable[[str], bool]
    limits: BatchLimits
    row_filters: Sequence[RowFilter]
    apply_early_schema: Callable[[TupleSchema], None]


class ScanNegotiator:
    """The ``SchemaNegotiator`` of one reader."""

    def __init__(self, request: ReaderRequest, context: ErrorContext) -> None:
        self.context = context
        self._request = request
        self._limits = request.limits
        self._schema = TupleSchema()
        self._is_complete = False
        self._loader: ResultSetLoader | None = None

    @property
    def input_schema(self) -> TupleSchema:
        return self._request.input_schema

    @property
    def is_projection_empty(self) -> bool:
        return self._request.projection.is_empty

    @property
    def row_filters(self) -> Sequence[RowFilter]:
        return self._request.row_filters

    @property
    def loader(self) -> ResultSetLoader:
        """The loader that the reader built.

        Raises:
            LoaderStateError: If the reader did not build a loader.
        """
        if self._loader is None:
            raise LoaderStateError(f"{self.context}the reader opened without building a loader.")
        return self._loader

    def is_projected(self, name: str) -> bool:
        return self._request.is_projected(name)

    def promised_type(self, field: pa.Field) -> pa.DataType | None:
        projected = self._request.projection.project(field).field
        return None if projected is None else projected.type

    def table_schema(self, schema: TupleSchema, *, is_complete: bool) -> None:
        self._schema, self._is_complete = schema, is_complete

    def limit_rows(self, rows: int) -> None:
        self._limits = replace(self._limits, rows=min(rows, self._limits.rows))

    def build(self) -> ResultSetLoader:
        if self._loader is not None:
            raise LoaderStateError(f"{self.context}the reader built its loader twice.")
        if self._is_complete:
            self._request.apply_early_schema(self._schema)
        self._loader = ResultSetLoader(
            schema=self._schema, projection=self._request.projection, limits=self._limits, context=self.context
        )
        return self._loader
