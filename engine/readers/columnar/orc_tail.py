"""What the tail of an ORC file says about its types, read before Arrow makes types of it.

Why it exists: Arrow ends the process at a decimal type of more digits than it has, instead of raising an error.

Source: orc_proto.proto of the ORC format: ``FileTail.footer``, ``Footer.types``, ``Type.kind``, ``Type.precision``.
"""

from collections.abc import Iterator

_FOOTER, _TYPES, _KIND, _PRECISION = 2, 4, 1, 5
_DECIMAL = 14
_VARINT, _FIXED_64, _BYTES = 0, 1, 2


def decimal_digits(tail: bytes) -> int:
    """The most digits that a decimal type of the file has; 0 if there is none.

    Args:
        tail: As ORC's own library has read and written it again, so that it is well-formed.
    """
    footer = _message(tail, _FOOTER)
    types = (dict(_fields(value)) for number, value in _fields(footer) if number == _TYPES and isinstance(value, bytes))
    digits = (one.get(_PRECISION, 0) for one in types if one.get(_KIND) == _DECIMAL)
    return max((one for one in digits if isinstance(one, int)), default=0)


def _message(data: bytes, wanted: int) -> bytes:
    return next((value for number, value in _fields(data) if number == wanted and isinstance(value, bytes)), b"")


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message of Protocol Buffers, each with its number."""
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
    """The number that begins there, and where it ends."""
    number = shift = 0
    while True:
        byte = message[position]
        number |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return number, position
