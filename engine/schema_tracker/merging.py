"""The common schema of many files, which discovery decides before a scan starts.

A scan that is split into tasks cannot let its first reader decide the schema. So discovery reads the schemas of all
files, and merges them. Each task then gets the result as its defined schema.

Guarantees:

1. Columns are in the order of their first appearance, in the letter case of that file.
2. Each column has the narrowest type that holds the values of all files, see :mod:`engine.schema_tracker.widening`.
   It is nullable if it is nullable in any file, or if a file lacks it. The order of the files does not matter for that.
3. A conflict names the column or member, the file that conflicts with earlier ones, and both types.
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
    """Return the schema that holds the rows of all files.

    Args:
        schemas: The schema of each file, with the file as context.

    Raises:
        SchemaConflictError: If two files have types without a common one.
        DuplicateColumnError: If two members of one map differ by letter case alone.
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
    """Return the error for the innermost member that conflicts."""
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
