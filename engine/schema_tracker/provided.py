"""Provided schemas: types that a user declares for some columns, apart from what the query selects.

Seed 002, "Hybrid Schema": the project list says which columns there are, the provided schema of which type those
are that it knows. A strict one says too that there are no others: a wildcard stands for its columns, members of
maps included. A lenient one leaves others to the readers.
"""

import pyarrow as pa

from engine.arrow_types import members_of
from engine.projection.path import ProjectedPath
from engine.projection.project_list import ProjectionList, ProjectionType
from engine.schema import TupleSchema, fold_case

HIDDEN_KEY = b"lodge.hidden"
"""Metadata of a field, of a provided schema or of a reader's: any value leaves it out of what a wildcard brings."""


def is_hidden(field: pa.Field | None) -> bool:
    return field is not None and HIDDEN_KEY in (field.metadata or {})


def restrict_to_schema(wanted: ProjectionList, schema: TupleSchema) -> ProjectionList:
    """What is left of a project list if there are no columns but those of the schema: without any wildcard."""
    if wanted.type is ProjectionType.ALL:
        named = {fold_case(path.name) for path in wanted.columns}
        fields = [field for field in schema if not is_hidden(field) or fold_case(field.name) in named]
        paths = [(wanted.find(field.name) or ProjectedPath(field.name), field) for field in fields]
    else:
        found = ((path, schema.find(path.name)) for path in wanted.columns)
        paths = [(path, field) for path, field in found if field is not None]
    return ProjectionList(tuple(_closed_path(path, field) for path, field in paths))


def _closed_path(path: ProjectedPath, field: pa.Field) -> ProjectedPath:
    members = members_of(field.type)
    if members is None:
        return path
    inner = restrict_to_schema(ProjectionList.of_members(path), members)
    return ProjectedPath(path.name, inner.columns, False, path.dimensions, path.indexes)
