"""Columns that a reader lacks, and what stands in their place: also members of a map that it has.

Source: seed 002, "Missing Columns"; seed 004, "Null columns" and level 2.
"""

import pyarrow as pa

from engine.arrow_types import resolve_late
from engine.schema import TupleSchema, is_late


def resolve_missing_types(missing: TupleSchema, default: pa.DataType) -> TupleSchema:
    """The columns with the default type wherever theirs is LATE, also inside maps; those are nullable."""
    return TupleSchema(
        resolve_late(field.with_nullable(True) if is_late(field) else field, lambda _: default) for field in missing
    )
