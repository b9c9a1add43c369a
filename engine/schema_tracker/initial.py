"""The schema of a scan before its first reader, in the two forms of seed 002.

*By projection*: the project list says which columns there are; a provided schema names the types of those that it
knows; all others are LATE. *By definition*: a planner knows the whole output.

Guarantees:

1. A name is an implicit column if the resolver knows it and the query asks for no member or element of it, or if the
   defined schema or a wildcard over the provided one has it. Its type must suit the one given there.
2. What a path asks for must suit the type given for its column: an index of a scalar is a ProjectionError here
   already.
3. A defined schema equals the project list: the same names in the same order, as deep as the list names members.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from engine.arrow_types import members_of
from engine.context import ErrorContext
from engine.errors import ProjectionError, SchemaConflictError
from engine.projection.list_filter import ListFilter, check_consistent
from engine.projection.path import ProjectedPath
from engine.projection.project_list import ProjectionList, ProjectionType
from engine.schema import LATE, TupleSchema, fold_case
from engine.schema_tracker.column_filter import describe_type
from engine.schema_tracker.provided import is_hidden, restrict_to_schema
from engine.schema_tracker.scan_schema import ScanColumn, ScanSchema, add_named_members
from engine.schema_tracker.widening import can_become

ImplicitNames = Callable[[str], pa.Field | None]
"""The implicit column of that name in any letter case; None if the name is the table's own."""


def no_implicit_names(name: str) -> None:
    """Of a data source without implicit columns."""


def from_project_list(
    listed: ProjectionList,
    provided: TupleSchema,
    *,
    is_strict: bool,
    implicit_names: ImplicitNames,
    context: ErrorContext,
) -> ScanSchema:
    """Raises: ProjectionError; SchemaConflictError for an implicit column."""
    builder = _ByProjection(listed, provided, implicit_names, context)
    schema = builder.explicit() if listed.wildcard_at is None else builder.wildcard(listed.wildcard_at)
    if is_strict:
        readers_own = provided.without(schema.implicit.names)
        return replace(schema, wanted=restrict_to_schema(schema.wanted, readers_own), is_expanded=True)
    return schema


def from_defined_schema(
    listed: ProjectionList, defined: TupleSchema, *, implicit_names: ImplicitNames, context: ErrorContext
) -> ScanSchema:
    """Raises: ProjectionError; SchemaConflictError for an implicit column."""
    _check_equal(listed, defined, context)
    columns = []
    for field in defined:
        path = listed.find(field.name) or ProjectedPath(field.name)
        implicit = implicit_names(field.name) if path.is_simple else None
        if implicit is None:
            check_consistent(path, field.type, "", context)
            columns.append(ScanColumn(add_named_members(field, path)))
        else:
            columns.append(_implicit_column(implicit, field, context))
    of_readers = TupleSchema(column.field for column in columns if not column.is_implicit)
    return ScanSchema(restrict_to_schema(listed, of_readers), before=tuple(columns))


class _ByProjection:
    """Builds the schema from a project list, with the types of a provided schema."""

    def __init__(
        self, listed: ProjectionList, provided: TupleSchema, implicit_names: ImplicitNames, context: ErrorContext
    ) -> None:
        self._listed = listed
        self._provided = provided
        self._implicit_names = implicit_names
        self._context = context

    def explicit(self) -> ScanSchema:
        columns = [self._column(path) for path in self._listed.columns]
        wanted = self._wanted(columns)
        pairs = ((wanted.find(column.field.name), column.field.type) for column in columns)
        is_open = any(path is not None and _is_open(path, type_) for path, type_ in pairs)
        return ScanSchema(wanted, tuple(columns), is_expanded=not is_open)

    def wildcard(self, wildcard_at: int) -> ScanSchema:
        named = [self._column(path) for path in self._listed.columns]
        by_name = {fold_case(column.field.name): column for column in named}
        others = [
            self._column(ProjectedPath(field.name))
            for field in self._provided
            if fold_case(field.name) not in by_name and not is_hidden(field)
        ]
        by_name.update((fold_case(column.field.name), column) for column in others)
        in_order = [by_name[fold_case(field.name)] for field in self._provided if fold_case(field.name) in by_name]
        table = [column for column in in_order if not column.is_implicit or column in others]
        names = {fold_case(column.field.name) for column in table}
        floating = [column for column in named if not column.is_implicit and fold_case(column.field.name) not in names]
        return ScanSchema(
            self._wanted(named),
            before=[column for column in named[:wildcard_at] if column.is_implicit],
            table=[*table, *(replace(column, is_placed=False) for column in floating)],
            behind=[column for column in named[wildcard_at:] if column.is_implicit],
            is_expanded=False,
        )

    def _wanted(self, named: Sequence[ScanColumn]) -> ProjectionList:
        """What is left for readers."""
        implicit = {fold_case(column.field.name) for column in named if column.is_implicit}
        paths = tuple(path for path in self._listed.columns if fold_case(path.name) not in implicit)
        return ProjectionList(paths, None if self._listed.wildcard_at is None else len(paths))

    def _column(self, path: ProjectedPath) -> ScanColumn:
        provided = self._provided.find(path.name)
        implicit = self._implicit_names(path.name) if path.is_simple else None
        if implicit is not None:
            return _implicit_column(implicit, provided, self._context)
        if provided is None:
            return ScanColumn(pa.field(path.name, LATE))
        wanted = ProjectionList((path,), None if self._listed.wildcard_at is None else 1)
        field = ListFilter(wanted, self._context).project(provided).field
        return ScanColumn(add_named_members(field, path))


def _implicit_column(implicit: pa.Field, given: pa.Field | None, context: ErrorContext) -> ScanColumn:
    if given is None or given.type.equals(LATE):
        return ScanColumn(implicit, is_implicit=True)
    if not can_become(implicit.type, given.type) or (implicit.nullable and not given.nullable):
        raise SchemaConflictError(
            implicit.name, offered=describe_type(implicit), promised=describe_type(given), context=context
        )
    return ScanColumn(given.with_name(implicit.name), is_implicit=True)


def _is_open(path: ProjectedPath, type_: pa.DataType) -> bool:
    """Whether a reader may add members."""
    members = members_of(type_)
    if members is None or path.is_whole:
        return members is not None
    pairs = ((path.member(member.name), member.type) for member in members)
    return any(inner is not None and _is_open(inner, held) for inner, held in pairs)


def _check_equal(listed: ProjectionList, defined: TupleSchema, context: ErrorContext, within: str = "") -> None:
    """See guarantee 3."""
    if listed.type is ProjectionType.ALL:
        strangers = [path.name for path in listed.columns if defined.find(path.name) is None]
        if strangers:
            raise _unequal([*strangers, "*"], defined.names, context, within)
    elif [fold_case(path.name) for path in listed.columns] != [fold_case(name) for name in defined.names]:
        raise _unequal([path.name for path in listed.columns], defined.names, context, within)
    for path in listed.columns:
        field = defined.find(path.name)
        members = None if field is None else members_of(field.type)
        if path.members and members is not None:
            _check_equal(ProjectionList.of_members(path), members, context, f"{within}{path.name}.")


def _unequal(listed: Iterable[str], defined: Iterable[str], context: ErrorContext, within: str) -> ProjectionError:
    place = f" in {within.removesuffix('.')!r}" if within else ""
    return ProjectionError(
        f"{context}the query asks for the columns ({', '.join(listed)}){place}, but the defined schema has "
        f"({', '.join(defined)}). Both must be the same, in the same order."
    )
