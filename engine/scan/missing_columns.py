"""The types of missing columns, which a reader lacks.

They may be members of a map that the reader has.

See [scan-schema-tracker "Missing Columns"], and level 2 of [scan-framework].
"""

import pyarrow as pa

from engine.arrow_types import resolve_late
from engine.schema import TupleSchema, is_late


def resolve_missing_types(missing: TupleSchema, default: pa.DataType) -> TupleSchema:
    """Return the columns with the default type in place of every LATE type.

    LATE columns become nullable.
    """
    return TupleSchema(
        resolve_late(field.with_nullable(True) if is_late(field) else field, lambda _: default) for field in missing
    )
