"""Immutable schemas of rows and maps. Case is ignored when names are compared.

As in Spark, two names are equal if their lower case is equal. Unicode case folding and normal forms would make further
names equal: ``straße`` and ``strasse`` are two columns, and so are ``é`` as one character and as two.

A column is an Arrow field. The mode of a column [result-set-loader] follows from the type and nullability of this
field:

| mode | Arrow field | value if missing |
| --- | --- | --- |
| required | not nullable | the default, see :mod:`engine.result_set.conversion.defaults` |
| nullable | nullable | null |
| repeated | a list that is not nullable | an empty list |

A *map* is an Arrow struct (a nested tuple), a *dict* is an Arrow map, and a *list* is a nullable Arrow list. A column
with Arrow's null type is LATE, which means that a reader determines its type later. [scan-schema-tracker] calls such a
column dynamic.

Guarantees:

1. The names of two columns of one tuple are never equal when case is ignored. Names keep their case.
2. A schema is immutable. Each change returns a new schema.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Self

import pyarrow as pa

from engine.errors import DuplicateColumnError
from engine.spark_type import VOID

LATE: pa.DataType = pa.null()
"""The type of a column whose type is not known yet.

A reader, or the default type for missing columns, determines the type later.
"""

MAX_DECIMAL_DIGITS = 38
"""The maximum precision of Arrow's 128-bit decimals, and of Spark's decimals."""

DEFAULT_VALUE_KEY = b"lodge.default"
"""The metadata key for the default value of a required column, as UTF-8 text."""

IMPLICIT = "lodge.implicit"
"""The metadata key in Spark's schemas for columns that the scan adds itself."""

IMPLICIT_MARK = {b"SPARK::metadata::json": f'{{"{IMPLICIT}": true}}'.encode()}
"""The metadata of a column that the scan adds itself.

The metadata distinguishes this column from a column of the files with the same name. Spark does not preserve any other
metadata key.
"""


_TYPE_OF_NULLS = b"lodge.nulls"

TYPES_OF_NULLS: Mapping[bytes, pa.DataType] = MappingProxyType(
    {
        b"boolean": pa.bool_(),
        b"int": pa.int32(),
        b"bigint": pa.int64(),
        b"float": pa.float32(),
        b"double": pa.float64(),
        b"binary": pa.binary(),
        b"void": VOID,
    }
)
"""The types that a column of nulls can get, by their names in its metadata."""


def with_type_of_nulls(field: pa.Field, type_: pa.DataType) -> pa.Field:
    """Return a LATE column that gets a type if no file determines another one.

    The type is one of ``TYPES_OF_NULLS``.
    """
    name = next(name for name, known in TYPES_OF_NULLS.items() if known.equals(type_))
    return field.with_metadata({**(field.metadata or {}), _TYPE_OF_NULLS: name})


def type_of_nulls(field: pa.Field) -> pa.DataType | None:
    """Return the type that a LATE column gets if no file determines another one. None if a file does not say so."""
    return TYPES_OF_NULLS.get((field.metadata or {}).get(_TYPE_OF_NULLS, b""))


def is_late(field: pa.Field) -> bool:
    """Return whether the type of the column itself is LATE.

    Types that are nested in the column are not considered.
    """
    return bool(field.type.equals(LATE))


def is_implicit(field: pa.Field) -> bool:
    """Return whether the field has the ``IMPLICIT_MARK``."""
    return all((field.metadata or {}).get(key) == value for key, value in IMPLICIT_MARK.items())


def fold_case(name: str) -> str:
    """Return the lower case of a column name. Names with the same lower case are equal."""
    return name.lower()


class TupleSchema:
    """Columns of a row or of a map, in order.

    Args:
        fields: The columns, each with a unique name.

    Raises:
        DuplicateColumnError: If two names are equal when case is ignored.
    """

    __slots__ = ("_fields", "_indexes")

    def __init__(self, fields: Iterable[pa.Field] = ()) -> None:
        self._fields: tuple[pa.Field, ...] = tuple(fields)
        # May have further entries, because a schema shares it with the one that was made by adding a column. So many
        # columns can be added one after the other.
        self._indexes: dict[str, int] = {}
        for index, field in enumerate(self._fields):
            first = self._indexes.setdefault(fold_case(field.name), index)
            if first != index:
                raise DuplicateColumnError(self._fields[first].name, field.name)

    @classmethod
    def of(cls, schema: "pa.Schema | pa.StructType") -> Self:
        """Return the columns of an Arrow schema, or the members of a map type."""
        return cls(schema)

    @property
    def fields(self) -> Sequence[pa.Field]:
        return self._fields

    @property
    def names(self) -> Sequence[str]:
        return [field.name for field in self._fields]

    def index_of(self, name: str) -> int | None:
        """Return the index of the column with a name. Case is ignored.

        Return None if the column does not exist.
        """
        index = self._indexes.get(fold_case(name))
        return index if index is not None and index < len(self._fields) else None

    def find(self, name: str) -> pa.Field | None:
        """Return the column with a name, ignoring case. Return None if it does not exist."""
        index = self.index_of(name)
        return None if index is None else self._fields[index]

    def with_field(self, field: pa.Field) -> "TupleSchema":
        """Return the schema with a column added or replaced.

        If the schema already has a column with the same name, that column is replaced. Otherwise the column is added at
        the end.
        """
        index = self.index_of(field.name)
        changed = TupleSchema()
        if index is None:
            changed._fields = (*self._fields, field)
            known = self._indexes
            if len(known) > len(self._fields):  # another schema was made from this one
                known = {name: index for name, index in known.items() if index < len(self._fields)}
            known[fold_case(field.name)] = len(self._fields)
            changed._indexes = known
        else:
            changed._fields = (*self._fields[:index], field, *self._fields[index + 1 :])
            changed._indexes = self._indexes
        return changed

    def without(self, names: Iterable[str]) -> "TupleSchema":
        """Return the schema without the columns with the given names. Case is ignored."""
        removed = {fold_case(name) for name in names}
        return TupleSchema(field for field in self._fields if fold_case(field.name) not in removed)

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
