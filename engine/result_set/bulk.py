"""Bulk appends: match Arrow arrays with columns, convert them, and join them.

Guarantees:

1. Rows keep their order. Slices share the memory of their source. Only values that need a conversion are copied.
2. Errors are raised when the data is appended, even for rows that belong to a later batch.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.types as pt

from engine.arrow_types import inner_fields, is_any_list
from engine.context import ErrorContext
from engine.errors import DuplicateColumnError
from engine.result_set.conversion.convert import convert_array
from engine.result_set.conversion.defaults import missing_values
from engine.result_set.storage_types import to_storage_type
from engine.result_set.writers.column import VectorWriter
from engine.result_set.writers.maps import MapWriter
from engine.result_set.writers.tuple_columns import TupleColumns
from engine.schema import TupleSchema, fold_case, is_late


def to_batches(data: pa.RecordBatch | pa.Table) -> Sequence[pa.RecordBatch]:
    """Return the rows of a batch or a table as a sequence of batches.

    A table without columns results in a single batch with the same number of rows.
    """
    if isinstance(data, pa.RecordBatch):
        return [data]
    return data.to_batches() if data.num_columns else [batch_without_columns(data.num_rows)]


def batch_without_columns(rows: int) -> pa.RecordBatch:
    """Return a batch that has rows but no columns.

    The batch is created from an array of empty structs, because Arrow offers no other way to set the number of rows.
    """
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))


def add_columns(columns: TupleColumns, offered: pa.Schema, context: ErrorContext) -> None:
    """Add the offered columns, and the offered members of maps, that are missing.

    Raises:
        DuplicateColumnError: If two offered names are equal when case is ignored.
    """
    try:
        TupleSchema.of(offered)
    except DuplicateColumnError as error:
        first = next(name for name in offered.names if fold_case(name) == fold_case(error.column))
        raise DuplicateColumnError(first, error.column, context) from None
    for field in offered:
        _add_column(columns, field)


def align_batch(batch: pa.RecordBatch, fields: Sequence[pa.Field], context: ErrorContext) -> pa.RecordBatch:
    """Return the batch with exactly the given columns.

    Columns are matched by name, and their values are converted to the type of the field. A column that the batch does
    not contain is filled with null or with its default value.
    """
    if not fields:
        return batch_without_columns(batch.num_rows)
    schema = pa.schema(fields)
    if batch.schema.equals(schema) and all(field.nullable for field in fields):
        is_same = batch.schema.equals(schema, check_metadata=True)
        return batch if is_same else pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    by_name = {fold_case(name): index for index, name in enumerate(batch.schema.names)}
    arrays = []
    for field in fields:
        index = by_name.get(fold_case(field.name))
        if index is None:
            arrays.append(missing_values(field, batch.num_rows, field.name, context))
        else:
            arrays.append(convert_array(batch.column(index), field, field.name, context))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def join_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Join batches into a single batch with all rows.

    A single batch is returned unchanged.
    """
    if len(batches) == 1:
        return batches[0]
    if not batches[0].num_columns:
        return batch_without_columns(sum(batch.num_rows for batch in batches))
    return pa.concat_batches(batches)


def _add_column(columns: TupleColumns, field: pa.Field) -> None:
    known = columns.schema.find(field.name)
    if known is None or (is_late(known) and not is_late(field)):
        columns.add(field.with_type(to_storage_type(field.type)))
        return
    vector = columns.vector(field.name) if pt.is_nested(field.type) else None
    if vector is not None:
        for inner, type_ in _find_maps(vector, field.type):
            for member in inner_fields(type_):
                _add_column(inner.columns, member)


def _find_maps(vector: VectorWriter, offered: pa.DataType) -> Iterator[tuple[MapWriter, pa.StructType]]:
    """Yield the writer of the map in a column, together with the offered type.

    The column is either a map or an array of maps, at any depth. Yields nothing for all other columns.
    """
    while is_any_list(offered):
        elements = vector.element_vector
        if elements is None:
            return
        vector, offered = elements, offered.value_type
    if isinstance(vector, MapWriter) and pt.is_struct(offered):
        yield vector, offered
