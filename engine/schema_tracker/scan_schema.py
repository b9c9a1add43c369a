"""The schema of a scan, as far as it is known at one moment.

The schema is immutable, and each step of a scan creates a new schema. The columns are stored in four sections,
because the project list may contain a wildcard in the middle. For example, ``SELECT filename, *, suffix`` selects
implicit columns, the table's columns, the partition columns, and again implicit columns.

Guarantees:

1. A column keeps its position, its name and its mode. It also keeps its type as soon as the type is known. There is one
   exception: columns that are named in addition to a wildcard move to the position that the first reader gives them.
   Columns that this reader does not have follow after the reader's columns.
2. A map changes only by adding new members. The members from the first reader come first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from engine.arrow_types import fill_late, has_late, inner_fields, is_any_list, members_of, with_element, with_members
from engine.projection.path import ProjectedPath
from engine.projection.project_list import ProjectionList, ProjectionType
from engine.schema import LATE, TupleSchema, is_late


@dataclass(frozen=True, slots=True)
class ScanColumn:
    """A column of the output.

    Attributes:
        field: The column as it appears in the output. It is LATE, or contains LATE types, until its type is known.
        is_implicit: Whether the scan adds the column itself.
        is_placed: Whether the position of the column is final.
    """

    field: pa.Field
    is_implicit: bool = False
    is_placed: bool = True


@dataclass(frozen=True, slots=True)
class ScanSchema:
    """Schema of a scan at one moment.

    Attributes:
        wanted: The columns that a reader should produce: the project list without implicit columns.
        before: The columns before the wildcard. If there is no wildcard, all columns.
        table: The columns that the wildcard selects.
        partitions: The partition columns that the wildcard adds.
        after: The columns after the wildcard.
        is_expanded: Whether all columns of the wildcard are known, and all members of maps that are selected as a
            whole.
        output: All columns, in order.
        implicit: The columns that no reader produces.
        reader_input: The columns that readers produce.
        is_resolved: Whether the schema is expanded and each column has a type.
    """

    wanted: ProjectionList
    before: Sequence[ScanColumn] = ()
    table: Sequence[ScanColumn] = ()
    partitions: Sequence[ScanColumn] = ()
    after: Sequence[ScanColumn] = ()
    is_expanded: bool = True
    output: TupleSchema = field(init=False, compare=False)
    implicit: TupleSchema = field(init=False, compare=False)
    reader_input: TupleSchema = field(init=False, compare=False)
    is_resolved: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        columns = [*self.before, *self.table, *self.partitions, *self.after]
        has_late_types = any(has_late(column.field) for column in columns)
        derived = {
            "output": TupleSchema(column.field for column in columns),
            "implicit": TupleSchema(column.field for column in columns if column.is_implicit),
            "reader_input": TupleSchema(column.field for column in columns if not column.is_implicit),
            "is_resolved": self.is_expanded and not has_late_types,
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def with_partition(self, field: pa.Field) -> "ScanSchema":
        """Return the schema with an additional partition column."""
        return replace(self, partitions=(*self.partitions, ScanColumn(field, is_implicit=True)))

    def resolve(self, offered: TupleSchema) -> "ScanSchema":
        """Return the schema with the types of the offered columns. Unknown columns are ignored."""
        return replace(
            self,
            before=self._with_types(self.before, offered),
            table=self._with_types(self.table, offered),
            after=self._with_types(self.after, offered),
        )

    def merge(self, offered: TupleSchema) -> "ScanSchema":
        """Return the schema with the types of a reader's columns.

        If there is a wildcard, new columns are added. A reader without columns does not expand the wildcard.
        """
        if self.wanted.type is not ProjectionType.ALL:
            return replace(self.resolve(offered), is_expanded=True)
        if not len(offered):
            return self
        new = [ScanColumn(field) for field in offered if self.output.find(field.name) is None]
        resolved = self.resolve(offered)
        return replace(resolved, table=_place_columns(resolved.table, offered, new), is_expanded=True)

    def _with_types(self, columns: Sequence[ScanColumn], offered: TupleSchema) -> tuple[ScanColumn, ...]:
        pairs = ((column, offered.find(column.field.name)) for column in columns)
        return tuple(column if field is None else self._merge_column(column, field) for column, field in pairs)

    def _merge_column(self, column: ScanColumn, offered: pa.Field) -> ScanColumn:
        path = self.wanted.find(column.field.name) or ProjectedPath(column.field.name)
        return replace(column, field=_merge_field(column.field, offered, path))


def add_named_members(field: pa.Field, path: ProjectedPath) -> pa.Field:
    """Return the column with all members that its path names.

    Members that do not exist in the column are LATE. If the path selects only named members, the members are in the
    order of the path.
    """
    members = members_of(field.type)
    if members is None:
        return field
    named = [_complete_member(members.find(member.name), member) for member in path.members]
    if path.is_whole:
        inner = [_complete_member(one, path.member(one.name) or ProjectedPath(one.name)) for one in members]
        inner += [one for one in named if members.find(one.name) is None]
    else:
        inner = [*named, *members.without(member.name for member in path.members)]
    return field.with_type(with_members(field.type, inner))


def find_missing(promised: pa.Field, offered: pa.Field | None) -> pa.Field | None:
    """Return the part of a column that a reader does not offer. Return None if there is none.

    The part is either the whole column, or a map with the missing members.
    """
    if offered is None or is_late(offered):
        return promised
    members, offered_members = members_of(promised.type), members_of(offered.type)
    if members is None or offered_members is None:
        return None
    parts = (find_missing(member, offered_members.find(member.name)) for member in members)
    missing = [part for part in parts if part is not None]
    return promised.with_type(with_members(promised.type, missing)) if missing else None


def _place_columns(
    table: Sequence[ScanColumn], offered: TupleSchema, new: Sequence[ScanColumn]
) -> tuple[ScanColumn, ...]:
    """Order the columns of a wildcard.

    Columns with a final position come first. They are followed by the reader's columns in the reader's order, and
    then by the columns that the reader does not have.
    """

    def reader_index(column: ScanColumn) -> int:
        index = offered.index_of(column.field.name)
        return len(offered) if index is None else index

    floating = sorted([*(column for column in table if not column.is_placed), *new], key=reader_index)
    return (*(column for column in table if column.is_placed), *(replace(one, is_placed=True) for one in floating))


def _complete_member(member: pa.Field | None, path: ProjectedPath) -> pa.Field:
    return pa.field(path.name, LATE) if member is None else add_named_members(member, path)


def _merge_field(promised: pa.Field, offered: pa.Field, path: ProjectedPath) -> pa.Field:
    if is_late(promised):
        return add_named_members(offered.with_name(promised.name), path)
    return promised.with_type(_merge_type(promised.type, offered.type, path))


def _merge_type(promised: pa.DataType, offered: pa.DataType, path: ProjectedPath) -> pa.DataType:
    members, offered_members = members_of(promised), members_of(offered)
    if is_any_list(promised) and is_any_list(offered):
        element = pa.field(path.name, promised.value_type)
        merged = _merge_field(element, pa.field(path.name, offered.value_type), path)
        return with_element(promised, promised.value_field.with_type(merged.type))
    if members is None or offered_members is None:
        return fill_late(promised, offered)
    inner = []
    for member in inner_fields(promised):
        one = offered_members.find(member.name)
        member_path = path.member(member.name) or ProjectedPath(member.name)
        inner.append(member if one is None else _merge_field(member, one, member_path))
    new = [one for one in offered_members if members.find(one.name) is None]
    return pa.struct([*inner, *new])
