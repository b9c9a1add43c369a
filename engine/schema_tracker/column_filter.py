"""The projection filter for columns whose type is already promised.

This filter is stricter than the filter by the project list. Together, the two filters detect schema conflicts before
any value is read [scan-schema-tracker "projectionFilter"].

Guarantees:

1. A column is returned with its promised name, type and mode. If this is not possible, a ``SchemaConflictError`` with
   the column, the file and both types is raised. A nullable column does not become required.
2. In a map, or an array of maps, only the members that the reader offers and the query selects are kept, in the
   reader's order. The result is the same as projecting each member separately. Members that the reader does not offer
   are missing columns.
3. A LATE column is checked only against the project list. See :mod:`engine.projection.list_filter`.
4. Columns of a provided schema are converted by the rule for provided schemas, and other columns are widened. See
   :mod:`engine.schema_tracker.widening`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.types as pt

from engine.arrow_types import fill_late, has_late, inner_fields, is_any_list, members_of, with_element, with_members
from engine.context import ErrorContext
from engine.errors import SchemaConflictError
from engine.projection.filter import PROJECT_ALL, PROJECT_NONE, ProjectedColumn
from engine.projection.list_filter import ListFilter, check_consistent
from engine.projection.path import quote_name
from engine.projection.project_list import NOTHING, ProjectionList, ProjectionType
from engine.schema import TupleSchema, is_late
from engine.schema_tracker.provided import is_hidden
from engine.schema_tracker.widening import can_be_declared, can_become
from engine.type_names import type_name

Admit = Callable[[str], bool]
"""Returns whether a wildcard adds a new column to the schema. The argument is the path of the column."""


@dataclass(frozen=True, slots=True)
class ColumnFilter:
    """Projection filter for the columns of a row or the members of a map.

    Attributes:
        promised: The columns that are promised so far.
        wanted: The promised and new columns that the query selects.
        declared: The part of the provided schema for this row or map.
        admit: Decides whether a new column is added.
        context: The source that the reader is reading. Error messages include it.
        prefix: The path of the enclosing maps, such as ``m.``. Empty for a row.
    """

    promised: TupleSchema
    wanted: ProjectionList
    declared: TupleSchema
    admit: Admit
    context: ErrorContext
    prefix: str = ""

    @property
    def is_empty(self) -> bool:
        return self.wanted.type is ProjectionType.NONE

    def project(self, field: pa.Field) -> ProjectedColumn:
        """Return the column as it appears in the batch.

        Raises:
            SchemaConflictError: If its values cannot be converted to the promised type.
            ProjectionError: If its type does not match the query.
        """
        promised = self.promised.find(field.name)
        if self.wanted.find(field.name) is None or (promised is None and not self._is_admitted(field)):
            return ProjectedColumn(None, PROJECT_NONE)
        if promised is None:
            return self._list_filter.project(field)
        if not is_late(promised):
            return self._conform(field, promised)
        by_list = self._list_filter.project(field)
        return replace(by_list, field=by_list.field and by_list.field.with_name(promised.name))

    def at(self, name: str) -> "ColumnFilter | ListFilter":
        """Return the filter for the members of a column."""
        promised = self.promised.find(name)
        members = None if promised is None else members_of(promised.type)
        if promised is None or members is None:
            return self._list_filter.at(name)
        path = self.wanted.find(name)
        declared = self.declared.find(name)
        return ColumnFilter(
            members,
            NOTHING if path is None else ProjectionList.of_members(path),
            (declared and members_of(declared.type)) or TupleSchema(),
            self.admit,
            self.context,
            f"{self.prefix}{quote_name(promised.name)}.",
        )

    @property
    def _list_filter(self) -> ListFilter:
        return ListFilter(self.wanted, self.context, self.prefix)

    def _is_admitted(self, field: pa.Field) -> bool:
        """Return whether a new column is added to the schema. This requires a wildcard."""
        hidden = is_hidden(field) or is_hidden(self.declared.find(field.name))
        by_wildcard = self.wanted.type is ProjectionType.ALL and not hidden
        return by_wildcard and self.admit(f"{self.prefix}{quote_name(field.name)}")

    def _conform(self, field: pa.Field, promised: pa.Field) -> ProjectedColumn:
        is_same = field.type.num_fields == 0 and field.type.equals(promised.type)
        if is_same and (promised.nullable or not field.nullable):
            return ProjectedColumn(promised, PROJECT_ALL)
        inner = self.at(promised.name)
        type_ = None
        if promised.nullable or not field.nullable:
            type_ = self._conform_type(field.type, promised, inner)
        if type_ is None:
            raise SchemaConflictError(
                f"{self.prefix}{quote_name(promised.name)}",
                offered=describe_type(field),
                promised=describe_type(promised),
                context=self.context,
            )
        path = self.wanted.find(promised.name)
        if path is not None and has_late(promised):
            check_consistent(path, field.type, self.prefix, self.context)
        return ProjectedColumn(promised.with_type(type_), PROJECT_ALL if members_of(type_) is None else inner)

    def _conform_type(
        self, offered: pa.DataType, promised: pa.Field, inner: "ColumnFilter | ListFilter"
    ) -> pa.DataType | None:
        """Return the promised type without the members that the reader does not offer.

        Return None if the types conflict.
        """
        if pt.is_struct(offered) and pt.is_struct(promised.type):
            return pa.struct(_project_members(TupleSchema.of(offered), inner))
        if is_any_list(offered) and is_any_list(promised.type):
            return self._conform_list(offered, promised, inner)
        if is_late(promised):
            members = members_of(offered)
            return offered if members is None else with_members(offered, _project_members(members, inner))
        declared = self.declared.find(promised.name)
        is_declared = declared is not None and not is_late(declared)
        fits = can_be_declared if is_declared else can_become
        return fill_late(promised.type, offered) if fits(offered, promised.type) else None

    def _conform_list(
        self, offered: pa.DataType, promised: pa.Field, inner: "ColumnFilter | ListFilter"
    ) -> pa.DataType | None:
        element = promised.type.value_field
        if offered.value_field.nullable and not element.nullable:
            return None
        same_kind = can_become(with_element(offered, element), promised.type)
        type_ = self._conform_type(offered.value_type, element.with_name(promised.name), inner)
        return None if type_ is None or not same_kind else with_element(promised.type, element.with_type(type_))


def describe_type(field: pa.Field) -> str:
    """Return the type and mode for error messages, such as ``bigint not null``.

    The names of nested types do not show the modes of their fields.
    """
    inside = " with required values" * _has_required(field.type)
    return f"{type_name(field.type)}{'' if field.nullable else ' not null'}{inside}"


def _has_required(type_: pa.DataType) -> bool:
    fields = inner_fields(type_)[pt.is_map(type_) :]  # the keys of a dict are never null
    return any(not field.nullable or _has_required(field.type) for field in fields)


def _project_members(members: TupleSchema, inner: ColumnFilter | ListFilter) -> list[pa.Field]:
    return [field for field in (inner.project(member).field for member in members) if field is not None]
