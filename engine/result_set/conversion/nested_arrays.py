"""Conversions of maps, lists and dicts, and handling of nulls in required fields.

The rules are those of :mod:`engine.result_set.conversion.convert`.
"""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from engine.arrow_types import inner_fields, is_any_list
from engine.errors import ColumnError
from engine.result_set.conversion.conversion_errors import NoConversionError, RefusedError
from engine.result_set.conversion.defaults import declared_default, has_natural_default, missing_values, natural_default
from engine.schema import TupleSchema
from engine.type_names import type_name

ConvertValues = Callable[[pa.Array, pa.DataType, str], pa.Array]


def convert_nested(array: pa.Array, to: pa.DataType, column: str, convert: ConvertValues) -> pa.Array:
    """Convert maps, lists or dicts to another type of the same kind.

    Args:
        array: The values.
        to: The type to convert to.
        column: The path of the column, for error messages.
        convert: Converts the nested values.

    Raises:
        NoConversionError: If the types are of different kinds, or there is no conversion between their nested types.
        RefusedError: If a value cannot be converted.
    """
    if pt.is_struct(array.type) and pt.is_struct(to):
        return _convert_struct(array, to, column, convert)
    if pt.is_map(array.type) and pt.is_map(to):
        return _convert_dict(array, to, column, convert)
    if is_any_list(array.type) and (pt.is_list(to) or pt.is_large_list(to)):
        return _convert_list(array, to, column, convert)
    raise NoConversionError(column, array.type, to)


def fill_nulls(array: pa.Array, to: pa.Field, column: str, parent_is_valid: pa.Array | None = None) -> pa.Array:
    """Replace the nulls of a required field with the declared default.

    Args:
        array: The values.
        to: The field.
        column: The path of the column, for error messages.
        parent_is_valid: Whether each enclosing map is not null. A null inside a null map is not an error.

    Raises:
        RefusedError: If a required value is null and the field does not declare a default.
    """
    if to.nullable or array.null_count == 0:
        return array
    declared = declared_default(to, column)
    if declared is not None:
        return pc.fill_null(array, declared)
    refused = array.is_null() if parent_is_valid is None else pc.and_(array.is_null(), parent_is_valid)
    index = pc.index(refused, True).as_py()
    if index >= 0:
        raise RefusedError(index, column, None, f"{type_name(to.type)} and not null")
    return _fill_invisible_nulls(array)


def _fill_invisible_nulls(array: pa.Array) -> pa.Array:
    """Replace nulls inside null maps with an arbitrary value."""
    if pt.is_nested(array.type):
        return array
    if has_natural_default(array.type):
        return pc.fill_null(array, natural_default(array.type))
    stored = pa.int32() if array.type.bit_width == 32 else pa.int64()
    return pc.fill_null(array, pa.scalar(0, pa.int64()).cast(stored).cast(array.type))


def _convert_struct(array: pa.StructArray, to: pa.StructType, column: str, convert: ConvertValues) -> pa.Array:
    offered = TupleSchema.of(array.type)
    arrays = array.flatten()
    is_valid = array.is_valid()
    members = []
    for member in inner_fields(to):
        path = f"{column}.{member.name}"
        found = offered.index_of(member.name)
        if found is None:
            members.append(_fill_missing_member(member, len(array), path))
        else:
            members.append(fill_nulls(convert(arrays[found], member.type, path), member, path, is_valid))
    return pa.Array.from_buffers(to, len(array), [_to_bitmap(is_valid)], -1, children=members)


def _fill_missing_member(member: pa.Field, count: int, column: str) -> pa.Array:
    try:
        return missing_values(member, count, column)
    except ColumnError:
        raise RefusedError(0, column, None, f"{type_name(member.type)} and not missing") from None


def _to_bitmap(is_valid: pa.Array) -> pa.Buffer | None:
    """Return the validity bitmap for a boolean array without nulls.

    Return None if all values are true. Arrow permits the bitmap to be absent in this case.
    """
    return pc.and_(is_valid, True).buffers()[1] if pc.all(is_valid, min_count=0).as_py() is False else None


def _convert_list(array: pa.Array, to: pa.DataType, column: str, convert: ConvertValues) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64())
    values = _convert_elements(array.flatten(), to.value_field, f"{column}[]", lengths, convert)
    offsets = _to_offsets(lengths, pa.int64() if pt.is_large_list(to) else pa.int32())
    buffers = [_to_bitmap(array.is_valid()), offsets.buffers()[1]]
    return pa.Array.from_buffers(to, len(array), buffers, -1, children=[values])


def _convert_dict(array: pa.MapArray, to: pa.MapType, column: str, convert: ConvertValues) -> pa.Array:
    """Convert a dict as a list of structs with the members key and value."""
    entry = pa.field("entries", pa.struct([to.key_field, to.item_field]), nullable=False)
    offered = pa.struct(
        [array.type.key_field.with_name(to.key_field.name), array.type.item_field.with_name(to.item_field.name)]
    )
    entries = pa.Array.from_buffers(offered, len(array.keys), [None], 0, children=[array.keys, array.items])
    as_list = pa.Array.from_buffers(
        pa.list_(pa.field("entries", offered, nullable=False)),
        len(array),
        array.buffers()[:2],
        array.null_count,
        array.offset,
        children=[entries],
    )
    lists = _convert_list(as_list, pa.list_(entry), column, convert)
    return pa.Array.from_buffers(to, len(lists), lists.buffers()[:2], lists.null_count, 0, children=[lists.values])


def _convert_elements(
    values: pa.Array, element: pa.Field, column: str, lengths: pa.Array, convert: ConvertValues
) -> pa.Array:
    try:
        return fill_nulls(convert(values, element.type, column), element, column)
    except RefusedError as error:
        ends = pc.cumulative_sum(lengths)
        row = pc.index(pc.greater(ends, error.index), True).as_py()
        raise RefusedError(row, error.column, error.value, error.wanted) from error


def _to_offsets(lengths: pa.Array, type_: pa.DataType) -> pa.Array:
    ends = pc.cumulative_sum(lengths).cast(type_)
    return pa.concat_arrays([pa.array([0], type_), ends])
