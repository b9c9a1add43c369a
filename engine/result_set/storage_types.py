"""Types in which Lodge stores values.

A stored type has no dictionary or run-end encoding, and is not a view type.
"""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as pt

from engine.arrow_types import inner_fields, is_any_list


def to_storage_type(type_: pa.DataType) -> pa.DataType:
    """Return the type in which values of the given type are stored.

    For most types, this is the type itself.
    """
    if pt.is_dictionary(type_) or pt.is_run_end_encoded(type_):
        return to_storage_type(type_.value_type)
    if pt.is_decimal32(type_) or pt.is_decimal64(type_):
        return pa.decimal128(type_.precision, type_.scale)
    inner = [field.with_type(to_storage_type(field.type)) for field in inner_fields(type_)]
    if pt.is_struct(type_):
        return pa.struct(inner)
    if pt.is_map(type_):
        return pa.map_(*inner)
    if is_any_list(type_):
        is_wide = pt.is_large_list(type_) or pt.is_large_list_view(type_)
        return pa.large_list(inner[0]) if is_wide else pa.list_(inner[0])
    return next((stored for is_kind, stored in _STORED_TYPES if is_kind(type_)), type_)


_STORED_TYPES: tuple[tuple[Callable[[pa.DataType], bool], pa.DataType], ...] = (
    (pt.is_string_view, pa.string()),
    (pt.is_binary_view, pa.binary()),
    (pt.is_float16, pa.float32()),
)
