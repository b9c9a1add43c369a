"""The output batch of a scan.

An output batch contains table columns, implicit columns and missing columns, in the order of the output schema. It
follows levels 2 and 3 of [scan-framework "Output Batch Construction"].

Guarantee: columns are not copied. Only missing values are created. A map with missing members is rebuilt from the
    arrays
of its existing members.
"""

import pyarrow as pa
import pyarrow.types as pt

from engine.errors import ReaderError
from engine.result_set.conversion.defaults import missing_values
from engine.scan.implicit_columns import FileLocation
from engine.schema import TupleSchema, fold_case
from engine.type_names import type_name


def build_output_batch(
    schema: TupleSchema, table: pa.RecordBatch, implicit: TupleSchema, location: FileLocation
) -> pa.RecordBatch:
    """Build an output batch.

    Args:
        schema: The output schema, which must be resolved.
        table: The batch of the reader. Its columns have the types of the output, except that members of maps may be
            missing.
        implicit: The implicit columns of the output.
        location: The location of the file.

    Raises:
        ReaderError: If the type of a reader's column differs from the output.
    """
    rows = table.num_rows
    found = {fold_case(name): table.column(index) for index, name in enumerate(table.schema.names)}
    columns = [
        location.column(field, rows)
        if implicit.find(field.name) is not None
        else _complete(found.get(fold_case(field.name)), field, rows)
        for field in schema
    ]
    if not columns:
        return table.select([])
    return pa.RecordBatch.from_arrays(columns, schema=schema.to_arrow())


def _complete(array: pa.Array | None, field: pa.Field, rows: int) -> pa.Array:
    """Return a column with all missing rows and members added."""
    if array is None or pt.is_null(array.type):
        return missing_values(field, rows, field.name)
    if array.type.equals(field.type):
        return array
    if pt.is_struct(array.type) and pt.is_struct(field.type):
        return _complete_map(array, field)
    if pt.is_list(array.type) and pt.is_list(field.type):
        return _complete_list(array, field)
    if pt.is_map(array.type) and pt.is_map(field.type):
        return array.cast(field.type)
    raise ReaderError(
        f"column {field.name!r} has type {type_name(array.type)}, but the schema of the scan requires "
        f"{type_name(field.type)}."
    )


def _complete_map(array: pa.StructArray, field: pa.Field) -> pa.StructArray:
    offered = TupleSchema.of(array.type)
    members = TupleSchema.of(field.type)
    columns = []
    for member in members:
        index = offered.index_of(member.name)
        columns.append(_complete(None if index is None else array.field(index), member, len(array)))
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(columns, fields=list(members), mask=mask)


def _complete_list(array: pa.ListArray, field: pa.Field) -> pa.ListArray:
    element = field.type.value_field
    if array.offset:
        # A slice shares all values of its array. Copy only the values of its own rows, so that the offsets start at 0.
        array = pa.concat_arrays([array])
    values = _complete(array.values, element, len(array.values))
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(array.offsets, values, type=field.type, mask=mask)
