"""Types of JSON values, and the common type of two types.

| one | other | common type |
| --- | --- | --- |
| null | any | the other type |
| integer | double | double; with the policy `error`, a conflict |
| integer | an integer of more than 64 bits | decimal(38, 0) |
| array, object | the same | the common type of the elements, or of each member |
| any | a different type | a conflict: an error or text, depending on the policy |

Guarantees:

1. The order of the values affects only the order of the members.
2. Text remains text. Text is converted to a date, a timestamp or a decimal only if a schema promises this type.
3. Numbers and text do not conflict in a column of promised decimals.
"""

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from engine.arrow_types import inner_fields
from engine.context import ErrorContext
from engine.errors import DuplicateColumnError, SchemaConflictError
from engine.readers.json_objects.json_options import TypeConflictPolicy
from engine.schema import LATE, TupleSchema, fold_case

INTEGER: Final = pa.int64()
LONG_INTEGER: Final = pa.decimal128(38, 0)
FLOAT: Final = pa.float32()
DOUBLE: Final = pa.float64()
TEXT: Final = pa.string()

_NUMBERS = (INTEGER, LONG_INTEGER, DOUBLE)


class TypeMerger:
    """Determines the common type of two types of a column.

    Args:
        on_conflict: The policy for types without a common type.
        context: The position of the second type, for error messages.
    """

    def __init__(self, on_conflict: TypeConflictPolicy, context: ErrorContext) -> None:
        self._on_conflict = on_conflict
        self._context = context

    def merge_objects(self, one: pa.StructType, other: pa.StructType, path: str = "") -> pa.StructType:
        """Merge the members of two objects.

        Raises:
            SchemaConflictError: If two types have no common type.
            DuplicateColumnError: If two names are equal when case is ignored.
        """
        members = {fold_case(field.name): field for field in one}
        for field in other:
            key = fold_case(field.name)
            known = members.get(key)
            if known is not None and known.name != field.name:
                raise DuplicateColumnError(join_names(path, known.name), join_names(path, field.name), self._context)
            type_ = field.type if known is None else self.merge(known.type, field.type, join_names(path, field.name))
            members[key] = pa.field(field.name, type_)
        return pa.struct(list(members.values()))

    def merge(self, one: pa.DataType, other: pa.DataType, path: str) -> pa.DataType:
        """Return the common type of two types.

        Raises:
            SchemaConflictError: If there is no common type.
            DuplicateColumnError: If two names are equal when case is ignored.
        """
        if one.equals(other) or other.equals(LATE):
            return one
        if one.equals(LATE):
            return other
        if pa.types.is_struct(one) and pa.types.is_struct(other):
            return self.merge_objects(one, other, path)
        if pa.types.is_list(one) and pa.types.is_list(other):
            return pa.list_(self.merge(one.value_type, other.value_type, path))
        return self._merge_scalars(one, other, path)

    def _merge_scalars(self, one: pa.DataType, other: pa.DataType, path: str) -> pa.DataType:
        both = {one, other}
        if both == {INTEGER, LONG_INTEGER}:
            return LONG_INTEGER
        if both == {INTEGER, DOUBLE} and self._on_conflict is not TypeConflictPolicy.ERROR:
            return DOUBLE
        if self._on_conflict is TypeConflictPolicy.TEXT:
            return TEXT
        raise SchemaConflictError(path, offered=other, promised=one, context=self._context)


def without_timestamps(type_: pa.DataType) -> pa.DataType:
    """Replace the timestamps in a type that pyarrow has inferred with text."""
    if pa.types.is_timestamp(type_):
        return TEXT
    if pa.types.is_list(type_):
        return pa.list_(without_timestamps(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, without_timestamps(field.type)) for field in type_])
    return type_


def name_count(type_: pa.DataType) -> int:
    """Return the number of names in a type, including the names of nested members."""
    if pa.types.is_struct(type_):
        return sum(1 + name_count(field.type) for field in type_)
    return name_count(type_.value_type) if pa.types.is_list(type_) else 0


def has_floats(type_: pa.DataType) -> bool:
    """Return whether a type is a double or a float, or contains one."""
    return bool(pa.types.is_floating(type_)) or any(has_floats(field.type) for field in inner_fields(type_))


def promised_number(found: pa.DataType, promised: pa.DataType | None) -> pa.DataType:
    """Replace numbers and text with doubles where a decimal is promised, because each of them can be any decimal."""
    if promised is None:
        return found
    if found in (*_NUMBERS, TEXT) and pa.types.is_decimal128(promised):
        return DOUBLE
    if pa.types.is_list(found) and pa.types.is_list(promised):
        return pa.list_(promised_number(found.value_type, promised.value_type))
    if pa.types.is_struct(found) and pa.types.is_map(promised):
        return pa.struct([one.with_type(promised_number(one.type, promised.item_type)) for one in found])
    if pa.types.is_struct(found) and pa.types.is_struct(promised):
        return _convert_members(found, TupleSchema.of(promised), promised_number)
    return found


def parse_type(found: pa.DataType, promised: pa.DataType | None) -> pa.DataType:
    """Return the type to parse values to.

    This is the promised type if it preserves more of the text than the found type. The loader performs the remaining
    conversions.
    """
    if promised is None or promised.equals(LATE) or found.equals(LATE):
        return found
    if pa.types.is_struct(found) and pa.types.is_struct(promised):
        return _convert_members(found, TupleSchema.of(promised), parse_type)
    if pa.types.is_struct(found) and pa.types.is_map(promised):
        return pa.map_(pa.string(), _map_value_type([field.type for field in found], promised.item_type))
    if pa.types.is_list(found) and pa.types.is_list(promised):
        return pa.list_(parse_type(found.value_type, promised.value_type))
    if promised.equals(TEXT) or (found in _NUMBERS and pa.types.is_decimal128(promised)):
        return promised
    is_narrower = found.equals(INTEGER) and pa.types.is_signed_integer(promised)
    is_floating = found in (INTEGER, DOUBLE) and (promised.equals(DOUBLE) or promised.equals(FLOAT))
    return promised if is_narrower or is_floating else found


def _convert_members(
    found: pa.StructType, promised: TupleSchema, convert: Callable[[pa.DataType, pa.DataType | None], pa.DataType]
) -> pa.StructType:
    """Convert the type of each member, together with the promised type of that member."""
    members = ((field, promised.find(field.name)) for field in found)
    return pa.struct([one.with_type(convert(one.type, other and other.type)) for one, other in members])


def _map_value_type(found: list[pa.DataType], promised: pa.DataType) -> pa.DataType:
    """Return the value type of a map whose keys were inferred as members of a struct."""
    types = {parse_type(one, promised) for one in found if not one.equals(LATE)}
    return types.pop() if len(types) == 1 else promised


def needs_python(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether pyarrow cannot parse values of the found type to the wanted type."""
    if pa.types.is_map(wanted):
        return True
    if pa.types.is_struct(wanted):
        return any(needs_python(one.type, other.type) for one, other in zip(found, wanted, strict=True))
    if pa.types.is_list(wanted):
        return needs_python(found.value_type, wanted.value_type)
    return bool(wanted.equals(TEXT) and not found.equals(TEXT))


def join_names(path: str, name: str) -> str:
    """Return the full name of a member for error messages, such as ``a.b``."""
    return f"{path}.{name}" if path else name
