"""The types of Parquet columns that Arrow reads otherwise than Spark.

| in the file | Arrow | Spark and the scan |
| --- | --- | --- |
| ``INT96``, in which Spark, Hive and Impala write instants | a timestamp without time zone | with a time zone |
| ``ENUM`` of Avro, Thrift and Protocol Buffers | binary | text |
| ``VARIANT`` | a struct | a variant |
| ``GEOMETRY``, ``GEOGRAPHY`` | binary | a geometry, a geography |
| ``UNKNOWN``, a column of nulls | null | the physical type, if no file has another type |
| what Spark's own metadata calls otherwise, see :mod:`engine.readers.columnar.parquet_spark_schema` | | |

``INTERVAL``, ``UUID``, and geometries in a coordinate reference system that Spark does not know, cannot be read.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import pyarrow as pa

from engine.arrow_types import inner_fields, is_bytes, with_inner_fields
from engine.readers.columnar.parquet_annotations import (
    GEOGRAPHY,
    GEOMETRY,
    MAP,
    VARIANT,
    Annotation,
    find_annotations,
    may_be_annotated,
)
from engine.readers.columnar.parquet_spark_schema import KIND, SparkSchema
from engine.schema import with_type_of_nulls
from engine.spark_type import DEFAULT_CRS, SparkType, UnreadableType, geography, geometry
from engine.spark_type import VARIANT as VARIANT_TYPE
from engine.variants import is_variant

INT96: Final = "INT96"
_ENUM: Final = "Enum"
_UTC: Final = "UTC"
_TYPES_OF_NULLS: Final = {
    "BOOLEAN": pa.bool_(),
    "INT32": pa.int32(),
    "INT64": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BYTE_ARRAY": pa.binary(),
    "FIXED_LEN_BYTE_ARRAY": pa.binary(),
}


class SparkTypes:
    """The types of Spark for the columns of a file.

    Args:
        schema: The schema as Arrow reads it.
        parquet: The schema of the file, a ``pyarrow.parquet.ParquetSchema``.
        spark_schema: The schema in the metadata of the file, if there is one.
        read_footer: Returns the footer as it is in the file.
        has_lists_for_maps: Whether Arrow reads the maps of the file as lists of pairs.

    Attributes:
        int96_columns: The columns that are, or contain, times of 96 bits.
        other_columns: The columns that are, or contain, anything else.
    """

    _last: "ClassVar[SparkTypes | None]" = None

    def __init__(
        self,
        schema: pa.Schema,
        parquet: Any,
        spark_schema: bytes | None,
        read_footer: Callable[[], bytes],
        *,
        has_lists_for_maps: bool = False,
    ) -> None:
        self._offered, self._parquet, self._spark_schema = schema, parquet, spark_schema
        is_annotated = has_lists_for_maps or may_be_annotated(self._parquet)
        self._annotations = find_annotations(read_footer()) if is_annotated else None
        columns = _Columns(self._parquet, self._annotations or ())
        types = SparkSchema.parse(self._spark_schema)
        fields = [columns.convert_column(field) for field in schema]
        if types is not None:
            fields = list(types.convert(fields))
        is_same = all(found.equals(field, check_metadata=True) for found, field in zip(fields, schema, strict=True))
        self._fields = None if is_same else fields
        self.int96_columns = frozenset(columns.of_int96)
        self.other_columns = frozenset(columns.of_others)

    @classmethod
    def of(
        cls, schema: pa.Schema, parquet: Any, spark_schema: bytes | None, read_footer: Callable[[], bytes]
    ) -> "SparkTypes":
        """Return the types of a file. Those of the file before are used again, because most files have the same."""
        last = cls._last
        if last is None or not last._are_of(schema, parquet, spark_schema, read_footer):
            last = cls._last = cls(schema, parquet, spark_schema, read_footer)
        return last

    def _are_of(
        self, schema: pa.Schema, parquet: Any, spark_schema: bytes | None, read_footer: Callable[[], bytes]
    ) -> bool:
        is_same = schema.equals(self._offered, check_metadata=self._fields is not None)
        if not (is_same and spark_schema == self._spark_schema and parquet.equals(self._parquet)):
            return False
        return self._annotations is None or find_annotations(read_footer()) == self._annotations

    def apply(self, schema: pa.Schema) -> pa.Schema:
        """Return a schema with these types. If nothing changes, it is the same object."""
        return schema if self._fields is None else pa.schema(self._fields, schema.metadata)


class _Columns:
    """Converts the columns of a file, in their order, by the types and annotations of their leaves.

    Attributes:
        of_int96: The columns that are, or contain, times of 96 bits.
        of_others: The columns that are, or contain, anything else.
    """

    def __init__(self, parquet: Any, annotations: Sequence[Annotation]) -> None:
        self._leaves = [parquet.column(number) for number in range(len(parquet))]
        self._annotations = {(one.first, one.end): one for one in annotations}
        self._next = 0
        self.of_int96: list[str] = []
        self.of_others: list[str] = []

    def convert_column(self, column: pa.Field) -> pa.Field:
        """Return a column with its type in a scan."""
        first = self._next
        found = self.convert(column)
        is_int96 = [leaf.physical_type == INT96 for leaf in self._leaves[first : self._next]]
        self.of_int96 += [column.name] * any(is_int96)
        self.of_others += [column.name] * (not all(is_int96))
        return found

    def convert(self, field: pa.Field) -> pa.Field:
        """Return a field with its type in a scan."""
        if isinstance(field.type, pa.BaseExtensionType):
            return self.convert(field.with_type(field.type.storage_type))
        first = self._next
        if inner := inner_fields(field.type):
            found = field.with_type(with_inner_fields(field.type, [self.convert(one) for one in inner]))
            annotation = self._annotations.get((first, self._next))
            return found if annotation is None else _by_annotation(found, field.type, annotation)
        if first >= len(self._leaves):
            return field
        self._next += 1
        return self._convert_leaf(field, self._leaves[first], self._annotations.get((first, first + 1)))

    def _convert_leaf(self, field: pa.Field, leaf: Any, annotation: Annotation | None) -> pa.Field:
        type_ = field.type
        if annotation is not None and annotation.kind not in (VARIANT, MAP):
            spatial = _spatial_type(annotation)
            if spatial is None or not is_bytes(type_):
                crs = f" in the coordinate reference system {annotation.crs!r}" if annotation.crs else ""
                return field.with_type(UnreadableType(KIND, annotation.kind + crs, type_))
            return field.with_type(spatial)
        if pa.types.is_null(type_):
            type_of_nulls = _TYPES_OF_NULLS.get(leaf.physical_type)
            return field if type_of_nulls is None else with_type_of_nulls(field, type_of_nulls)
        if leaf.physical_type == INT96 and pa.types.is_timestamp(type_):
            return field.with_type(pa.timestamp(type_.unit, _UTC))
        return field.with_type(pa.string()) if is_bytes(type_) and str(leaf.logical_type) == _ENUM else field


def _by_annotation(field: pa.Field, stored: pa.DataType, annotation: Annotation) -> pa.Field:
    """Return a nested field with the type of its annotation.

    Args:
        field: The field with the types of a scan.
        stored: Its type as Arrow reads it.
        annotation: The annotation.
    """
    if annotation.kind == VARIANT and is_variant(stored):
        return field.with_type(VARIANT_TYPE)
    if annotation.kind == MAP and pa.types.is_list(stored) and pa.types.is_struct(stored.value_type):
        members = inner_fields(field.type.value_type)
        return field.with_type(pa.map_(members[0].with_nullable(False), members[1])) if len(members) == 2 else field
    return field


def _spatial_type(annotation: Annotation) -> SparkType | None:
    crs = DEFAULT_CRS if annotation.crs is None else annotation.crs
    if annotation.kind == GEOMETRY:
        return geometry(crs)
    return geography(crs) if annotation.kind == GEOGRAPHY and annotation.is_spherical else None
