"""Fixtures for schema trackers, with readers that have only columns."""

from collections.abc import Callable

import pyarrow as pa
import pytest

from engine.arrow_types import resolve_late
from engine.context import ErrorContext
from engine.schema import TupleSchema

Columns = dict[str, pa.DataType | pa.Field]


def _schema(columns: Columns) -> TupleSchema:
    return TupleSchema(
        type_.with_name(name) if isinstance(type_, pa.Field) else pa.field(name, type_)
        for name, type_ in columns.items()
    )


@pytest.fixture
def schema() -> Callable[..., TupleSchema]:
    """Make a schema of nullable columns by name. A field gives a column another mode."""
    return lambda **columns: _schema(columns)


@pytest.fixture
def read():
    """Let a reader with these columns read one batch. LATE missing columns become text.

    Returns:
        The schema of the batch, without missing columns.
    """

    def read(tracker, columns: Columns, file: str = "1.json", projection=None) -> TupleSchema:
        context = ErrorContext("dfs", file)
        projection = projection or tracker.projection_filter(context)
        wanted = [projection.project(field).field for field in _schema(columns)]
        batch = TupleSchema(field for field in wanted if field is not None)
        tracker.apply_reader_schema(batch, context)
        missing = tracker.missing_columns(batch)
        tracker.resolve_missing_cols(TupleSchema(resolve_late(field, lambda _: pa.string()) for field in missing))
        return batch

    return read
