"""Provided schemas, in which a user declares the types of some columns.

The project list determines which columns exist. The provided schema determines the types of its columns
[scan-schema-tracker "Hybrid Schema"]. A *strict* schema contains all columns, so a wildcard selects exactly the columns
of the schema, including the members of its maps. With a *lenient* schema, the readers may add other columns.
"""

import pyarrow as pa

from engine.arrow_types import members_of
from engine.projection.path import ProjectedPath
from engine.projection.project_list import ProjectionList, ProjectionType
from engine.schema import TupleSchema, fold_case

HIDDEN_KEY = b"lodge.hidden"
"""The metadata key that hides a column from wildcards, in a provided schema or a reader's schema.

The value of the key is not used.
"""


def is_hidden(field: pa.Field | None) -> bool:
    """Return whether a wildcard excludes the column. Return False for None."""
    return field is not None and HIDDEN_KEY in (field.metadata or {})


def restrict_to_schema(wanted: ProjectionList, schema: TupleSchema) -> ProjectionList:
    """Return the project list with wildcards replaced by the columns of the schema."""
    if wanted.type is ProjectionType.ALL:
        named = {fold_case(path.name) for path in wanted.columns}
        fields = [field for field in schema if not is_hidden(field) or fold_case(field.name) in named]
        paths = [(wanted.find(field.name) or ProjectedPath(field.name), field) for field in fields]
    else:
        found = ((path, schema.find(path.name)) for path in wanted.columns)
        paths = [(path, field) for path, field in found if field is not None]
    return ProjectionList(tuple(_restrict_path(path, field) for path, field in paths))


def _restrict_path(path: ProjectedPath, field: pa.Field) -> ProjectedPath:
    members = members_of(field.type)
    if members is None:
        return path
    inner = restrict_to_schema(ProjectionList.of_members(path), members)
    return ProjectedPath(path.name, inner.columns, False, path.dimensions, path.indexes)
