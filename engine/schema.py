"""Schemas of rows and of maps: ordered, immutable, with names that are found in any letter case.

A column is an Arrow field; Arrow's type says what it holds and what seed 000 calls its mode:

| mode | Arrow field | a row without a value gets |
| --- | --- | --- |
| required | not nullable | the default of its type, see ``default_value`` |
| nullable | nullable | null |
| repeated | a list that is not nullable | an empty list |

A struct is a map of the seeds (a nested tuple), an Arrow map is a dict, a nullable list is a list. A column of
Arrow's null type is LATE (seed 002): its type is still to be named by a reader.

Guarantees:

1. Two columns of one tuple never differ by letter case alone. Names keep the case they came with.
2. Nothing changes in place: each change is a new schema.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Self

import pyarrow as pa

from engine.errors import DuplicateColumnError

LATE: pa.DataType = pa.null()
"""The type of a column whose type is to be named later, by a reader or by what stands in for a missing column."""

MAX_DECIMAL_DIGITS = 38
"""Of Arrow's decimals of 128 bits, and of Spark's."""

DEFAULT_VALUE_KEY = b"lodge.default"
"""Metadata of a field: the default of a required column, as text in UTF-8."""

IMPLICIT_MARK = {b"SPARK::metadata::json": b'{"lodge.implicit": true}'}
"""Metadata of a field that a scan makes itself, so that it is not taken for the column of that name in the files. The
key is the only one that comes back from Spark."""


def is_late(field: pa.Field) -> bool:
    """Whether the type of the column itself, not of one inside it, is still to be named."""
    return bool(field.type.equals(LATE))


def is_implicit(field: pa.Field) -> bool:
    """Whether the field was marked with ``IMPLICIT_MARK``."""
    return all((field.metadata or {}).get(key) == value for key, value in IMPLICIT_MARK.items())


def fold_case(name: str) -> str:
    """A name as it is compared."""
    return name.casefold()


class TupleSchema:
    """The columns of a row or of a map, in order.

    Args:
        fields: Each with a name of its own.

    Raises:
        DuplicateColumnError: Two names are the same but for letter case.
    """

    __slots__ = ("_fields", "_indexes")

    def __init__(self, fields: Iterable[pa.Field] = ()) -> None:
        self._fields: tuple[pa.Field, ...] = tuple(fields)
        self._indexes: dict[str, int] = {}
        for index, field in enumerate(self._fields):
            first = self._indexes.setdefault(fold_case(field.name), index)
            if first != index:
                raise DuplicateColumnError(self._fields[first].name, field.name)

    @classmethod
    def of(cls, schema: "pa.Schema | pa.StructType") -> Self:
        """Of an Arrow schema, or of the type of a map column."""
        return cls(schema.field(index) for index in range(_length(schema)))

    @property
    def fields(self) -> Sequence[pa.Field]:
        return self._fields

    @property
    def names(self) -> Sequence[str]:
        return [field.name for field in self._fields]

    def index_of(self, name: str) -> int | None:
        """Where the column stands; None if there is none of that name in any letter case."""
        return self._indexes.get(fold_case(name))

    def find(self, name: str) -> pa.Field | None:
        index = self.index_of(name)
        return None if index is None else self._fields[index]

    def with_field(self, field: pa.Field) -> "TupleSchema":
        """With the column in place of the one of its name, or at the end."""
        index = self.index_of(field.name)
        if index is None:
            return TupleSchema([*self._fields, field])
        return TupleSchema([*self._fields[:index], field, *self._fields[index + 1 :]])

    def without(self, names: Iterable[str]) -> "TupleSchema":
        left_out = {fold_case(name) for name in names}
        return TupleSchema(field for field in self._fields if fold_case(field.name) not in left_out)

    def to_arrow(self) -> pa.Schema:
        return pa.schema(self._fields)

    def to_struct(self) -> pa.StructType:
        return pa.struct(self._fields)

    def __iter__(self) -> Iterator[pa.Field]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TupleSchema) and self._fields == other._fields

    def __hash__(self) -> int:
        return hash(self._fields)

    def __repr__(self) -> str:
        return f"TupleSchema({', '.join(str(field) for field in self._fields)})"


def _length(schema: "pa.Schema | pa.StructType") -> int:
    return schema.num_fields if isinstance(schema, pa.StructType) else len(schema)
