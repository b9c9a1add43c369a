"""Finds JSON lines that would need many cells for few values.

The objects in an array become tuples, and each tuple has a cell for each name of any of the objects. If each object has
another name, 200 KB need gigabytes of memory and minutes.
"""

import re

from engine.readers.byte_arrays import ByteArray, count

MAX_CELLS = 8 * 1024 * 1024
"""The number of cells that are parsed at once."""

LONG_LINE_BYTES = 64 * 1024
"""A shorter line cannot have so many objects and names that it is harmful."""

_CELLS_OF_VALUE = 50
_LEAST_OBJECT_BYTES = 8
_STRING = re.compile(rb'"((?:[^"\\]|\\.)*+)(?:"(\s*+:)?+|\\?+\Z)', re.DOTALL)
"""A whole string, so that no search begins within it, and whether it is a name."""

_OPENING, _COLON = ord("{"), ord(":")


def is_sparse(data: ByteArray, names: int) -> bool:
    """Return whether JSON objects with this many names have more than `MAX_CELLS` cells, and nearly all are empty."""
    if len(data) // _LEAST_OBJECT_BYTES * names <= MAX_CELLS:
        return False
    cells = count(data, _OPENING) * names
    return cells > MAX_CELLS and cells > _CELLS_OF_VALUE * count(data, _COLON)


def count_names(line: ByteArray) -> int:
    """Return the number of different names in a line, at any depth."""
    return len({match[1] for match in _STRING.finditer(line.tobytes()) if match[2]})
