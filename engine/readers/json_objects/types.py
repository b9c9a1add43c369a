"""The types of JSON values, and what they become together.

| one | other | together |
| --- | --- | --- |
| null | any | the other |
| integer | double | double; with the policy `error`, a conflict |
| integer | an integer of more than 64 bits | decimal(38, 0) |
| array, object | the same | element by element, member by member |
| any | another | a conflict: an error, or text by policy |

Guarantees:

1. The order in which values are met changes nothing but the order of members.
2. Text is text, whatever it looks like: dates and timestamps come only by a schema that promises them.
"""

from typing import Final

import pyarrow as pa

from engine.context import ErrorContext
from engine.errors import DuplicateColumnError, SchemaConflictError
from engine.readers.json_objects.options import TypeConflictPolicy
from engine.schema import LATE, TupleSchema, fold_case

INTEGER: Final = pa.int64()
LONG_INTEGER: Final = pa.decimal128(38, 0)
FLOAT: Final = pa.float32()
DOUBLE: Final = pa.float64()
TEXT: Final = pa.string()

_NUMBERS = (INTEGER, LONG_INTEGER, DOUBLE)


class TypeMerger:
    """What becomes of two types of one column.

    Args:
        on_conflict: The policy.
        context: The place at which the second type was found.
    """

    def __init__(self, on_conflict: TypeConflictPolicy, context: ErrorContext) -> None:
        self._on_conflict = on_conflict
        self._context = context

    def objects(self, one: pa.StructType, other: pa.StructType, path: str = "") -> pa.StructType:
        """Raises: SchemaConflictError; DuplicateColumnError as names differ by letter case alone."""
        members = {fold_case(field.name): field for field in one}
        for field in other:
            key = fold_case(field.name)
            known = members.get(key)
            if known is not None and known.name != field.name:
                raise DuplicateColumnError(join_names(path, known.name), join_names(path, field.name), self._context)
            type_ = field.type if known is None else self.types(known.type, field.type, join_names(path, field.name))
            members[key] = pa.field(field.name, type_)
        return pa.struct(list(members.values()))

    def types(self, one: pa.DataType, other: pa.DataType, path: str) -> pa.DataType:
        """Raises: As :meth:`objects`."""
        if one.equals(other) or other.equals(LATE):
            return one
        if one.equals(LATE):
            return other
        if pa.types.is_struct(one) and pa.types.is_struct(other):
            return self.objects(one, other, path)
        if pa.types.is_list(one) and pa.types.is_list(other):
            return pa.list_(self.types(one.value_type, other.value_type, path))
        return self._scalars(one, other, path)

    def _scalars(self, one: pa.DataType, other: pa.DataType, path: str) -> pa.DataType:
        both = {one, other}
        if both == {INTEGER, LONG_INTEGER}:
            return LONG_INTEGER
        if both == {INTEGER, DOUBLE} and self._on_conflict is TypeConflictPolicy.WIDEN:
            return DOUBLE
        if self._on_conflict is TypeConflictPolicy.TEXT:
            return DOUBLE if both == {INTEGER, DOUBLE} else TEXT
        raise SchemaConflictError(path, offered=other, promised=one, context=self._context)


def inferred(type_: pa.DataType) -> pa.DataType:
    """What pyarrow has inferred, with text as text."""
    if pa.types.is_timestamp(type_):
        return TEXT
    if pa.types.is_list(type_):
        return pa.list_(inferred(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, inferred(field.type)) for field in type_])
    return type_


def leaf_count(type_: pa.DataType) -> int:
    """How many names are in it."""
    if pa.types.is_struct(type_):
        return sum(1 + leaf_count(field.type) for field in type_)
    return leaf_count(type_.value_type) if pa.types.is_list(type_) else 0


def has_double(type_: pa.DataType) -> bool:
    if pa.types.is_struct(type_):
        return any(has_double(field.type) for field in type_)
    return has_double(type_.value_type) if pa.types.is_list(type_) else bool(type_.equals(DOUBLE))


def with_promise(found: pa.DataType, promised: pa.DataType | None) -> pa.DataType:
    """The type to parse to: the promised one where that keeps more of the text than the found one.

    The loader converts what is left.
    """
    if promised is None or promised.equals(LATE) or found.equals(LATE):
        return found
    if pa.types.is_struct(found) and pa.types.is_struct(promised):
        return _members_with_promise(found, TupleSchema.of(promised))
    if pa.types.is_struct(found) and pa.types.is_map(promised):
        return pa.map_(pa.string(), _of_all([field.type for field in found], promised.item_type))
    if pa.types.is_list(found) and pa.types.is_list(promised):
        return pa.list_(with_promise(found.value_type, promised.value_type))
    if promised.equals(TEXT) or (found in _NUMBERS and pa.types.is_decimal128(promised)):
        return promised
    is_narrower = found.equals(INTEGER) and pa.types.is_signed_integer(promised)
    is_floating = found in (INTEGER, DOUBLE) and (promised.equals(DOUBLE) or promised.equals(FLOAT))
    return promised if is_narrower or is_floating else found


def _members_with_promise(found: pa.StructType, promised: TupleSchema) -> pa.StructType:
    members = []
    for field in found:
        wanted = promised.find(field.name)
        members.append(field.with_type(with_promise(field.type, None if wanted is None else wanted.type)))
    return pa.struct(members)


def _of_all(found: list[pa.DataType], promised: pa.DataType) -> pa.DataType:
    """The type of the values of a map whose keys were taken for members."""
    types = {with_promise(one, promised) for one in found if not one.equals(LATE)}
    return types.pop() if len(types) == 1 else promised


def needs_python(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether pyarrow's parser cannot give ``wanted`` for what was found."""
    if pa.types.is_map(wanted):
        return True
    if pa.types.is_struct(wanted):
        return any(needs_python(one.type, other.type) for one, other in zip(found, wanted, strict=True))
    if pa.types.is_list(wanted):
        return needs_python(found.value_type, wanted.value_type)
    return bool(wanted.equals(TEXT) and not found.equals(TEXT))


def join_names(path: str, name: str) -> str:
    """What a member is called in messages."""
    return f"{path}.{name}" if path else name
