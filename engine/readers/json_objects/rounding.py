"""Whether pyarrow may have rounded integers when it made floats or doubles of them."""

import re

import pyarrow as pa
import pyarrow.compute as pc

from engine.readers.byte_arrays import Codes

_EXACT_UP_TO = {pa.float32(): 2.0**24, pa.float64(): 2.0**53}
_LONG_INTEGER = re.compile(rb"[:\[,]\s*-?\d{16,}\s*[,}\]]")


def may_have_rounded(table: pa.Table, data: Codes) -> bool:
    """Whether ``data``, from which ``table`` was parsed, may have a number that its column cannot hold.

    Never False if there is an integer that is no double in a column of doubles, or likewise of floats, or a number
    that is too large for a float; True perhaps without need.
    """
    if any(_has_large(column, pa.float32()) for column in table.columns):
        return True
    has_doubles = any(_has_large(column, pa.float64()) for column in table.columns)
    return has_doubles and _LONG_INTEGER.search(data.data) is not None


def _has_large(column: pa.ChunkedArray, of: pa.DataType) -> bool:
    """Whether a number of that type, in the column or inside it, is so large that not every integer near it is one."""
    type_ = column.type
    if pa.types.is_struct(type_):
        flat = column.flatten()
        return any(_has_large(member, of) for member in flat)
    if pa.types.is_list(type_):
        return _has_large(pc.list_flatten(column), of)
    if not type_.equals(of):
        return False
    smallest, largest = pc.min_max(column).values()
    return any(one is not None and not abs(one) < _EXACT_UP_TO[of] for one in (smallest.as_py(), largest.as_py()))
