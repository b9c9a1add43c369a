"""The schema of many files at once: the schema commit point of discovery.

A scan that is split over many tasks cannot let its first reader decide. It looks at the schemas of all files
beforehand, and this is what they have in common; each task then has it as its defined schema.

Guarantees:

1. Columns stand in the order in which they first appear, in the letter case of that file.
2. Each has the narrowest type that holds the values of all files, see :mod:`engine.schema_tracker.widening`, and is
   nullable if it is so in one of them, or if one lacks it. The order of the files does not matter for that.
3. A conflict names the column, or the member of it, the file that is at odds with those before it, and both types.
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
    """The schema that can hold every file's.

    Args:
        schemas: Each with the file that it is of.

    Raises:
        SchemaConflictError: Two files have types without a common one.
        DuplicateColumnError: Two members of one map differ by letter case alone.
    """
    columns: dict[str, pa.Field] = {}
    counts: dict[str, int] = {}
    files = 0
    for schema, context in schemas:
        files += 1
        for field in schema:
            name = fold_case(field.name)
            counts[name] = counts.get(name, 0) + 1
            columns[name] = _common(columns[name], field, context) if name in columns else field
    return TupleSchema(field.with_nullable(field.nullable or counts[name] < files) for name, field in columns.items())


def _common(seen: pa.Field, offered: pa.Field, context: ErrorContext) -> pa.Field:
    common = common_field(seen, offered)
    if common is None:
        raise _conflict(seen, offered, quote_name(seen.name), context)
    return common


def _conflict(seen: pa.Field, offered: pa.Field, path: str, context: ErrorContext) -> SchemaConflictError:
    """Of the first member that is at odds, as deep as both are maps."""
    one, other = seen.type, offered.type
    while is_any_list(one) and is_any_list(other):
        one, other = one.value_type, other.value_type
    if pt.is_struct(one) and pt.is_struct(other):
        members = TupleSchema.of(other)
        for member in TupleSchema.of(one):
            same = members.find(member.name)
            if same is not None and common_field(member, same) is None:
                return _conflict(member, same, f"{path}.{quote_name(member.name)}", context)
    return SchemaConflictError(path, offered=offered.type, promised=seen.type, context=context)
