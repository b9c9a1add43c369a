"""Schemas and batches for Spark: the conversion of the types of a scan to those of Spark, and back.

The types of Spark that Arrow does not have (:mod:`engine.spark_type`) become what Spark expects in their place, at
every depth.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType, UserDefinedType

from engine.arrow_types import inner_fields, is_any_list, with_inner_fields
from engine.errors import ColumnError
from engine.schema import MAX_DECIMAL_DIGITS, TupleSchema
from engine.spark_type import USER_DEFINED, VARIANT, VOID, SparkType, contains_spark_type, describe_user_defined
from engine.type_names import type_name


class NoSparkTypeError(ColumnError):
    """Raised if Spark does not support the type of a column."""

    condition = "LODGE_TYPE_NOT_SUPPORTED"
    sql_state = "0A000"

    def __init__(self, column: str, type_: pa.DataType) -> None:
        super().__init__(
            column,
            f"has type {type_name(type_)}, which Spark does not support. Declare a schema without the column, or "
            "declare the column as string.",
            parameters={"foundType": type_name(type_)},
        )


class _StoredUserDefined(UserDefinedType):
    """A user-defined type by its description. Its class is not loaded, because only Spark needs it."""

    def __init__(self, description: dict[str, Any]) -> None:
        self._description = description

    @classmethod
    def sqlType(cls) -> DataType:  # noqa: N802 - Spark's name
        return StructType()

    def jsonValue(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return self._description


def to_spark_schema(schema: TupleSchema) -> StructType:
    """Return a discovered schema as a Spark type.

    Raises:
        NoSparkTypeError: If Spark does not support the type of a column.
    """
    for field in schema:
        if not has_spark_type(field.type):
            raise NoSparkTypeError(field.name, field.type)
    found = from_arrow_schema(pa.schema([_to_arrow_field(field) for field in schema]))
    restored = [_restore(one.dataType, field.type) for one, field in zip(found.fields, schema, strict=True)]
    types = [make_nullable(type_) for type_ in restored]
    return StructType(
        [StructField(one.name, type_, True, one.metadata) for one, type_ in zip(found.fields, types, strict=True)]
    )


def _to_arrow_field(field: pa.Field) -> pa.Field:
    try:
        return field.with_type(_to_arrow_of_spark(field.type))
    except ImportError:  # this version of Spark does not have the type
        raise NoSparkTypeError(field.name, field.type) from None


def has_spark_type(type_: pa.DataType) -> bool:
    """Return whether Spark supports a type, including all nested types."""
    if pt.is_union(type_) or pt.is_interval(type_):
        return False
    if pt.is_decimal(type_) and type_.precision > MAX_DECIMAL_DIGITS:
        return False
    return all(has_spark_type(field.type) for field in inner_fields(type_))


def make_nullable(type_: Any) -> Any:
    """Return a Spark type in which all fields are nullable, as in Spark's own file sources."""
    match type_:
        case StructType():
            return StructType(
                [StructField(one.name, make_nullable(one.dataType), True, one.metadata) for one in type_.fields]
            )
        case ArrayType():
            return ArrayType(make_nullable(type_.elementType), True)
        case MapType():
            return MapType(make_nullable(type_.keyType), make_nullable(type_.valueType), True)
    return type_


def to_scan_schema(schema: StructType, time_zone: str) -> TupleSchema:
    """Return a schema of Spark with the types of a scan.

    Args:
        schema: The schema.
        time_zone: The time zone of timestamps.
    """
    found = to_arrow_schema(schema, timezone=time_zone)
    return TupleSchema(
        field.with_type(_to_scan_type(field.type, one.dataType))
        for field, one in zip(found, schema.fields, strict=True)
    )


def to_spark_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of a scan with the types that Spark expects. The columns are not copied, if they have them."""
    for number, field in enumerate(batch.schema):
        if contains_spark_type(field.type):
            wanted = field.with_type(_to_arrow_of_spark(field.type))
            batch = batch.set_column(number, wanted, _to_spark_array(batch.column(number), wanted.type))
    return batch


def _to_spark_type(type_: SparkType) -> DataType:
    if type_.name in USER_DEFINED:
        return _StoredUserDefined(describe_user_defined(type_))
    if type_.is_text:
        return StringType(type_.name.rpartition(" ")[2])
    name, _, srid = type_.name.rstrip(")").partition("(")
    if not srid:
        return StructType.fromJson({"fields": [{"name": "", "type": name, "nullable": True}]})[0].dataType
    from pyspark.sql.types import GeographyType, GeometryType  # noqa: PLC0415 - Spark 4.0 does not have them

    return {"geometry": GeometryType, "geography": GeographyType}[name](int(srid))


def _restore(spark: DataType, scan: pa.DataType) -> DataType:
    """Return a Spark type that was made from an Arrow type, with the types that are not known from it."""
    match spark:
        case _ if isinstance(scan, SparkType):
            return _to_spark_type(scan)
        case StructType() if pt.is_struct(scan):
            pairs = zip(spark.fields, inner_fields(scan), strict=True)
            return StructType(
                [
                    StructField(one.name, _restore(one.dataType, of.type), one.nullable, one.metadata)
                    for one, of in pairs
                ]
            )
        case ArrayType():
            return ArrayType(_restore(spark.elementType, scan.value_type), spark.containsNull)
        case MapType():
            key, value = _restore(spark.keyType, scan.key_type), _restore(spark.valueType, scan.item_type)
            return MapType(key, value, spark.valueContainsNull)
    return spark


def _to_scan_type(arrow: pa.DataType, spark: DataType) -> pa.DataType:
    """Return the Arrow type of a Spark type with the types that Arrow does not have."""
    found = _find_spark_type(spark)
    if found is not None:
        return found
    match spark:
        case StructType():
            parts = [one.dataType for one in spark.fields]
        case ArrayType():
            parts = [spark.elementType]
        case MapType():
            parts = [spark.keyType, spark.valueType]
        case _:
            return arrow
    inner = inner_fields(arrow)
    types = [_to_scan_type(one.type, part) for one, part in zip(inner, parts, strict=True)]
    return with_inner_fields(arrow, [one.with_type(type_) for one, type_ in zip(inner, types, strict=True)])


def _find_spark_type(spark: DataType) -> SparkType | None:
    """Return the type of Spark that Arrow does not have. None if it has the type."""
    if isinstance(spark, UserDefinedType):
        return USER_DEFINED.get(spark.scalaUDT())
    name = spark.simpleString()
    if name == VARIANT.name:
        return VARIANT
    if name == VOID.name:
        return VOID
    return SparkType(name, pa.binary()) if name.startswith(("geometry(", "geography(")) else None


def _to_arrow_of_spark(type_: pa.DataType) -> pa.DataType:
    """Return a type in which the types of Spark are replaced by what Spark expects in Arrow."""
    if isinstance(type_, SparkType):
        field = StructField("", _to_spark_type(type_))
        is_stored = type_.name in USER_DEFINED or type_.is_text
        return type_.storage_type if is_stored else to_arrow_schema(StructType([field]), timezone="UTC").field(0).type
    inner = inner_fields(type_)
    if not contains_spark_type(type_):
        return type_
    return with_inner_fields(type_, [one.with_type(_to_arrow_of_spark(one.type)) for one in inner])


def _to_spark_array(array: pa.Array, to: pa.DataType) -> pa.Array:
    """Return an array with the type that Spark expects. The types of Spark are replaced by their stored values."""
    if isinstance(array.type, SparkType):
        return _to_spatial(array, to) if pt.is_binary(array.type.storage_type) else array.storage
    if not contains_spark_type(array.type):
        return array
    bitmap = array.is_valid()
    validity = None if array.null_count == 0 else pc.and_(bitmap, True).buffers()[1]
    if pt.is_struct(array.type):
        members = [_to_spark_array(array.field(at), to.field(at).type) for at in range(to.num_fields)]
        return pa.Array.from_buffers(to, len(array), [validity], -1, children=members)
    if is_any_list(array.type):
        whole = pa.concat_arrays([array]) if array.offset else array
        values = _to_spark_array(whole.values, to.value_type)
        return pa.Array.from_buffers(to, len(array), whole.buffers()[:2], whole.null_count, children=[values])
    whole = pa.concat_arrays([array]) if array.offset else array
    keys, items = _to_spark_array(whole.keys, to.key_type), _to_spark_array(whole.items, to.item_type)
    entries = pa.StructArray.from_arrays([keys, items], fields=[to.key_field, to.item_field])
    return pa.Array.from_buffers(to, len(array), whole.buffers()[:2], whole.null_count, children=[entries])


def _to_spatial(array: pa.ExtensionArray, to: pa.StructType) -> pa.StructArray:
    srid = int(array.type.name.rstrip(")").rpartition("(")[2])
    srids = pa.array([srid], pa.int32()).take(pa.array([0] * len(array), pa.int32()))
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays([srids, pc.fill_null(array.storage, b"")], fields=inner_fields(to), mask=mask)
