"""Check whether pyarrow's JSON parser can safely read a block.

pyarrow's parser terminates the process in two cases: if the first value is null instead of an object, and if values are
nested so deeply that their types overflow the stack. The parser also does not validate UTF-8.

Guarantee: a block that :func:`safe_lines` returns is UTF-8, each of its lines begins with ``{``, and no value in the
block is nested deeper than ``MAX_DEPTH``. The block may still be invalid JSON.
"""

import re

import numpy as np

from engine.readers.byte_arrays import CARRIAGE_RETURN, LINE_FEED, ByteArray, as_byte_array, contains, count, is_utf_8
from engine.readers.json_objects.values import MAX_DEPTH

_OPENING = ord("{")
_BRACE_BIT = np.uint8(ord("{") ^ ord("["))  # converts a bracket to a brace
_STRUCTURE = b'{}[]"\n'
_OTHERS = bytes(set(range(256)) - set(_STRUCTURE))
_STRING = re.compile(rb'"[^"\n]*"')
_DEPTHS = np.zeros(256, np.int64)
_DEPTHS[list(b"{[")] = 1
_DEPTHS[list(b"}]")] = -1


def safe_lines(data: ByteArray) -> ByteArray | None:
    """Return the objects without empty lines, with one or more objects on each line.

    Return None if pyarrow cannot safely read the objects.
    """
    if contains(data, CARRIAGE_RETURN):
        data = as_byte_array(data.tobytes().replace(b"\r\n", b"\n"))
        if contains(data, CARRIAGE_RETURN):  # pyarrow treats this as the end of a line
            return None
    if len(data) and data[-1] != LINE_FEED:
        data = as_byte_array(data.tobytes() + b"\n")
    if not is_utf_8(data):
        return None
    rows = _count_object_lines(data)
    if rows is None:
        lines = map(bytes.strip, data.tobytes().split(b"\n"))
        data = as_byte_array(b"".join(line + b"\n" for line in lines if line))
        rows = _count_object_lines(data)
        if rows is None:
            return None
    # Each line starts with an opening brace. The depth of a line is at most the number of all other opening characters
    # plus one.
    others = count(np.bitwise_or(data, _BRACE_BIT), _OPENING) - rows
    return data if others < MAX_DEPTH or _max_depth(data.tobytes()) <= MAX_DEPTH else None


def _count_object_lines(data: ByteArray) -> int | None:
    """Count the lines. Return None if a line does not begin with an opening brace."""
    ends = np.flatnonzero(data == LINE_FEED)
    if len(data) and not (data[0] == _OPENING and (data[ends[:-1] + 1] == _OPENING).all()):
        return None
    return len(ends)


def _max_depth(data: bytes) -> int:
    """Return an upper bound for the nesting depth of the values."""
    without_escapes = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    structure = _STRING.sub(b"", without_escapes.translate(None, _OTHERS))
    if b'"' in structure:  # a string is not closed, so the structure is unknown
        return MAX_DEPTH + 1
    levels = np.cumsum(_DEPTHS[np.frombuffer(structure, np.uint8)])
    if not len(levels):
        return 0
    return int((levels - np.minimum(np.minimum.accumulate(levels), 0)).max())
