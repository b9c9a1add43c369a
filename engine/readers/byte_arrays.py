"""Bytes as an array of numbers, looked through without a copy.

Why it exists: a block of text is looked at several times before it is parsed. On an array each look is one pass at the
speed of memory; ``bytes`` would have to be copied at each cut, and count frequent characters slowly.
"""

from typing import Any

import numpy as np
import pyarrow as pa

Codes = np.ndarray[Any, np.dtype[np.uint8]]
"""One number a byte."""

LINE_FEED = 10
CARRIAGE_RETURN = 13

_STEP_BYTES = 64 * 1024


def codes_of(data: bytes) -> Codes:
    return np.frombuffer(data, np.uint8)


def new_codes(size_bytes: int) -> Codes:
    """Memory to write to, of Arrow's pool: that keeps what was used before at hand, the system takes it back."""
    return np.frombuffer(pa.allocate_buffer(size_bytes), np.uint8)


def count(codes: Codes, code: int) -> int:
    return int(np.count_nonzero(codes == code))


def find(codes: Codes, code: int, start: int = 0) -> int:
    """Where the first one is, from ``start`` on; -1 if there is none."""
    while start < len(codes):
        found = codes[start : start + _STEP_BYTES].tobytes().find(code)
        if found >= 0:
            return start + found
        start += _STEP_BYTES
    return -1


def find_last(codes: Codes, code: int) -> int:
    """Where the last one is; -1 if there is none."""
    end = len(codes)
    while end > 0:
        start = max(end - _STEP_BYTES, 0)
        found = codes[start:end].tobytes().rfind(code)
        if found >= 0:
            return start + found
        end = start
    return -1


def has(codes: Codes, code: int) -> bool:
    return bool((codes == code).any())


def has_pair(codes: Codes, first: int, second: int) -> bool:
    """Whether the one ever stands before the other."""
    return bool(((codes[:-1] == first) & (codes[1:] == second)).any())


def has_zero(codes: Codes) -> bool:
    return bool(len(codes)) and int(codes.min()) == 0


def is_ascii(codes: Codes) -> bool:
    return not len(codes) or int(codes.max()) < 128
