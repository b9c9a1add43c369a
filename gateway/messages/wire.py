"""Indexes the top-level fields of an encoded message.

Lodge and Spark read the same bytes with different decoders. Decoders agree only on canonical bytes. For example,
protobuf-java reads 32 bits of a tag, and other decoders read 64. Therefore this module accepts only bytes that have one
meaning, and refuses everything else.

Guarantees:

1. If an index is returned, every protobuf decoder that accepts the bytes finds the same top-level fields.
2. Reading takes linear time in the number of fields, regardless of their lengths. A caller that passes ``max_fields``
   bounds it.
3. Nothing is copied.

Not guaranteed: the contents of the fields may be invalid. Other decoders may refuse bytes that this module accepts.

Source: [protobuf-encoding].
"""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from gateway.errors import invalid_request

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {FIXED64: 8, FIXED32: 4}
_MAX_TAG = 2**32 - 1
_MAX_TAG_BYTES = 5
_MAX_VARINT_BYTES = 10
_MAX_VARINT = 2**64 - 1
MAX_DEPTH = 4096
"""How deeply the messages of a plan may be nested. Spark accepts 1,024 levels by default."""


class Field(NamedTuple):
    """A field of an encoded message.

    Attributes:
        number: The field number.
        wire_type: ``VARINT``, ``FIXED64``, ``LENGTH`` or ``FIXED32``.
        tag_start: Offset of the tag.
        length_start: Offset after the tag. For ``LENGTH`` fields, the length begins here.
        start: Offset of the first byte of the value.
        end: Offset after the last byte of the value.
    """

    number: int
    wire_type: int
    tag_start: int
    length_start: int
    start: int
    end: int


_new = tuple.__new__  # faster than calling the class


def read_fields(data: bytes, start: int = 0, end: int | None = None, *, max_fields: int | None = None) -> list[Field]:
    """Return the fields of the message between two offsets, in order.

    Args:
        data: The bytes that contain the message.
        start: Offset of the message.
        end: Offset after the message. None for the end of the bytes.
        max_fields: The maximum number of fields. None for no limit.

    Raises:
        GatewayError: If the bytes are not an encoded message, are not canonical, or contain too many fields.
    """
    fields: list[Field] = []
    position = start
    end = len(data) if end is None else end
    while position < end:
        if len(fields) == max_fields:
            raise invalid_request(f"a message has more than {max_fields:,} fields")
        tag_start = position
        tag = data[position]
        if tag < 0x80:
            position += 1
        else:
            tag, position = _read_varint(data, position, end, _MAX_TAG_BYTES, _MAX_TAG)
        number, wire_type = tag >> 3, tag & 7
        if number == 0:
            raise invalid_request("a field has the number 0")
        length_start = value_start = position
        if wire_type == LENGTH:
            if position < end and data[position] < 0x80:
                value_start = position + 1
                position = value_start + data[position]
            else:
                length, value_start = _read_varint(data, position, end, _MAX_TAG_BYTES, _MAX_TAG)
                position = value_start + length
            if position > end:
                raise invalid_request(f"field {number} ends after its message")
        else:
            position = _skip_number(data, number, wire_type, position, end)
        fields.append(_new(Field, (number, wire_type, tag_start, length_start, value_start, position)))
    return fields


def count_fields(data: bytes, kind: Descriptor, maximum: int) -> int:
    """Return the number of fields in a message and in the messages that it contains.

    A message that is nested more deeply than :data:`MAX_DEPTH` counts as one field. So do eight packed values.

    Raises:
        GatewayError: If there are more fields than the maximum, or the bytes are not canonical.
    """
    count, position, end = 0, 0, len(data)
    known = _known_fields(kind)
    outer: list[tuple[int, Mapping[int, Descriptor | None]]] = []
    while True:
        while position >= end:
            if not outer:
                return count
            end, known = outer.pop()
        count += 1
        tag, position = _read_varint(data, position, end, _MAX_TAG_BYTES, _MAX_TAG)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == LENGTH:
            length, position = _read_varint(data, position, end, _MAX_TAG_BYTES, _MAX_TAG)
            if position + length > end:
                raise invalid_request(f"field {number} ends after its message")
            child = known.get(number)
            if child is None or len(outer) >= MAX_DEPTH:
                count += length // 8 if number in known and child is None else 0
                position += length
            else:
                outer.append((end, known))
                end, known = position + length, _known_fields(child)
        else:
            position = _skip_number(data, number, wire_type, position, end)
        if count > maximum:
            raise invalid_request(f"a message has more than {maximum:,} fields")


def encode_varint(number: int) -> bytes:
    """Encode a number as a variable-length integer."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def encode_field(number: int, value: bytes) -> bytes:
    """Encode a ``LENGTH`` field."""
    return encode_varint(number << 3 | LENGTH) + encode_varint(len(value)) + value


def _read_varint(data: bytes, position: int, end: int, max_bytes: int, maximum: int) -> tuple[int, int]:
    """Return a number and the offset after it.

    Raises:
        GatewayError: If the number is truncated, too large, or longer than necessary.
    """
    result = 0
    if position < end and data[position] < 0x80:
        return data[position], position + 1
    for index in range(max_bytes):
        if position + index >= end:
            raise invalid_request("the request is truncated")
        byte = data[position + index]
        result |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            if (byte == 0 and index > 0) or result > maximum:
                break
            return result, position + index + 1
    raise invalid_request("a number is not encoded in its shortest form, or is too large")


def _skip_number(data: bytes, number: int, wire_type: int, position: int, end: int) -> int:
    """Return the offset after a number."""
    if wire_type == VARINT:
        return _read_varint(data, position, end, _MAX_VARINT_BYTES, _MAX_VARINT)[1]
    if wire_type not in _FIXED_BYTES:
        raise invalid_request(f"field {number} has the unsupported wire type {wire_type}")
    if position + _FIXED_BYTES[wire_type] > end:
        raise invalid_request(f"field {number} ends after its message")
    return position + _FIXED_BYTES[wire_type]


@cache
def _known_fields(kind: Descriptor) -> Mapping[int, Descriptor | None]:
    """Return the fields of a message that contain messages, or packed numbers (None)."""
    return {
        field.number: field.message_type
        for field in kind.fields
        if field.message_type is not None or (field.is_repeated and field.cpp_type != FieldDescriptor.CPPTYPE_STRING)
    }
