"""Searches in a block of bytes that is stored as a numpy array.

A block of text is searched several times before it is parsed. On a numpy array, each search is a single pass at memory
speed. A ``bytes`` object would be copied for each slice, and it counts frequent characters slowly.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ByteArray = np.ndarray[Any, np.dtype[np.uint8]]

LINE_FEED = 10
CARRIAGE_RETURN = 13

_STEP_BYTES = 64 * 1024


def as_byte_array(data: bytes) -> ByteArray:
    """Return a read-only view of the bytes."""
    return np.frombuffer(data, np.uint8)


def allocate(size_bytes: int) -> ByteArray:
    """Allocate writable memory from Arrow's memory pool.

    The pool reuses freed memory faster than the operating system does.
    """
    return np.frombuffer(pa.allocate_buffer(size_bytes), np.uint8)


def count(data: ByteArray, byte: int) -> int:
    """Return the number of occurrences of a byte."""
    return int(np.count_nonzero(data == byte))


def find(data: ByteArray, byte: int, start: int = 0) -> int:
    """Return the first index of a byte at or after ``start``, or -1 if there is none."""
    while start < len(data):
        found = data[start : start + _STEP_BYTES].tobytes().find(byte)
        if found >= 0:
            return start + found
        start += _STEP_BYTES
    return -1


def find_last(data: ByteArray, byte: int) -> int:
    """Return the last index of a byte, or -1 if there is none."""
    end = len(data)
    while end > 0:
        start = max(end - _STEP_BYTES, 0)
        found = data[start:end].tobytes().rfind(byte)
        if found >= 0:
            return start + found
        end = start
    return -1


def matches(data: ByteArray, pattern: str) -> bool:
    """Return whether a part of the bytes matches a regular expression.

    Arrow searches faster than Python.
    """
    offsets = np.array([0, len(data)], np.int32)
    whole = pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return bool(pc.match_substring_regex(whole, pattern)[0].as_py())


def contains(data: ByteArray, byte: int) -> bool:
    """Return whether the data contains a byte."""
    return bool((data == byte).any())


def contains_pair(data: ByteArray, first: int, second: int) -> bool:
    """Return whether the data contains ``first`` directly followed by ``second``."""
    return bool(((data[:-1] == first) & (data[1:] == second)).any())


def contains_zero(data: ByteArray) -> bool:
    """Return whether the data contains a zero byte."""
    return bool(len(data)) and int(data.min()) == 0


def is_ascii(data: ByteArray) -> bool:
    """Return whether all bytes are ASCII characters."""
    return not len(data) or int(data.max()) < 128


def is_utf_8(data: ByteArray) -> bool:
    """Return whether the bytes are valid UTF-8."""
    if is_ascii(data):
        return True
    try:
        data.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return True
