"""Decimal types in the tail of an ORC file, read before Arrow creates its types.

This check is necessary because Arrow terminates the process, instead of raising an error, if a decimal type has more
digits than Arrow supports.

The field numbers are those of ``orc_proto.proto``: ``FileTail.footer``, ``Footer.types``, ``Type.kind``,
``Type.precision``.
"""

from collections.abc import Iterator

_FOOTER, _TYPES, _KIND, _PRECISION = 2, 4, 1, 5
_DECIMAL = 14
_VARINT, _FIXED_64, _BYTES = 0, 1, 2


def decimal_digits(tail: bytes) -> int:
    """Return the highest precision of the file's decimal types, or 0 if there are none.

    Args:
        tail: The tail as serialized by the ORC library. It is therefore well-formed.
    """
    footer = _message(tail, _FOOTER)
    types = (dict(_fields(value)) for number, value in _fields(footer) if number == _TYPES and isinstance(value, bytes))
    digits = (one.get(_PRECISION, 0) for one in types if one.get(_KIND) == _DECIMAL)
    return max((one for one in digits if isinstance(one, int)), default=0)


def _message(data: bytes, wanted: int) -> bytes:
    return next((value for number, value in _fields(data) if number == wanted and isinstance(value, bytes)), b"")


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a Protocol Buffers message with their numbers [protobuf-encoding]."""
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        kind = tag & 7
        if kind == _VARINT:
            number, position = _varint(message, position)
            yield tag >> 3, number
            continue
        if kind == _BYTES:
            length, position = _varint(message, position)
        else:
            length = 8 if kind == _FIXED_64 else 4
        yield tag >> 3, message[position : position + length]
        position += length


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """Return the varint that begins at a position, and the position after the varint."""
    number = shift = 0
    while True:
        byte = message[position]
        number |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return number, position
