"""The time zone of timestamps of 96 bits in Parquet files.

Spark, Hive and Impala write instants with the physical type INT96, which says nothing about a time zone. Arrow reads
such a column as a timestamp without time zone, in UTC. A scan reads it as a timestamp with a time zone, as Spark does.
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from engine.arrow_types import inner_fields, with_inner_fields

_INT96: Final = "INT96"
_UTC: Final = "UTC"


def with_time_zones(schema: pa.Schema, parquet: Any) -> pa.Schema:
    """Return the schema of a file in which timestamps of 96 bits have the time zone UTC.

    Args:
        schema: The schema as Arrow reads it.
        parquet: The schema of the file, a ``pyarrow.parquet.ParquetSchema``.
    """
    is_int96 = [parquet.column(number).physical_type == _INT96 for number in range(len(parquet))]
    if not any(is_int96):
        return schema
    leaves = iter(is_int96)
    return pa.schema([_with_time_zone(field, leaves) for field in schema], schema.metadata)


def _with_time_zone(field: pa.Field, leaves: Iterator[bool]) -> pa.Field:
    """Return a field with its type in a scan. Takes the leaves of the field from the iterator."""
    if isinstance(field.type, pa.BaseExtensionType):
        _with_time_zone(field.with_type(field.type.storage_type), leaves)
        return field
    if inner := inner_fields(field.type):
        return field.with_type(with_inner_fields(field.type, [_with_time_zone(one, leaves) for one in inner]))
    is_instant = next(leaves, False) and pa.types.is_timestamp(field.type)
    return field.with_type(pa.timestamp(field.type.unit, _UTC)) if is_instant else field


def to_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch whose columns have the time zones of a schema."""
    for number, found in enumerate(batch.schema):
        wanted = schema.field(found.name)
        if not found.type.equals(wanted.type):
            batch = batch.set_column(number, wanted, batch.column(number).cast(wanted.type))
    return batch
