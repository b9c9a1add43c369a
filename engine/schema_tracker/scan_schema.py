"""The schema of a scan as far as it is known: what the tracker knows at one moment.

A value: each step of a scan makes the next one. The columns stand in four stretches, because a wildcard opens the
list in the middle: ``SELECT filename, *, suffix`` is implicit columns, what the table turns out to have, the
partition columns, and implicit columns again.

Guarantees:

1. A column, once there, keeps its place, its name and its mode, and its type once that is named. The one
   exception: columns named beside a wildcard take the place that the first reader gives them, and those that it
   lacks stand behind its own.
2. A map grows only by members: those of the first reader first.
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
    """One column of the output.

    Attributes:
        field: With its name in the output; LATE, all of it or in it, while its type is not known.
        is_implicit: The scan makes it, no reader.
        is_placed: Whether its place is final.
    """

    field: pa.Field
    is_implicit: bool = False
    is_placed: bool = True


@dataclass(frozen=True, slots=True)
class ScanSchema:
    """See above.

    Attributes:
        wanted: What a reader is to give: the project list without implicit columns.
        before: All columns, if there is no wildcard; else those before it.
        table: What the wildcard stands for.
        partitions: What it brings along.
        behind: Behind the wildcard.
        is_expanded: It is known what the wildcard stands for, and what members those maps have that are wanted whole.
        output: All columns, in order.
        implicit: Those that no reader gives.
        reader_input: The others.
        is_resolved: Everything is expanded and has a type.
    """

    wanted: ProjectionList
    before: Sequence[ScanColumn] = ()
    table: Sequence[ScanColumn] = ()
    partitions: Sequence[ScanColumn] = ()
    behind: Sequence[ScanColumn] = ()
    is_expanded: bool = True
    output: TupleSchema = field(init=False, compare=False)
    implicit: TupleSchema = field(init=False, compare=False)
    reader_input: TupleSchema = field(init=False, compare=False)
    is_resolved: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        columns = [*self.before, *self.table, *self.partitions, *self.behind]
        is_late_in_part = any(has_late(column.field) for column in columns)
        derived = {
            "output": TupleSchema(column.field for column in columns),
            "implicit": TupleSchema(column.field for column in columns if column.is_implicit),
            "reader_input": TupleSchema(column.field for column in columns if not column.is_implicit),
            "is_resolved": self.is_expanded and not is_late_in_part,
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def with_partition(self, field: pa.Field) -> "ScanSchema":
        return replace(self, partitions=(*self.partitions, ScanColumn(field, is_implicit=True)))

    def resolved_by(self, offered: TupleSchema) -> "ScanSchema":
        """With the types of these columns. Others than those of the scan are left out."""
        return replace(
            self,
            before=self._with_types(self.before, offered),
            table=self._with_types(self.table, offered),
            behind=self._with_types(self.behind, offered),
        )

    def merged(self, offered: TupleSchema) -> "ScanSchema":
        """With the types of a reader's columns, and with those that are new at the end of the wildcard's.

        A reader without columns does not tell what a wildcard stands for.
        """
        if self.wanted.type is not ProjectionType.ALL:
            return replace(self.resolved_by(offered), is_expanded=True)
        if not len(offered):
            return self
        known = self.output
        new = [ScanColumn(field) for field in offered if known.find(field.name) is None]
        resolved = self.resolved_by(offered)
        return replace(resolved, table=_placed(resolved.table, offered, new), is_expanded=True)

    def _with_types(self, stretch: Sequence[ScanColumn], offered: TupleSchema) -> tuple[ScanColumn, ...]:
        pairs = ((column, offered.find(column.field.name)) for column in stretch)
        return tuple(column if field is None else self._merged_column(column, field) for column, field in pairs)

    def _merged_column(self, column: ScanColumn, offered: pa.Field) -> ScanColumn:
        path = self.wanted.find(column.field.name) or ProjectedPath(column.field.name)
        return replace(column, field=_merged(column.field, offered, path))


def add_named_members(field: pa.Field, path: ProjectedPath) -> pa.Field:
    """The column with all members that its path names: LATE those that it lacks, all in the order of the path."""
    members = members_of(field.type)
    if members is None:
        return field
    named = [_member(members.find(member.name), member) for member in path.members]
    others = members.without(member.name for member in path.members)
    if path.is_whole:
        inner = [_member(one, path.member(one.name) or ProjectedPath(one.name)) for one in members]
        inner += [one for one in named if members.find(one.name) is None]
    else:
        inner = [*named, *others]
    return field.with_type(with_members(field.type, inner))


def find_missing(promised: pa.Field, offered: pa.Field | None) -> pa.Field | None:
    """What of a column a reader does not give: all of it, some members, or nothing (None)."""
    if offered is None or is_late(offered):
        return promised
    members, given = members_of(promised.type), members_of(offered.type)
    if members is None or given is None:
        return None
    missing = [one for one in (find_missing(member, given.find(member.name)) for member in members) if one is not None]
    return promised.with_type(with_members(promised.type, missing)) if missing else None


def _placed(table: Sequence[ScanColumn], offered: TupleSchema, new: Sequence[ScanColumn]) -> tuple[ScanColumn, ...]:
    """What has its place already, then the reader's columns in its order, then what it lacks."""
    floating = [*(column for column in table if not column.is_placed), *new]
    by_reader = sorted(floating, key=lambda column: _place(offered, column.field.name))
    return (*(column for column in table if column.is_placed), *(replace(one, is_placed=True) for one in by_reader))


def _place(offered: TupleSchema, name: str) -> int:
    place = offered.index_of(name)
    return len(offered) if place is None else place


def _member(member: pa.Field | None, path: ProjectedPath) -> pa.Field:
    return pa.field(path.name, LATE) if member is None else add_named_members(member, path)


def _merged(promised: pa.Field, offered: pa.Field, path: ProjectedPath) -> pa.Field:
    if is_late(promised):
        return add_named_members(offered.with_name(promised.name), path)
    return promised.with_type(_merged_type(promised.type, offered.type, path))


def _merged_type(promised: pa.DataType, offered: pa.DataType, path: ProjectedPath) -> pa.DataType:
    members, given = members_of(promised), members_of(offered)
    if is_any_list(promised) and is_any_list(offered):
        element = pa.field(path.name, promised.value_type)
        held = _merged(element, pa.field(path.name, offered.value_type), path).type
        return with_element(promised, promised.value_field.with_type(held))
    if members is None or given is None:
        return fill_late(promised, offered)
    inner = []
    for member in inner_fields(promised):
        one = given.find(member.name)
        inside = path.member(member.name) or ProjectedPath(member.name)
        inner.append(member if one is None else _merged(member, one, inside))
    new = [one for one in given if members.find(one.name) is None]
    return pa.struct([*inner, *new])
