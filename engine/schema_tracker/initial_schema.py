"""The schema of a scan before its first reader.

This schema is created from one of two sources:

- *A project list*: the list determines which columns exist. A provided schema determines the types of its columns. All
  other columns are LATE [scan-schema-tracker "Dynamic Schema"], [scan-schema-tracker "Hybrid Schema"].
- *A defined schema*: the planner knows the whole output [scan-schema-tracker "Defined Schema"].

Guarantees:

1. A name refers to an implicit column if the scan has an implicit column with this name, and the query does not
   select a member or an element of the column. A defined schema, or a provided schema under a wildcard, may also
   contain the name. In this case, the types must match.
2. The path of a column must match the type of the column in a schema. For example, an index of a scalar raises a
   ``ProjectionError``.
3. A defined schema must match the project list. The names and their order must be the same, at every depth at which the
   list names members.
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

FindImplicitColumn = Callable[[str], pa.Field | None]
"""Returns the implicit column with a name, ignoring case. Returns None if the name belongs to the table."""


def no_implicit_columns(name: str) -> None:
    """Return None for every name. Used for scans without implicit columns."""


def from_project_list(
    project_list: ProjectionList,
    provided: TupleSchema,
    *,
    is_strict: bool,
    find_implicit: FindImplicitColumn,
    context: ErrorContext,
) -> ScanSchema:
    """Create the schema from a project list and a provided schema.

    Args:
        project_list: The columns that the query selects.
        provided: The types that the user declares.
        is_strict: Whether the table has only the columns of the provided schema.
        find_implicit: Finds implicit columns by name.
        context: The scan, for error messages.

    Raises:
        ProjectionError: If a path does not match the type of its column.
        SchemaConflictError: If an implicit column has another type in the provided schema.
    """
    builder = _ProjectListBuilder(project_list, provided, find_implicit, context)
    if project_list.wildcard_at is None:
        schema = builder.build_explicit()
    else:
        schema = builder.build_wildcard(project_list.wildcard_at)
    if is_strict:
        of_readers = provided.without(schema.implicit.names)
        return replace(schema, wanted=restrict_to_schema(schema.wanted, of_readers), is_expanded=True)
    return schema


def from_defined_schema(
    project_list: ProjectionList, defined: TupleSchema, *, find_implicit: FindImplicitColumn, context: ErrorContext
) -> ScanSchema:
    """Create the schema from a schema that the planner has defined.

    Args:
        project_list: The columns that the query selects.
        defined: The output schema.
        find_implicit: Finds implicit columns by name.
        context: The scan, for error messages.

    Raises:
        ProjectionError: If the schema differs from the project list, or a path does not match the type of its column.
        SchemaConflictError: If an implicit column has another type in the schema.
    """
    _check_equal(project_list, defined, context)
    columns = []
    for field in defined:
        path = project_list.find(field.name) or ProjectedPath(field.name)
        implicit = find_implicit(field.name) if path.is_simple else None
        if implicit is None:
            check_consistent(path, field.type, "", context)
            columns.append(ScanColumn(add_named_members(field, path)))
        else:
            columns.append(_implicit_column(implicit, field, context))
    of_readers = TupleSchema(column.field for column in columns if not column.is_implicit)
    return ScanSchema(restrict_to_schema(project_list, of_readers), before=tuple(columns))


class _ProjectListBuilder:
    """Builds the schema from a project list, with the types of a provided schema."""

    def __init__(
        self,
        project_list: ProjectionList,
        provided: TupleSchema,
        find_implicit: FindImplicitColumn,
        context: ErrorContext,
    ) -> None:
        self._project_list = project_list
        self._provided = provided
        self._find_implicit = find_implicit
        self._context = context

    def build_explicit(self) -> ScanSchema:
        columns = [self._make_column(path) for path in self._project_list.columns]
        wanted = self._for_readers(columns)
        pairs = ((wanted.find(column.field.name), column.field.type) for column in columns)
        is_open = any(path is not None and _is_open(path, type_) for path, type_ in pairs)
        return ScanSchema(wanted, tuple(columns), is_expanded=not is_open)

    def build_wildcard(self, wildcard_at: int) -> ScanSchema:
        named = [self._make_column(path) for path in self._project_list.columns]
        by_name = {fold_case(column.field.name): column for column in named}
        others = [
            self._make_column(ProjectedPath(field.name))
            for field in self._provided
            if fold_case(field.name) not in by_name and not is_hidden(field)
        ]
        by_name.update((fold_case(column.field.name), column) for column in others)
        in_order = [by_name[fold_case(field.name)] for field in self._provided if fold_case(field.name) in by_name]
        table = [column for column in in_order if not column.is_implicit or column in others]
        names = {fold_case(column.field.name) for column in table}
        floating = [column for column in named if not column.is_implicit and fold_case(column.field.name) not in names]
        return ScanSchema(
            self._for_readers(named),
            before=[column for column in named[:wildcard_at] if column.is_implicit],
            table=[*table, *(replace(column, is_placed=False) for column in floating)],
            after=[column for column in named[wildcard_at:] if column.is_implicit],
            is_expanded=False,
        )

    def _for_readers(self, named: Sequence[ScanColumn]) -> ProjectionList:
        """Return the project list without implicit columns."""
        implicit = {fold_case(column.field.name) for column in named if column.is_implicit}
        paths = tuple(path for path in self._project_list.columns if fold_case(path.name) not in implicit)
        return ProjectionList(paths, None if self._project_list.wildcard_at is None else len(paths))

    def _make_column(self, path: ProjectedPath) -> ScanColumn:
        provided = self._provided.find(path.name)
        implicit = self._find_implicit(path.name) if path.is_simple else None
        if implicit is not None:
            return _implicit_column(implicit, provided, self._context)
        if provided is None:
            return ScanColumn(pa.field(path.name, LATE))
        wanted = ProjectionList((path,), None if self._project_list.wildcard_at is None else 1)
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
    """Return whether a reader may add members to a column of this type."""
    members = members_of(type_)
    if members is None or path.is_whole:
        return members is not None
    pairs = ((path.member(member.name), member.type) for member in members)
    return any(member_path is not None and _is_open(member_path, member) for member_path, member in pairs)


def _check_equal(project_list: ProjectionList, defined: TupleSchema, context: ErrorContext, prefix: str = "") -> None:
    """Check that the project list and the defined schema match. See guarantee 3."""
    if project_list.type is ProjectionType.ALL:
        strangers = [path.name for path in project_list.columns if defined.find(path.name) is None]
        if strangers:
            raise _unequal_error([*strangers, "*"], defined.names, context, prefix)
    elif [fold_case(path.name) for path in project_list.columns] != [fold_case(name) for name in defined.names]:
        raise _unequal_error([path.name for path in project_list.columns], defined.names, context, prefix)
    for path in project_list.columns:
        field = defined.find(path.name)
        members = None if field is None else members_of(field.type)
        if path.members and members is not None:
            _check_equal(ProjectionList.of_members(path), members, context, f"{prefix}{path.name}.")


def _unequal_error(
    listed: Iterable[str], defined: Iterable[str], context: ErrorContext, prefix: str
) -> ProjectionError:
    place = f" in {prefix.removesuffix('.')!r}" if prefix else ""
    return ProjectionError(
        f"{context}the query selects the columns ({', '.join(listed)}){place}, but the defined schema has "
        f"({', '.join(defined)}). Both must contain the same columns in the same order."
    )
