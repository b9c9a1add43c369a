"""Types of missing columns, which are columns of the scan that a file does not contain.

A missing column can also be a member of a map. See [scan-schema-tracker "Missing Columns"], and level 2 of
[scan-framework].
"""

import pyarrow as pa

from engine.arrow_types import resolve_late
from engine.schema import TupleSchema, is_late, type_of_nulls


def resolve_missing_types(missing: TupleSchema, default: pa.DataType) -> TupleSchema:
    """Replace the LATE types of missing columns with the type that their file says, or with the default type.

    Columns that were LATE become nullable.
    """
    return TupleSchema(
        resolve_late(field.with_nullable(True) if is_late(field) else field, lambda one: type_of_nulls(one) or default)
        for field in missing
    )
