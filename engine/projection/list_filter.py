"""The filter by the project list alone, for columns whose type nobody knew before the reader offers them.

Seed 002: "The projection filter, when presented with the reader's choice for column type, will check if that type
is consistent with projection."

| written | the column may be |
| --- | --- |
| ``a`` | anything |
| ``a[1]`` | an array; a dict with integer keys |
| ``a[0][1]`` | the same, and what it holds is one of these again |
| ``m.a`` | a map; a dict with text keys; an array of one of these |
| ``m[1].a`` | first as ``a[1]``, then what it holds as ``m.a`` |

Columns that are LATE, and unions, may be anything. What is not in the table is a ProjectionError.

Guarantees:

1. A map, or an array of maps, is offered back with the members that are wanted, and no others: those that
   asking for each member gives, in the reader's order. A dict is all there or not at all.
2. Names are those of the project list; those under a wildcard are the reader's.
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from engine.context import ErrorContext
from engine.errors import NOWHERE, ProjectionError
from engine.nested_types import innermost, is_any_list, members_of, with_members
from engine.projection.filter import PROJECT_ALL, PROJECT_NONE, ProjectedColumn
from engine.projection.path import ProjectedPath, quote_name
from engine.projection.project_list import NOTHING, ProjectionList, ProjectionType


@dataclass(frozen=True, slots=True)
class ListFilter:
    """A ProjectionFilter.

    Attributes:
        wanted: The project list of the row or of the map.
        context: Of the reader.
        within: Names of the maps around, as a path: ``m.``; empty for the row.
    """

    wanted: ProjectionList
    context: ErrorContext = NOWHERE
    within: str = ""

    @property
    def is_empty(self) -> bool:
        return self.wanted.type is ProjectionType.NONE

    def project(self, field: pa.Field) -> ProjectedColumn:
        """Raises: ProjectionError if the column cannot be what its path says."""
        path = self.wanted.find(field.name)
        if path is None:
            return ProjectedColumn(None, PROJECT_NONE)
        check_consistent(path, field.type, self.within, self.context)
        name = path.name if self.wanted.type is ProjectionType.SOME else field.name
        members = members_of(field.type)
        if members is None:
            return ProjectedColumn(field.with_name(name), PROJECT_ALL)
        inner = self.at(name)
        kept = [projected.field for projected in map(inner.project, members) if projected.field is not None]
        return ProjectedColumn(field.with_name(name).with_type(with_members(field.type, kept)), inner)

    def at(self, name: str) -> "ListFilter":
        """The filter for the members of one column."""
        path = self.wanted.find(name)
        wanted = NOTHING if path is None else ProjectionList.of_members(path)
        return ListFilter(wanted, self.context, f"{self.within}{quote_name(name)}.")


def check_consistent(path: ProjectedPath, type_: pa.DataType, within: str, context: ErrorContext) -> None:
    """Whether a column, and all that its path names in it, can be what the path says.

    Args:
        path: What is wanted of the column.
        type_: The column's.
        within: As of :class:`ListFilter`.
        context: As of :class:`ListFilter`.

    Raises:
        ProjectionError: See the table.
    """
    problem = _index_problem(path, type_) or _member_problem(path, _element(path, type_))
    if problem:
        raise ProjectionError(
            f"{context}column '{within}{quote_name(path.name)}' is {type_} here, {problem}, but the query asks for "
            f"{within}{path}. Ask for the whole column, or scan files in which it is such a column."
        )
    if path.is_map:
        _check_inside(path, _element(path, type_), f"{within}{quote_name(path.name)}.", context)


def _index_problem(path: ProjectedPath, type_: pa.DataType) -> str:
    for _ in range(path.dimensions):
        if _is_open(type_):
            break
        if pt.is_struct(type_):
            return "a map without indexes"
        if pt.is_map(type_) and not pt.is_integer(type_.key_type):
            return "a dict whose keys are not integers"
        if not is_any_list(type_) and not pt.is_map(type_):
            return "which has no elements" if type_.num_fields == 0 else "which has no index"
        type_ = _inside(type_)
    return ""


def _member_problem(path: ProjectedPath, type_: pa.DataType) -> str:
    held = innermost(type_)
    if not path.is_map or _is_open(held) or pt.is_struct(held):
        return ""
    if pt.is_map(held):
        return "" if _is_text(held.key_type) else "a dict whose keys are not text"
    return "an array of elements without members" if is_any_list(type_) else "which has no members"


def _check_inside(path: ProjectedPath, type_: pa.DataType, within: str, context: ErrorContext) -> None:
    """The members of a map that are there, and the values of a dict, are what their own paths say."""
    held, members = innermost(type_), members_of(type_)
    for inner in path.members:
        member = None if members is None else members.find(inner.name)
        if member is not None:
            check_consistent(inner, member.type, within, context)
        elif pt.is_map(held):
            check_consistent(inner, held.item_type, within, context)


def _element(path: ProjectedPath, type_: pa.DataType) -> pa.DataType:
    """What is left of a type behind the indexes of a path that it is consistent with."""
    for _ in range(path.dimensions):
        type_ = _inside(type_)
    return type_


def _inside(type_: pa.DataType) -> pa.DataType:
    if is_any_list(type_):
        return type_.value_type
    return type_.item_type if pt.is_map(type_) else type_


def _is_open(type_: pa.DataType) -> bool:
    return bool(pt.is_null(type_) or pt.is_union(type_))


def _is_text(type_: pa.DataType) -> bool:
    return bool(pt.is_string(type_) or pt.is_large_string(type_) or pt.is_string_view(type_))
