"""Whole arrays as a part of a batch: their columns matched with the loader's, converted, and cut to what fits.

Guarantees:

1. Rows keep their order; those that do not fit stay as look-ahead. Slices share the memory of what they are cut
   from: nothing is copied but what must be converted.
2. Errors come when the data is appended, also for rows that would be in a later batch.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.types as pt

from engine.context import ErrorContext
from engine.errors import DuplicateColumnError
from engine.nested_types import is_any_list
from engine.result_set.conversion.convert import convert_array
from engine.result_set.conversion.defaults import missing_values
from engine.result_set.storage_types import to_storage_type
from engine.result_set.writers.column import VectorWriter
from engine.result_set.writers.maps import MapWriter
from engine.result_set.writers.tuple_columns import TupleColumns
from engine.schema import TupleSchema, fold_case, is_late


def to_batches(data: pa.RecordBatch | pa.Table) -> Sequence[pa.RecordBatch]:
    """A table without columns has rows too."""
    if isinstance(data, pa.RecordBatch):
        return [data]
    return data.to_batches() if data.num_columns else [batch_without_columns(data.num_rows)]


def batch_without_columns(count: int) -> pa.RecordBatch:
    """A batch of rows of nothing: only an array of empty structs says how many they are."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), count, [None]))


def add_columns(columns: TupleColumns, offered: pa.Schema, context: ErrorContext) -> None:
    """Adds the columns, and the members of maps, that the tuple does not know yet."""
    _check_names(offered, context)
    for field in offered:
        _add_column(columns, field)


def align_batch(batch: pa.RecordBatch, fields: Sequence[pa.Field], context: ErrorContext) -> pa.RecordBatch:
    """The batch with these columns: found by name, converted, and missing ones filled by their mode."""
    if not fields:
        return batch_without_columns(batch.num_rows)
    by_name = {fold_case(name): index for index, name in enumerate(batch.schema.names)}
    arrays = []
    for field in fields:
        index = by_name.get(fold_case(field.name))
        if index is None:
            arrays.append(missing_values(field, batch.num_rows, field.name, context))
        else:
            arrays.append(convert_array(batch.column(index), field, field.name, context))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def join_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of all rows; a single one is returned as it is."""
    if len(batches) == 1:
        return batches[0]
    if not batches[0].num_columns:
        return batch_without_columns(sum(batch.num_rows for batch in batches))
    return pa.concat_batches(batches)


def _check_names(offered: pa.Schema, context: ErrorContext) -> None:
    try:
        TupleSchema.of(offered)
    except DuplicateColumnError as error:
        first = next(name for name in offered.names if fold_case(name) == fold_case(error.column))
        raise DuplicateColumnError(first, error.column, context) from None


def _add_column(columns: TupleColumns, field: pa.Field) -> None:
    known = columns.schema.find(field.name)
    if known is None or (is_late(known) and not is_late(field)):
        columns.add(field.with_type(to_storage_type(field.type)))
        return
    vector = columns.vector(field.name) if pt.is_nested(field.type) else None
    if vector is not None:
        for inner, type_ in _maps_in(vector, field.type):
            for index in range(type_.num_fields):
                _add_column(inner.columns, type_.field(index))


def _maps_in(vector: VectorWriter, offered: pa.DataType) -> Iterator[tuple[MapWriter, pa.StructType]]:
    """The map that a column is, or that it is an array of, together with what is offered for it."""
    while is_any_list(offered):
        elements = vector.element_vector
        if elements is None:
            return
        vector, offered = elements, offered.value_type
    if isinstance(vector, MapWriter) and pt.is_struct(offered):
        yield vector, offered
