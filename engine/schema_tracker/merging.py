"""The common schema of several files, which discovery determines before a scan starts.

If a scan is split into tasks, the schema cannot depend on the first reader. Therefore discovery reads the schemas of
all files and merges them. Each task then uses the merged schema as its defined schema.

Guarantees:

1. Columns are in the order of their first appearance. Each name has the case that it has in that file.
2. Each column has the narrowest type that can represent the values of all files. See
   :mod:`engine.schema_tracker.widening`. A column is nullable if it is nullable in any file, or missing in any file.
   The order of the files does not affect types and nullability.
3. The error for a conflict contains the column or member, the file that conflicts with earlier files, and both types.
"""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.types as pt

from engine.arrow_types import is_any_list
from engine.context import ErrorContext
from engine.errors import SchemaConflictError
from engine.projection.path import quote_name
from engine.schema import TupleSchema, fold_case
from engine.schema_tracker.widening import common_field


def merge_schemas(schemas: Iterable[tuple[TupleSchema, ErrorContext]]) -> TupleSchema:
    """Return a schema that can represent the rows of all files.

    Args:
        schemas: The schema of each file, with the file as context.

    Raises:
        SchemaConflictError: If the types in two files have no common type.
        DuplicateColumnError: If the names of two members of a map are equal when case is ignored.
    """
    columns: dict[str, pa.Field] = {}
    counts: dict[str, int] = {}
    files = 0
    for schema, context in schemas:
        files += 1
        for field in schema:
            name = fold_case(field.name)
            counts[name] = counts.get(name, 0) + 1
            columns[name] = _merge_field(columns[name], field, context) if name in columns else field
    return TupleSchema(field.with_nullable(field.nullable or counts[name] < files) for name, field in columns.items())


def _merge_field(known: pa.Field, offered: pa.Field, context: ErrorContext) -> pa.Field:
    common = common_field(known, offered)
    if common is None:
        raise _conflict(known, offered, quote_name(known.name), context)
    return common


def _conflict(known: pa.Field, offered: pa.Field, path: str, context: ErrorContext) -> SchemaConflictError:
    """Create the error for the innermost member that conflicts."""
    one, other = known.type, offered.type
    while is_any_list(one) and is_any_list(other):
        one, other = one.value_type, other.value_type
    if pt.is_struct(one) and pt.is_struct(other):
        members = TupleSchema.of(other)
        for member in TupleSchema.of(one):
            same = members.find(member.name)
            if same is not None and common_field(member, same) is None:
                return _conflict(member, same, f"{path}.{quote_name(member.name)}", context)
    return SchemaConflictError(path, offered=offered.type, promised=known.type, context=context)
