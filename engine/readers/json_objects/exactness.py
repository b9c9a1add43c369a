"""Whether pyarrow may have rounded integers when it made doubles of them."""

import re

import pyarrow as pa
import pyarrow.compute as pc

from engine.readers.codes import Codes

_EXACT_UP_TO = 2.0**53
_LONG_INTEGER = re.compile(rb"[:\[,]\s*-?\d{16,}\s*[,}\]]")


def may_lose_digits(table: pa.Table, data: Codes) -> bool:
    """Whether ``data``, from which ``table`` was parsed, may have an integer that no double can hold.

    Never False if there is one in a column of doubles; True perhaps without need.
    """
    return any(_has_large(column) for column in table.columns) and _LONG_INTEGER.search(data.data) is not None


def _has_large(column: pa.ChunkedArray) -> bool:
    """Whether a double in the column, or inside it, is so large that not every integer near it is a double."""
    type_ = column.type
    if pa.types.is_struct(type_):
        flat = column.flatten()
        return any(_has_large(member) for member in flat)
    if pa.types.is_list(type_):
        return _has_large(pc.list_flatten(column))
    if not pa.types.is_float64(type_):
        return False
    smallest, largest = pc.min_max(column).values()
    return _is_large(smallest.as_py()) or _is_large(largest.as_py())


def _is_large(value: float | None) -> bool:
    return value is not None and not abs(value) < _EXACT_UP_TO
