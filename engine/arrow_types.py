"""Predicates for Arrow types that pyarrow does not have, and functions for nested types.

A *map* is an Arrow struct, a *dict* is an Arrow map, and an *array* is any of Arrow's list types. A type is LATE if it
is Arrow's null type.
"""

from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from engine.schema import TupleSchema, is_late

_LISTS = frozenset(
    one.id
    for one in (
        *(pa.list_(pa.null()), pa.large_list(pa.null()), pa.list_(pa.null(), 1)),
        *(pa.list_view(pa.null()), pa.large_list_view(pa.null())),
    )
)


def is_text(type_: pa.DataType) -> bool:
    """Return whether the type is a string with 32-bit or 64-bit offsets."""
    return bool(pt.is_string(type_) or pt.is_large_string(type_))


def text_array(text: str) -> pa.StringArray:
    """Return an array with one text.

    ``pa.array`` and ``pa.scalar`` import pandas, which takes half a second in each new process.
    """
    data = text.encode()
    return pa.StringArray.from_buffers(1, pa.py_buffer(array("i", (0, len(data)))), pa.py_buffer(data))


EMPTY_TEXT = text_array("")[0]


def characters(texts: pa.Array) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the bytes of all texts. A slice of an array may have the bytes of the whole array."""
    return np.frombuffer(texts.buffers()[2] or b"", np.uint8)


def is_bytes(type_: pa.DataType) -> bool:
    """Return whether the type is binary, of variable or fixed size."""
    return bool(pt.is_binary(type_) or pt.is_large_binary(type_) or pt.is_fixed_size_binary(type_))


def is_view(type_: pa.DataType) -> bool:
    """Return whether the type is a view of strings or binaries."""
    return bool(pt.is_string_view(type_) or pt.is_binary_view(type_))


def is_any_list(type_: pa.DataType) -> bool:
    """Return whether the type is any kind of list: plain, large, fixed-size or a view."""
    return type_.id in _LISTS


def inner_fields(type_: pa.DataType) -> Sequence[pa.Field]:
    """Return the fields that are nested directly in a type.

    These are the members of a map, the element of an array, or the key and the value of a dict. All other types have
    none.
    """
    if pt.is_struct(type_):
        return [type_.field(index) for index in range(type_.num_fields)]
    if is_any_list(type_):
        return [type_.value_field]
    return [type_.key_field, type_.item_field] if pt.is_map(type_) else []


def inner_types(type_: pa.DataType) -> Sequence[pa.DataType]:
    """Return the types that are nested directly in a type, also those of a union."""
    if pt.is_union(type_):
        return [type_.field(number).type for number in range(type_.num_fields)]
    return [field.type for field in inner_fields(type_)]


def with_inner_fields(type_: pa.DataType, fields: Sequence[pa.Field]) -> pa.DataType:
    """Return the type with its nested fields replaced. See :func:`inner_fields`."""
    if pt.is_struct(type_):
        return pa.struct(fields)
    if pt.is_map(type_):
        return pa.map_(*fields, keys_sorted=type_.keys_sorted)
    return with_element(type_, fields[0]) if is_any_list(type_) else type_


def with_element(type_: pa.DataType, element: pa.Field) -> pa.DataType:
    """Return the same kind of list with another element."""
    if pt.is_fixed_size_list(type_):
        return pa.list_(element, type_.list_size)
    if pt.is_large_list(type_):
        return pa.large_list(element)
    if pt.is_list_view(type_):
        return pa.list_view(element)
    return pa.large_list_view(element) if pt.is_large_list_view(type_) else pa.list_(element)


def innermost(type_: pa.DataType) -> pa.DataType:
    """Return the element type of an array, or of an array of arrays.

    All other types are returned unchanged.
    """
    while is_any_list(type_):
        type_ = type_.value_type
    return type_


def members_of(type_: pa.DataType) -> TupleSchema | None:
    """Return the members of a map or of an array of maps. Return None for other types."""
    struct = innermost(type_)
    return TupleSchema.of(struct) if pt.is_struct(struct) else None


def with_members(type_: pa.DataType, members: Sequence[pa.Field]) -> pa.DataType:
    """Return the map, or the array of maps, with its members replaced."""
    if is_any_list(type_):
        element = type_.value_field
        return with_element(type_, element.with_type(with_members(element.type, members)))
    return pa.struct(members)


def has_late(field: pa.Field) -> bool:
    """Return whether the column is LATE, or contains a LATE type at any depth."""
    return is_late(field) or any(has_late(inner) for inner in inner_fields(field.type))


def resolve_late(field: pa.Field, choose_type: Callable[[pa.Field], pa.DataType]) -> pa.Field:
    """Replace every LATE type in a column with the chosen type, at any depth."""
    if is_late(field):
        return field.with_type(choose_type(field))
    inner = inner_fields(field.type)
    if not any(has_late(one) for one in inner):
        return field
    return field.with_type(with_inner_fields(field.type, [resolve_late(one, choose_type) for one in inner]))


def fill_late(type_: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Replace the LATE types in a type with the corresponding types of another type.

    Both types must have the same structure.
    """
    if pt.is_null(type_):
        return other
    if pt.is_struct(type_) and pt.is_struct(other):
        members = TupleSchema.of(other)
        pairs = [(member, members.find(member.name)) for member in inner_fields(type_)]
    elif (is_any_list(type_) and is_any_list(other)) or (pt.is_map(type_) and pt.is_map(other)):
        pairs = list(zip(inner_fields(type_), inner_fields(other), strict=True))
    else:
        return type_
    inner = [one if same is None else one.with_type(fill_late(one.type, same.type)) for one, same in pairs]
    return with_inner_fields(type_, inner)
