"""Inference of the types of values that Python's parser has read.

Most objects of a file have the same members with the same types of values. Therefore each object is first reduced to
its shape, which is cheap to compute and to store. A type is inferred only for a new shape.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from engine.context import ErrorContext
from engine.errors import ValueConversionError
from engine.readers.json_objects.json_options import TypeConflictPolicy
from engine.readers.json_objects.positions import RowPositions
from engine.readers.json_objects.types import DOUBLE, INTEGER, LONG_INTEGER, TEXT, TypeMerger, join_names
from engine.readers.json_objects.values import MAX_DEPTH, Number, Row, too_deep
from engine.schema import LATE, MAX_DECIMAL_DIGITS

_SHORT_DIGITS = 18


class TypeInference:
    """Infers the types of the objects of a file.

    Args:
        on_conflict: The treatment of values with different types in the same array.
        is_projected: Returns whether a member of the rows is read.
        is_text: Returns whether a member is text, regardless of its values.
        all_text: Whether numbers and booleans are read as text.
    """

    def __init__(
        self,
        on_conflict: TypeConflictPolicy,
        is_projected: Callable[[str], bool],
        is_text: Callable[[str], bool],
        *,
        all_text: bool,
    ) -> None:
        self._on_conflict = on_conflict
        self._is_projected = is_projected
        self._is_text = is_text
        self._all_text = all_text
        self._seen: set[Hashable] = set()

    def new_types(self, rows: Sequence[Row], positions: RowPositions) -> Iterator[tuple[pa.StructType, int]]:
        """Yield the types of the rows with a new shape, each with the number of the row.

        Raises:
            DuplicateColumnError: If two names of one object are equal when case is ignored.
            FormatError: If values are nested too deeply.
            SchemaConflictError: If an array contains values of different types.
            ValueConversionError: If a number has too many digits.
        """
        for row, number in rows:
            shape = _shape_of(row, 0)
            if shape not in self._seen:
                self._seen.add(shape)
                yield self._type_of(self._read_members(row), "", positions.at(number), 0), number

    def _read_members(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the members that are read.

        The value of a member that is text is replaced with an empty string.
        """
        return {name: "" if self._is_text(name) else value for name, value in row.items() if self._is_projected(name)}

    def _type_of(self, value: Any, path: str, context: ErrorContext, depth: int) -> pa.DataType:
        if depth > MAX_DEPTH:
            raise too_deep(context)
        if isinstance(value, dict):
            members = (
                (name, self._type_of(one, join_names(path, name), context, depth + 1)) for name, one in value.items()
            )
            return pa.struct([pa.field(name, type_) for name, type_ in members])
        if isinstance(value, list):
            merger = TypeMerger(self._on_conflict, context)
            elements = LATE
            for one in value:
                elements = merger.merge(elements, self._type_of(one, path, context, depth + 1), path)
            return pa.list_(elements)
        return LATE if value is None else self._scalar_type(value, path, context)

    def _scalar_type(self, value: Any, path: str, context: ErrorContext) -> pa.DataType:
        if self._all_text or not isinstance(value, Number | bool):
            return TEXT
        if isinstance(value, bool):
            return pa.bool_()
        if not value.is_integer:
            return DOUBLE
        digits = value.lstrip("-").lstrip("0")
        if len(digits) <= _SHORT_DIGITS or (len(digits) == _SHORT_DIGITS + 1 and -(2**63) <= int(value) < 2**63):
            return INTEGER
        if len(digits) > MAX_DECIMAL_DIGITS:
            raise ValueConversionError(path, value, f"an integer of at most {MAX_DECIMAL_DIGITS} digits", context)
        return LONG_INTEGER


def _shape_of(value: Any, depth: int) -> Any:
    """Return the shape of a value. Shapes are equal if, and only if, the types are equal."""
    if depth > MAX_DEPTH + 1:  # inferring the type of this value raises an error
        return None
    if isinstance(value, dict):
        return tuple((name, _shape_of(one, depth + 1)) for name, one in value.items())
    if isinstance(value, list):
        return frozenset(_shape_of(one, depth + 1) for one in value)
    if isinstance(value, Number):
        if not value.is_integer:
            return DOUBLE
        return INTEGER if len(value) <= _SHORT_DIGITS else str(value)
    return None if value is None else type(value)
