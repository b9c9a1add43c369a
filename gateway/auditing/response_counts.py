"""Reads the number of rows from an encoded ``ExecutePlanResponse`` without decoding its data.

The reader looks only at the tags of the fields, and skips their contents. A response has few fields, so its size does
not matter. A backend is trusted: if a response is not encoded as expected, nothing is counted.

Source: [spark-connect-proto base.proto], message ``ExecutePlanResponse``; [protobuf-encoding].
"""

from typing import NamedTuple

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_MAX_FIELDS = 32
_ARROW_BATCH, _RESULT_COMPLETE = 2, 14
_ROW_COUNT, _START_OFFSET, _CHUNK_INDEX = 1, 3, 4


class ResponseCounts(NamedTuple):
    """What a response adds to the result of a statement.

    Attributes:
        rows: The number of rows in the response.
        rows_until: The number of rows in the result up to the end of this response. None if it is not known.
        is_complete: Whether this is the last response of an operation.
    """

    rows: int = 0
    rows_until: int | None = None
    is_complete: bool = False


_NOTHING = ResponseCounts()
_COMPLETE = ResponseCounts(is_complete=True)


def read_counts(response: bytes) -> ResponseCounts:
    """Return the counts of an encoded response."""
    try:
        return _read_response(response)
    except (IndexError, ValueError):
        return _NOTHING


def _read_response(data: bytes) -> ResponseCounts:
    position, end = 0, len(data)
    for _ in range(_MAX_FIELDS):
        if position >= end:
            break
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if number == _RESULT_COMPLETE:
            return _COMPLETE
        value, position = _skip(data, position, wire)
        if number == _ARROW_BATCH:
            return _read_batch(data, position - value, position)
    return _NOTHING


def _read_batch(data: bytes, position: int, end: int) -> ResponseCounts:
    found = {_ROW_COUNT: 0, _CHUNK_INDEX: 0}
    for _ in range(_MAX_FIELDS):
        if position >= end:
            break
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        value, position = _skip(data, position, wire)
        if wire == _VARINT:
            found[number] = value
    rows = 0 if found[_CHUNK_INDEX] else found[_ROW_COUNT]  # each chunk of a batch contains the rows of the batch
    offset = found.get(_START_OFFSET)
    return ResponseCounts(rows, None if offset is None else offset + found[_ROW_COUNT])


def _skip(data: bytes, position: int, wire: int) -> tuple[int, int]:
    """Return the value or the length of a field, and the position after the field."""
    if wire == _VARINT:
        return _varint(data, position)
    if wire == _LENGTH:
        length, position = _varint(data, position)
        return length, position + length
    if wire == _FIXED64:
        return 8, position + 8
    if wire == _FIXED32:
        return 4, position + 4
    raise ValueError(f"The wire type {wire} is not supported.")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    if byte < 0x80:
        return byte, position + 1
    value, shift = byte & 0x7F, 7
    while shift < 64:
        position += 1
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
        shift += 7
    raise ValueError("A varint has more than 10 bytes.")
