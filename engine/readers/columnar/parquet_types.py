"""The types of Parquet columns that Arrow reads otherwise than Spark.

| in the file | Arrow | Spark and the scan |
| --- | --- | --- |
| ``INT96``, in which Spark, Hive and Impala write instants | a timestamp without time zone | with a time zone |
| ``ENUM`` of Avro, Thrift and Protocol Buffers | binary | text |
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from engine.arrow_types import inner_fields, is_bytes, with_inner_fields

INT96: Final = "INT96"
_ENUM: Final = "Enum"
_UTC: Final = "UTC"


def with_spark_types(schema: pa.Schema, parquet: Any) -> pa.Schema:
    """Return the schema of a file with the types of Spark. If nothing changes, it is the same object.

    Args:
        schema: The schema as Arrow reads it.
        parquet: The schema of the file, a ``pyarrow.parquet.ParquetSchema``.
    """
    leaves = iter([parquet.column(number) for number in range(len(parquet))])
    fields = [_with_spark_type(field, leaves) for field in schema]
    return schema if fields == list(schema) else pa.schema(fields, schema.metadata)


def _with_spark_type(field: pa.Field, leaves: Iterator[Any]) -> pa.Field:
    """Return a field with its type in a scan. Takes the leaves of the field from the iterator."""
    if isinstance(field.type, pa.BaseExtensionType):
        _with_spark_type(field.with_type(field.type.storage_type), leaves)
        return field
    if inner := inner_fields(field.type):
        return field.with_type(with_inner_fields(field.type, [_with_spark_type(one, leaves) for one in inner]))
    leaf = next(leaves, None)
    return field if leaf is None else field.with_type(_spark_type(field.type, leaf))


def _spark_type(type_: pa.DataType, leaf: Any) -> pa.DataType:
    if leaf.physical_type == INT96 and pa.types.is_timestamp(type_):
        return pa.timestamp(type_.unit, _UTC)
    return pa.string() if is_bytes(type_) and str(leaf.logical_type) == _ENUM else type_


def to_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch whose columns have the types of a schema."""
    for number, found in enumerate(batch.schema):
        wanted = schema.field(found.name)
        if not found.type.equals(wanted.type):
            batch = batch.set_column(number, wanted, batch.column(number).cast(wanted.type))
    return batch
