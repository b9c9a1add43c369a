"""Mapping from the types of columnar files to the types of a scan.

A scan uses a single type for each kind of value, regardless of which Arrow representation the file uses:

| in the file | in the scan |
| --- | --- |
| large and view strings, binaries and lists; fixed-size binaries and lists | string, binary, list |
| dictionary, run-end encoded | the type of the values |
| extension ``arrow.bool8``, other extensions | boolean, the storage type |
| int8, uint8, uint16, uint32 | int8, int16, int32, int64 |
| uint64 | decimal(20, 0) |
| float16 | float32 |
| decimal32, decimal64, decimal256 of at most 38 digits | decimal128 |
| date64 | date32 |
| time, timestamp and duration in any unit | in microseconds |

Guarantees:

1. The conversion does not change a value. If it would, a ValueConversionError is raised. For example, this is the case
   for nanoseconds that are not a whole number of microseconds.
2. Columns keep their names, order, nullability and metadata.
"""

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow_types import is_any_list
from engine.context import ErrorContext
from engine.errors import SchemaConflictError, ValueConversionError
from engine.readers.columnar.parquet_int96 import to_instants
from engine.readers.reader_errors import FormatError, one_line
from engine.result_set.conversion.conversion_errors import NoConversionError, RefusedError
from engine.result_set.conversion.convert import convert_array, convert_values
from engine.result_set.conversion.nested_arrays import convert_nested
from engine.schema import MAX_DECIMAL_DIGITS, TupleSchema
from engine.spark_type import VARIANT, SparkType, UnreadableType, contains_spark_type
from engine.type_names import type_name
from engine.variants import to_variants

_SIMPLE: Final[dict[pa.DataType, pa.DataType]] = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.time32("s"): pa.time64("us"),
    pa.time32("ms"): pa.time64("us"),
    pa.time64("ns"): pa.time64("us"),
    pa.duration("s"): pa.duration("us"),
    pa.duration("ms"): pa.duration("us"),
    pa.duration("ns"): pa.duration("us"),
}


def scan_schema(schema: "pa.Schema | pa.StructType") -> TupleSchema:
    """Return the columns of a file, or the members of a struct, with the types of a scan.

    Raises:
        DuplicateColumnError: If two names are equal when case is ignored.
    """
    return TupleSchema(scan_field(field) for field in schema)


def scan_field(field: pa.Field) -> pa.Field:
    """Return a column of a file with its type in a scan."""
    return field.with_type(scan_type(field.type))


def scan_type(type_: pa.DataType) -> pa.DataType:
    """Return the scan type that corresponds to a type in a file."""
    if type_ in _SIMPLE:
        return _SIMPLE[type_]
    for applies, mapping in _MAPPINGS:
        if applies(type_):
            return mapping(type_)
    return type_


def _scan_map(type_: pa.DataType) -> pa.DataType:
    return pa.map_(scan_field(type_.key_field), scan_field(type_.item_field))


def _scan_decimal(type_: pa.DataType) -> pa.DataType:
    return pa.decimal128(type_.precision, type_.scale) if type_.precision <= MAX_DECIMAL_DIGITS else type_


_MAPPINGS: Final[list[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], pa.DataType]]]] = [
    (lambda one: isinstance(one, SparkType | UnreadableType), lambda one: one),
    (lambda one: isinstance(one, pa.UuidType), lambda one: UnreadableType("Arrow", "uuid", one.storage_type)),
    (lambda one: isinstance(one, pa.Bool8Type), lambda _: pa.bool_()),
    (lambda one: isinstance(one, pa.BaseExtensionType), lambda one: scan_type(one.storage_type)),
    (pa.types.is_dictionary, lambda one: scan_type(one.value_type)),
    (pa.types.is_run_end_encoded, lambda one: scan_type(one.value_type)),
    (pa.types.is_fixed_size_binary, lambda _: pa.binary()),
    (pa.types.is_timestamp, lambda one: pa.timestamp("us", one.tz)),
    (pa.types.is_decimal, _scan_decimal),
    (pa.types.is_map, _scan_map),
    (pa.types.is_struct, lambda one: scan_schema(one).to_struct()),
    (is_any_list, lambda one: pa.list_(scan_field(one.value_field))),
]


def to_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch whose columns have the types of a schema.

    Raises:
        ArrowInvalid: If a value is not a valid value of the type.
    """
    for number, found in enumerate(batch.schema):
        wanted = schema.field(found.name)
        if not found.type.equals(wanted.type):
            batch = batch.set_column(number, wanted, _to_type(batch.column(number), wanted.type))
    return batch


def _to_map(array: pa.ListArray, type_: pa.MapType, column: str) -> pa.MapArray:
    """Convert a list of pairs to a map.

    Raises:
        ArrowInvalid: If a key is null.
    """
    pairs = array.flatten()
    keys, items = pairs.flatten()
    if keys.null_count:
        raise pa.ArrowInvalid("a map has a key that is null")
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    ends = pc.cumulative_sum(lengths)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends.cast(pa.int32())])
    return pa.MapArray.from_arrays(
        offsets,
        _to_type(keys, type_.key_type, column),
        _to_type(items, type_.item_type, column),
        type=type_,
        mask=array.is_null() if array.null_count else None,
    )


def _to_type(array: pa.Array, type_: pa.DataType, column: str = "") -> pa.Array:
    if array.type.equals(type_):
        return array
    if pa.types.is_timestamp(type_) and pa.types.is_fixed_size_binary(array.type):
        return to_instants(array, type_)
    if isinstance(type_, SparkType):
        return to_variants(array) if type_ == VARIANT else _to_stored(array, type_, column)
    if not contains_spark_type(type_):
        try:
            return array.cast(type_)
        except pa.ArrowNotImplementedError:
            if not pa.types.is_nested(type_):
                raise
    is_map = pa.types.is_map(type_) and pa.types.is_list(array.type)
    return _to_map(array, type_, column) if is_map else convert_nested(array, type_, column, _to_type)


def _to_stored(array: pa.Array, type_: SparkType, column: str) -> pa.ExtensionArray:
    try:
        return pa.ExtensionArray.from_storage(type_, convert_values(array, type_.storage_type, column))
    except (NoConversionError, RefusedError):
        raise pa.ArrowInvalid(f"{type_name(type_)} is stored as {type_name(array.type)}") from None


class ScanTypes:
    """Converts batches to the types of a scan. Remembers these types, because most batches have the same columns."""

    def __init__(self) -> None:
        self._offered: pa.Schema | None = None
        self._wanted = pa.schema([])
        self._is_same = False

    def convert(self, batch: pa.RecordBatch, context: ErrorContext) -> pa.RecordBatch:
        """Convert a batch to the types of a scan.

        Raises:
            ValueConversionError: If the conversion would change a value (guarantee 1).
        """
        if self._offered is None or not batch.schema.equals(self._offered, check_metadata=True):
            self._offered = batch.schema
            self._wanted = pa.schema([scan_field(field) for field in batch.schema])
            self._is_same = self._offered.equals(self._wanted)
        if self._is_same:
            return batch
        columns = [_convert(column, field, context) for column, field in zip(batch.columns, self._wanted, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self._wanted)


def _convert(array: pa.Array, field: pa.Field, context: ErrorContext) -> pa.Array:
    if contains_spark_type(field.type):
        return convert_array(array, field.with_nullable(True), field.name, context)
    if isinstance(array.type, pa.BaseExtensionType):
        return _convert(array.storage, field, context)
    if pa.types.is_run_end_encoded(array.type):
        return _convert(pc.run_end_decode(array), field, context)
    if array.type.equals(field.type):
        return array
    try:
        return pc.cast(array, field.type)
    except pa.ArrowInvalid as error:
        # The message from Arrow ends with the value that would change.
        value = one_line(error).rsplit(": ", 1)[-1]
        raise ValueConversionError(field.name, value, field.type, context) from None
    except pa.ArrowNotImplementedError:
        return _convert_otherwise(array, field, context)


def _convert_otherwise(array: pa.Array, field: pa.Field, context: ErrorContext) -> pa.Array:
    """Convert values that Arrow does not convert, such as dictionaries of views.

    Raises:
        FormatError: If there is no conversion.
    """
    try:
        return convert_array(array, field.with_nullable(True), field.name, context)
    except (SchemaConflictError, pa.ArrowNotImplementedError):
        problem = f"column {field.name!r} is {type_name(array.type)}, which is not supported"
        raise FormatError(context, problem) from None
