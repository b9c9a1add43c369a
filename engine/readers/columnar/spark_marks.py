"""Marks of the columns of a file that Spark's own reader reads as the engine does.

Discovery marks these columns in the schema of the file. A gateway can therefore decide without the file who reads it.
"""

from collections.abc import Mapping

import pyarrow as pa

_READER = b"lodge.spark"


def mark(column: pa.Field, format_: str) -> pa.Field:
    """Return a column with the mark that Spark's reader of a format reads it."""
    return column.with_metadata({_READER: format_.encode()})


def is_marked(metadata: Mapping[bytes, bytes] | None, format_: str) -> bool:
    """Return whether the metadata of a column contains the mark for a format."""
    return (metadata or {}).get(_READER) == format_.encode()
