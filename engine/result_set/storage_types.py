"""In which types values are kept: without encodings, and with one kind of list."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as pt


def to_storage_type(type_: pa.DataType) -> pa.DataType:
    """The type in which values of a type are kept; the same if it needs no other."""
    if pt.is_dictionary(type_) or pt.is_run_end_encoded(type_):
        return to_storage_type(type_.value_type)
    for is_it, plain in _PLAIN:
        if is_it(type_):
            return plain
    for is_it, rebuilt in _REBUILT:
        if is_it(type_):
            return rebuilt(type_)
    return type_


def _struct(type_: pa.DataType) -> pa.DataType:
    return pa.struct([_field(type_.field(index)) for index in range(type_.num_fields)])


def _field(field: pa.Field) -> pa.Field:
    return field.with_type(to_storage_type(field.type))


Rebuild = Callable[[pa.DataType], pa.DataType]

_PLAIN = (
    (pt.is_string_view, pa.string()),
    (pt.is_binary_view, pa.binary()),
    (pt.is_float16, pa.float32()),
)

_REBUILT: tuple[tuple[Callable[[pa.DataType], bool], Rebuild], ...] = (
    (pt.is_struct, _struct),
    (pt.is_map, lambda type_: pa.map_(_field(type_.key_field), _field(type_.item_field))),
    (pt.is_decimal32, lambda type_: pa.decimal128(type_.precision, type_.scale)),
    (pt.is_decimal64, lambda type_: pa.decimal128(type_.precision, type_.scale)),
    (pt.is_large_list, lambda type_: pa.large_list(_field(type_.value_field))),
    (pt.is_large_list_view, lambda type_: pa.large_list(_field(type_.value_field))),
    (pt.is_list, lambda type_: pa.list_(_field(type_.value_field))),
    (pt.is_list_view, lambda type_: pa.list_(_field(type_.value_field))),
    (pt.is_fixed_size_list, lambda type_: pa.list_(_field(type_.value_field))),
)
