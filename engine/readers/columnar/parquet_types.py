"""The types of Parquet columns that Arrow reads otherwise than Spark.

| in the file | Arrow | Spark and the scan |
| --- | --- | --- |
| ``INT96``, in which Spark, Hive and Impala write instants | a timestamp without time zone | with a time zone |
| ``ENUM`` of Avro, Thrift and Protocol Buffers | binary | text |
"""

from collections.abc import Iterator
from typing import Any, ClassVar, Final

import pyarrow as pa

from engine.arrow_types import inner_fields, is_bytes, with_inner_fields
from engine.readers.columnar.parquet_annotations import may_be_unsupported

INT96: Final = "INT96"
_ENUM: Final = "Enum"
_UTC: Final = "UTC"


class SparkTypes:
    """The types of Spark for the columns of a file.

    Args:
        schema: The schema as Arrow reads it.
        parquet: The schema of the file, a ``pyarrow.parquet.ParquetSchema``.

    Attributes:
        may_be_unsupported: See :func:`engine.readers.columnar.parquet_annotations.may_be_unsupported`.
    """

    _last: "ClassVar[SparkTypes | None]" = None

    def __init__(self, schema: pa.Schema, parquet: Any) -> None:
        self._offered, self._parquet = schema, parquet
        leaves = iter([parquet.column(number) for number in range(len(parquet))])
        fields = [_with_spark_type(field, leaves) for field in schema]
        self._fields = None if fields == list(schema) else fields
        self.may_be_unsupported = may_be_unsupported(parquet)

    @classmethod
    def of(cls, schema: pa.Schema, parquet: Any) -> "SparkTypes":
        """Return the types of a file. Those of the file before are used again, because most files have the same."""
        last = cls._last
        if last is None or not last._are_of(schema, parquet):
            last = cls._last = cls(schema, parquet)
        return last

    def _are_of(self, schema: pa.Schema, parquet: Any) -> bool:
        is_same = schema.equals(self._offered, check_metadata=self._fields is not None)
        return bool(is_same and parquet.equals(self._parquet))

    def apply(self, schema: pa.Schema) -> pa.Schema:
        """Return a schema with these types. If nothing changes, it is the same object."""
        return schema if self._fields is None else pa.schema(self._fields, schema.metadata)


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
