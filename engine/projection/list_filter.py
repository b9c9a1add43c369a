"""The projection filter by the project list, for columns of unknown type.

The filter checks that the type that a reader offers matches the column's path [scan-schema-tracker "projectionFilter"]:

| path | types of the column |
| --- | --- |
| ``a`` | any |
| ``a[1]`` | an array; a dict with integer keys |
| ``a[0][1]`` | as above, and the same again for its elements or values |
| ``m.a`` | a map; a dict with text keys; an array of one of these |
| ``m[1].a`` | as for ``a[1]``, and as for ``m.a`` for its elements or values |

LATE columns and unions match every path. All other combinations raise a ``ProjectionError``.

Guarantees:

1. In a map, or an array of maps, exactly the selected members are kept, in the reader's order. The result is the same
   as projecting each member separately. A dict is either kept as a whole or excluded.
2. Names are those of the project list. Under a wildcard, they are those of the reader.
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from engine.arrow_types import innermost, is_any_list, is_text, members_of, with_members
from engine.context import ErrorContext
from engine.errors import NOWHERE, ProjectionError
from engine.projection.filter import PROJECT_ALL, PROJECT_NONE, ProjectedColumn
from engine.projection.path import ProjectedPath, quote_name
from engine.projection.project_list import NOTHING, ProjectionList, ProjectionType
from engine.type_names import type_name


@dataclass(frozen=True, slots=True)
class ListFilter:
    """Projection filter by a project list.

    Attributes:
        wanted: The project list of the row or of the map.
        context: The source that the reader is reading. Error messages include it.
        prefix: The path of the enclosing maps, such as ``m.``. Empty for a row.
    """

    wanted: ProjectionList
    context: ErrorContext = NOWHERE
    prefix: str = ""

    @property
    def is_empty(self) -> bool:
        return self.wanted.type is ProjectionType.NONE

    def project(self, field: pa.Field) -> ProjectedColumn:
        """Return the column as it appears in the batch.

        Raises:
            ProjectionError: If the type of the column does not match its path.
        """
        path = self.wanted.find(field.name)
        if path is None:
            return ProjectedColumn(None, PROJECT_NONE)
        check_consistent(path, field.type, self.prefix, self.context)
        name = path.name if self.wanted.type is ProjectionType.SOME else field.name
        members = members_of(field.type)
        if members is None:
            return ProjectedColumn(field.with_name(name), PROJECT_ALL)
        inner = self.at(name)
        kept = [projected.field for projected in map(inner.project, members) if projected.field is not None]
        return ProjectedColumn(field.with_name(name).with_type(with_members(field.type, kept)), inner)

    def at(self, name: str) -> "ListFilter":
        """Return the filter for the members of a column."""
        path = self.wanted.find(name)
        wanted = NOTHING if path is None else ProjectionList.of_members(path)
        return ListFilter(wanted, self.context, f"{self.prefix}{quote_name(name)}.")


def check_consistent(path: ProjectedPath, type_: pa.DataType, prefix: str, context: ErrorContext) -> None:
    """Check that the type of a column matches its path, at every depth.

    Args:
        path: The part of the column that is selected.
        type_: The type of the column.
        prefix: The path of the enclosing maps. See :class:`ListFilter`.
        context: The source that the reader is reading. Error messages include it.

    Raises:
        ProjectionError: If the type does not match. See the table of this module.
    """
    problem = _index_problem(path, type_) or _member_problem(path, _indexed_type(path, type_))
    if problem:
        raise ProjectionError(
            f"{context}column '{prefix}{quote_name(path.name)}' has type {type_name(type_)} here, {problem}, but the "
            f"query selects {prefix}{path}. Select the whole column, or scan only files in which the column has a "
            "suitable type."
        )
    if path.is_map:
        _check_inside(path, _indexed_type(path, type_), f"{prefix}{quote_name(path.name)}.", context)


def _index_problem(path: ProjectedPath, type_: pa.DataType) -> str:
    for _ in range(path.dimensions):
        if _may_be_anything(type_):
            break
        if pt.is_struct(type_):
            return "a map without indexes"
        if pt.is_map(type_) and not pt.is_integer(type_.key_type):
            return "a dict whose keys are not integers"
        if not is_any_list(type_) and not pt.is_map(type_):
            return "which has no elements" if type_.num_fields == 0 else "which has no index"
        type_ = _value_type(type_)
    return ""


def _member_problem(path: ProjectedPath, type_: pa.DataType) -> str:
    inner = innermost(type_)
    if not path.is_map or _may_be_anything(inner) or pt.is_struct(inner):
        return ""
    if pt.is_map(inner):
        has_text_keys = is_text(inner.key_type) or pt.is_string_view(inner.key_type)
        return "" if has_text_keys else "a dict whose keys are not text"
    return "an array of elements without members" if is_any_list(type_) else "which has no members"


def _check_inside(path: ProjectedPath, type_: pa.DataType, prefix: str, context: ErrorContext) -> None:
    """Check the members of a map, or the values of a dict, against their paths."""
    inner, members = innermost(type_), members_of(type_)
    for member_path in path.members:
        member = None if members is None else members.find(member_path.name)
        if member is not None:
            check_consistent(member_path, member.type, prefix, context)
        elif pt.is_map(inner):
            check_consistent(member_path, inner.item_type, prefix, context)


def _indexed_type(path: ProjectedPath, type_: pa.DataType) -> pa.DataType:
    """Return the type of the elements or values that the indexes of a path select.

    The type must match the path.
    """
    for _ in range(path.dimensions):
        type_ = _value_type(type_)
    return type_


def _value_type(type_: pa.DataType) -> pa.DataType:
    if is_any_list(type_):
        return type_.value_type
    return type_.item_type if pt.is_map(type_) else type_


def _may_be_anything(type_: pa.DataType) -> bool:
    return bool(pt.is_null(type_) or pt.is_union(type_))
