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
from engine.projection.nested import is_any_list
from engine.result_set.conversion import converted_field
from engine.result_set.defaults import missing_values
from engine.result_set.maps import MapWriter
from engine.result_set.members import Members
from engine.result_set.storable import storable
from engine.result_set.writer import VectorWriter
from engine.schema import TupleSchema, folded, is_late


def batches_of(data: pa.RecordBatch | pa.Table) -> Sequence[pa.RecordBatch]:
    """A table without columns has rows too."""
    if isinstance(data, pa.RecordBatch):
        return [data]
    return data.to_batches() if data.num_columns else [rows_without_columns(data.num_rows)]


def rows_without_columns(count: int) -> pa.RecordBatch:
    """A batch of rows of nothing: only an array of empty structs says how many they are."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), count, [None]))


def add_columns(members: Members, offered: pa.Schema, context: ErrorContext) -> None:
    """Adds the columns, and the members of maps, that the tuple does not know yet."""
    _check_names(offered, context)
    for field in offered:
        _add_column(members, field)


def aligned(batch: pa.RecordBatch, fields: Sequence[pa.Field], context: ErrorContext) -> pa.RecordBatch:
    """The batch with these columns: found by name, converted, and missing ones filled by their mode."""
    if not fields:
        return rows_without_columns(batch.num_rows)
    by_name = {folded(name): index for index, name in enumerate(batch.schema.names)}
    arrays = []
    for field in fields:
        index = by_name.get(folded(field.name))
        if index is None:
            arrays.append(missing_values(field, batch.num_rows, field.name, context))
        else:
            arrays.append(converted_field(batch.column(index), field, field.name, context))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of all rows; a single one is returned as it is."""
    if len(batches) == 1:
        return batches[0]
    if not batches[0].num_columns:
        return rows_without_columns(sum(batch.num_rows for batch in batches))
    return pa.concat_batches(batches)


def _check_names(offered: pa.Schema, context: ErrorContext) -> None:
    try:
        TupleSchema.of(offered)
    except DuplicateColumnError as error:
        first = next(name for name in offered.names if folded(name) == folded(error.column))
        raise DuplicateColumnError(first, error.column, context) from None


def _add_column(members: Members, field: pa.Field) -> None:
    known = members.schema.find(field.name)
    if known is None or (is_late(known) and not is_late(field)):
        members.add(field.with_type(storable(field.type)))
        return
    vector = members.vector(field.name) if pt.is_nested(field.type) else None
    if vector is not None:
        for inner, type_ in _maps_in(vector, field.type):
            for index in range(type_.num_fields):
                _add_column(inner.members, type_.field(index))


def _maps_in(vector: VectorWriter, offered: pa.DataType) -> Iterator[tuple[MapWriter, pa.StructType]]:
    """The map that a column is, or that it is an array of, together with what is offered for it."""
    while is_any_list(offered):
        held = vector.held
        if held is None:
            return
        vector, offered = held, offered.value_type
    if isinstance(vector, MapWriter) and pt.is_struct(offered):
        yield vector, offered
