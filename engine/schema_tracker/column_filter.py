"""The filter by what the scan has promised: the stricter of the two, for columns whose type is known.

Seed 002: "the second reader is given a stricter form of projection filter: one based on the actual MAP (or DICT)
column". It is the first line of defence for schema conflicts.

Guarantees:

1. A column comes back with the name, type and mode that were promised, or is a SchemaConflictError that names the
   column, the file and both types. Nullable does not become required.
2. Of a map, or an array of maps, those members come back that the reader offers and the query wants: those that
   asking for each member gives, in the reader's order. What the reader lacks is a missing column, not a conflict.
3. A column that is still LATE is judged by the project list alone: see :mod:`engine.projection.list_filter`.
4. What a provided schema declares converts by its rule, all else by widening: see
   :mod:`engine.schema_tracker.widening`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.types as pt

from engine.arrow_types import (
    fill_late,
    has_late,
    inner_fields,
    is_any_list,
    members_of,
    with_element,
    with_members,
)
from engine.context import ErrorContext
from engine.errors import SchemaConflictError
from engine.projection.filter import PROJECT_ALL, PROJECT_NONE, ProjectedColumn
from engine.projection.list_filter import ListFilter, check_consistent
from engine.projection.path import quote_name
from engine.projection.project_list import NOTHING, ProjectionList, ProjectionType
from engine.schema import TupleSchema, is_late
from engine.schema_tracker.provided import is_hidden
from engine.schema_tracker.widening import can_be_declared, can_become

Admit = Callable[[str], bool]
"""Whether a column that a wildcard brings, but no reader had before, joins the schema; asked with its path."""


@dataclass(frozen=True, slots=True)
class ColumnFilter:
    """A ProjectionFilter for a row or a map.

    Attributes:
        promised: The columns so far.
        wanted: What of them, and of others, the query wants.
        declared: The provided schema, as far as it concerns this row or map.
        admit: Decides on new columns.
        context: Of the reader.
        within: Names of the maps around, as a path: ``m.``; empty for the row.
    """

    promised: TupleSchema
    wanted: ProjectionList
    declared: TupleSchema
    admit: Admit
    context: ErrorContext
    within: str = ""

    @property
    def is_empty(self) -> bool:
        return self.wanted.type is ProjectionType.NONE

    def project(self, field: pa.Field) -> ProjectedColumn:
        """Raises: SchemaConflictError, ProjectionError."""
        promised = self.promised.find(field.name)
        if self.wanted.find(field.name) is None or (promised is None and not self._is_new(field)):
            return ProjectedColumn(None, PROJECT_NONE)
        if promised is None:
            return self._by_list.project(field)
        if not is_late(promised):
            return self._conformed(field, promised)
        by_list = self._by_list.project(field)
        return replace(by_list, field=by_list.field and by_list.field.with_name(promised.name))

    def at(self, name: str) -> "ColumnFilter | ListFilter":
        """The filter for the members of one column."""
        promised = self.promised.find(name)
        members = None if promised is None else members_of(promised.type)
        if promised is None or members is None:
            return self._by_list.at(name)
        path = self.wanted.find(name)
        declared = self.declared.find(name)
        return ColumnFilter(
            members,
            NOTHING if path is None else ProjectionList.of_members(path),
            (declared and members_of(declared.type)) or TupleSchema(),
            self.admit,
            self.context,
            f"{self.within}{quote_name(promised.name)}.",
        )

    @property
    def _by_list(self) -> ListFilter:
        return ListFilter(self.wanted, self.context, self.within)

    def _is_new(self, field: pa.Field) -> bool:
        """Whether a column that was not promised joins the schema: only under a wildcard, and if it may."""
        hidden = is_hidden(field) or is_hidden(self.declared.find(field.name))
        by_wildcard = self.wanted.type is ProjectionType.ALL and not hidden
        return by_wildcard and self.admit(f"{self.within}{quote_name(field.name)}")

    def _conformed(self, field: pa.Field, promised: pa.Field) -> ProjectedColumn:
        inner = self.at(promised.name)
        type_ = None
        if promised.nullable or not field.nullable:
            type_ = self._conformed_type(field.type, promised, inner)
        if type_ is None:
            raise SchemaConflictError(
                f"{self.within}{quote_name(promised.name)}",
                offered=describe_type(field),
                promised=describe_type(promised),
                context=self.context,
            )
        path = self.wanted.find(promised.name)
        if path is not None and has_late(promised):
            check_consistent(path, field.type, self.within, self.context)
        has_members = members_of(type_) is not None
        return ProjectedColumn(promised.with_type(type_), inner if has_members else PROJECT_ALL)

    def _conformed_type(
        self, offered: pa.DataType, promised: pa.Field, inner: "ColumnFilter | ListFilter"
    ) -> pa.DataType | None:
        """The promised type, less the members that the reader does not offer; None for a conflict."""
        if pt.is_struct(offered) and pt.is_struct(promised.type):
            members = [inner.project(member).field for member in inner_fields(offered)]
            return pa.struct([member for member in members if member is not None])
        if is_any_list(offered) and is_any_list(promised.type):
            return self._conformed_list(offered, promised, inner)
        if is_late(promised):
            return self._pruned(offered, inner)
        declared = self.declared.find(promised.name)
        is_declared = declared is not None and not is_late(declared)
        fits = can_be_declared if is_declared else can_become
        return fill_late(promised.type, offered) if fits(offered, promised.type) else None

    def _pruned(self, offered: pa.DataType, inner: "ColumnFilter | ListFilter") -> pa.DataType:
        members = members_of(offered)
        if members is None:
            return offered
        kept = (inner.project(member).field for member in members)
        return with_members(offered, [member for member in kept if member is not None])

    def _conformed_list(
        self, offered: pa.DataType, promised: pa.Field, inner: "ColumnFilter | ListFilter"
    ) -> pa.DataType | None:
        element = promised.type.value_field
        if offered.value_field.nullable and not element.nullable:
            return None
        same_kind = can_become(with_element(offered, element), promised.type)
        held = self._conformed_type(offered.value_type, element.with_name(promised.name), inner)
        return None if held is None or not same_kind else with_element(promised.type, element.with_type(held))


def describe_type(field: pa.Field) -> str:
    """As messages show it: ``int64 not null``."""
    return str(field.type) if field.nullable else f"{field.type} not null"
