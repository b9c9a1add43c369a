"""Conversions of maps, lists and dicts, and of nulls where none may be."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from engine.errors import ColumnError
from engine.nested_types import is_any_list
from engine.result_set.conversion import defaults
from engine.result_set.conversion.errors import NotOfferedError, RefusedError
from engine.schema import TupleSchema

ConvertValues = Callable[[pa.Array, pa.DataType, str], pa.Array]


def convert_nested(array: pa.Array, to: pa.DataType, column: str, convert: ConvertValues) -> pa.Array:
    """Raises: NotOfferedError, RefusedError."""
    if pt.is_struct(array.type) and pt.is_struct(to):
        return _converted_struct(array, to, column, convert)
    if pt.is_map(array.type) and pt.is_map(to):
        return _converted_dict(array, to, column, convert)
    if is_any_list(array.type) and (pt.is_list(to) or pt.is_large_list(to)):
        return _converted_list(array, to, column, convert)
    raise NotOfferedError(column, array.type, to)


def without_nulls(array: pa.Array, to: pa.Field, column: str, within: pa.Array | None = None) -> pa.Array:
    """The array as values of a field that may be required: see guarantee 3 of the conversions.

    Args:
        within: Where the map around is there at all; what lies in one that is null does not count.
    """
    if to.nullable or array.null_count == 0:
        return array
    declared = defaults.declared_default(to, column)
    if declared is not None:
        return pc.fill_null(array, declared)
    refused = array.is_null() if within is None else pc.and_(array.is_null(), within)
    index = pc.index(refused, True).as_py()
    if index >= 0:
        raise RefusedError(index, column, None, f"{to.type} and never null")
    return _with_zeros(array)


def _with_zeros(array: pa.Array) -> pa.Array:
    """With something in place of nulls that nobody can see."""
    if pt.is_nested(array.type):
        return array
    if defaults.has_natural_default(array.type):
        return pc.fill_null(array, defaults.natural_default(array.type))
    return pc.fill_null(array, pa.scalar(0, pa.int64()).cast(_stored_as(array.type)).cast(array.type))


def _stored_as(type_: pa.DataType) -> pa.DataType:
    return pa.int32() if type_.bit_width == 32 else pa.int64()


def _converted_struct(array: pa.StructArray, to: pa.StructType, column: str, convert: ConvertValues) -> pa.Array:
    offered = TupleSchema.of(array.type)
    arrays = array.flatten()
    is_there = array.is_valid()
    members = []
    for index in range(to.num_fields):
        member = to.field(index)
        name = f"{column}.{member.name}"
        found = offered.index_of(member.name)
        if found is None:
            members.append(_missing_member(member, len(array), name))
        else:
            members.append(without_nulls(convert(arrays[found], member.type, name), member, name, is_there))
    return pa.Array.from_buffers(to, len(array), [bitmap_of(is_there)], -1, children=members)


def _missing_member(member: pa.Field, count: int, column: str) -> pa.Array:
    try:
        return defaults.missing_values(member, count, column)
    except ColumnError:
        raise RefusedError(0, column, None, f"{member.type} and never missing") from None


def bitmap_of(is_there: pa.Array) -> pa.Buffer | None:
    """Of an array of booleans without nulls, the buffer; None if all are true, as Arrow allows."""
    return pc.and_(is_there, True).buffers()[1] if pc.all(is_there, min_count=0).as_py() is False else None


def _converted_list(array: pa.Array, to: pa.DataType, column: str, convert: ConvertValues) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64())
    element = to.value_field
    values = _elements(array.flatten(), element, f"{column}[]", lengths, convert)
    offsets = _offsets(lengths, pa.int64() if pt.is_large_list(to) else pa.int32())
    return pa.Array.from_buffers(
        to, len(array), [bitmap_of(array.is_valid()), offsets.buffers()[1]], -1, children=[values]
    )


def _converted_dict(array: pa.MapArray, to: pa.MapType, column: str, convert: ConvertValues) -> pa.Array:
    entry = pa.field("entries", pa.struct([to.key_field, to.item_field]), nullable=False)
    plain = pa.struct(
        [array.type.key_field.with_name(to.key_field.name), array.type.item_field.with_name(to.item_field.name)]
    )
    as_list = pa.Array.from_buffers(
        pa.list_(pa.field("entries", plain, nullable=False)),
        len(array),
        array.buffers()[:2],
        array.null_count,
        array.offset,
        children=[_entries(array, plain)],
    )
    lists = _converted_list(as_list, pa.list_(entry), column, convert)
    return pa.Array.from_buffers(to, len(lists), lists.buffers()[:2], lists.null_count, 0, children=[lists.values])


def _entries(array: pa.MapArray, plain: pa.StructType) -> pa.Array:
    return pa.Array.from_buffers(plain, len(array.keys), [None], 0, children=[array.keys, array.items])


def _elements(values: pa.Array, element: pa.Field, column: str, lengths: pa.Array, convert: ConvertValues) -> pa.Array:
    try:
        return without_nulls(convert(values, element.type, column), element, column)
    except RefusedError as error:
        ends = pc.cumulative_sum(lengths)
        row = pc.index(pc.greater(ends, error.index), True).as_py()
        raise RefusedError(row, error.column, error.value, error.wanted) from error


def _offsets(lengths: pa.Array, type_: pa.DataType) -> pa.Array:
    ends = pc.cumulative_sum(lengths).cast(type_)
    return pa.concat_arrays([pa.array([0], type_), ends])
