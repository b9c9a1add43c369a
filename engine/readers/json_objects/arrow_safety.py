"""Whether pyarrow's JSON parser may see a block.

Why it exists: the parser ends the process at a null where the first object should be, and at values nested so deep
that its types overflow the stack; it does not check UTF-8.

Guarantees: a block that comes out of :func:`safe_lines` is UTF-8, each of its lines begins with ``{``, and no value in
it is nested deeper than ``MAX_DEPTH``, whether it is JSON or not.
"""

import re

import numpy as np

from engine.readers.byte_arrays import CARRIAGE_RETURN, LINE_FEED, Codes, codes_of, count, has, is_ascii
from engine.readers.json_objects.values import MAX_DEPTH

_OPENING = ord("{")
_BRACE_BIT = np.uint8(ord("{") ^ ord("["))  # makes a brace of a bracket
_STRUCTURE = b'{}[]"\n'
_OTHERS = bytes(set(range(256)) - set(_STRUCTURE))
_STRING = re.compile(rb'"[^"\n]*"')
_DEPTHS = np.zeros(256, np.int64)
_DEPTHS[list(b"{[")] = 1
_DEPTHS[list(b"}]")] = -1


def safe_lines(codes: Codes) -> Codes | None:
    """The same objects, one or more a line, without empty lines; None if pyarrow may not see them."""
    if has(codes, CARRIAGE_RETURN):
        codes = codes_of(codes.tobytes().replace(b"\r\n", b"\n"))
        if has(codes, CARRIAGE_RETURN):  # pyarrow would take it for the end of a line
            return None
    if len(codes) and codes[-1] != LINE_FEED:
        codes = codes_of(codes.tobytes() + b"\n")
    if not is_ascii(codes) and not _is_utf_8(codes.tobytes()):
        return None
    rows = _object_lines(codes)
    if rows is None:
        lines = map(bytes.strip, codes.tobytes().split(b"\n"))
        codes = codes_of(b"".join(line + b"\n" for line in lines if line))
        rows = _object_lines(codes)
        if rows is None:
            return None
    # Each line has one opening at its start, so no line has more than the others together, and one.
    others = count(np.bitwise_or(codes, _BRACE_BIT), _OPENING) - rows
    return codes if others < MAX_DEPTH or _depth(codes.tobytes()) <= MAX_DEPTH else None


def _object_lines(codes: Codes) -> int | None:
    """How many lines there are; None if one does not begin with an opening brace."""
    ends = np.flatnonzero(codes == LINE_FEED)
    if len(codes) and not (codes[0] == _OPENING and (codes[ends[:-1] + 1] == _OPENING).all()):
        return None
    return len(ends)


def _depth(data: bytes) -> int:
    """At least the depth of the deepest value."""
    without_escapes = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    structure = _STRING.sub(b"", without_escapes.translate(None, _OTHERS))
    if b'"' in structure:  # a string that is not closed: no telling what is inside
        return MAX_DEPTH + 1
    levels = np.cumsum(_DEPTHS[np.frombuffer(structure, np.uint8)])
    if not len(levels):
        return 0
    return int((levels - np.minimum(np.minimum.accumulate(levels), 0)).max())


def _is_utf_8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
