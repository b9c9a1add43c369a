"""What the tail of an ORC file says about the types of its columns, and pyarrow does not tell.

Arrow terminates the process, instead of raising an error, if a decimal type has more digits than Arrow supports. The
digits are therefore read before Arrow creates its types.

The field numbers are those of ``orc_proto.proto`` [orc-format].
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_FOOTER = 2
_TYPES, _CALENDAR = 4, 11
_KIND, _SUBTYPES, _NAMES, _LENGTH, _PRECISION = 1, 2, 3, 4, 5
_KINDS = (
    *("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "STRING", "BINARY", "TIMESTAMP"),
    *("LIST", "MAP", "STRUCT", "UNION", "DECIMAL", "DATE", "VARCHAR", "CHAR", "TIMESTAMP_INSTANT"),
)
_JULIAN_GREGORIAN, _PROLEPTIC_GREGORIAN = 1, 2
_VARINT, _FIXED_64, _BYTES = 0, 1, 2
_VARINT_BITS = 64


@dataclass(frozen=True, slots=True)
class OrcColumn:
    """A column of an ORC file, or a part of one.

    Attributes:
        name: The name. Empty for a part of a column.
        kind: The kind of the type, such as ``INT``. Empty if it is unknown.
        precision: The digits of a decimal. 0 for other types, and for decimals of Hive 0.11, which have no precision.
        length: The number of characters of a ``CHAR``. 0 for other types.
    """

    name: str
    kind: str
    precision: int
    length: int


class OrcTail:
    """The tail of an ORC file.

    Args:
        tail: The tail as serialized by the ORC library. It is therefore well-formed.
    """

    def __init__(self, tail: bytes) -> None:
        fields = list(read_fields(_first_message(tail, _FOOTER)))
        types = (each for number, each in fields if number == _TYPES)
        self._types = [list(read_fields(each)) for each in types if isinstance(each, bytes)]
        calendar = dict(fields).get(_CALENDAR)
        self.is_proleptic = calendar == _PROLEPTIC_GREGORIAN
        """Whether the file says that its dates are of the proleptic Gregorian calendar."""
        self.is_julian = calendar == _JULIAN_GREGORIAN
        """Whether the file says that its dates before 1582-10-15 are of the Julian calendar."""

    def has_unknown_types(self) -> bool:
        """Return whether a type has no kind, or one that is not known. The ORC library assumes ``BOOLEAN``."""
        kinds = (dict(fields).get(_KIND) for fields in self._types)
        return not all(isinstance(kind, int) and kind < len(_KINDS) for kind in kinds)

    def decimal_digits(self) -> int:
        """Return the highest precision of all decimal types, or 0 if there are none."""
        return max((_to_column("", fields).precision for fields in self._types), default=0)

    def types(self) -> Sequence[OrcColumn]:
        """Return the types of the rows, of the columns and of their parts. A part follows what it is in."""
        return [_to_column("", fields) for fields in self._types]

    def columns(self) -> Sequence[OrcColumn]:
        """Return the columns of the file. Empty if the file does not contain rows of a struct."""
        root = self._types[0] if self._types else []
        names = [each.decode() for number, each in root if number == _NAMES and isinstance(each, bytes)]
        numbers = [
            found
            for number, each in root
            if number == _SUBTYPES
            for found in (_varints(each) if isinstance(each, bytes) else [each])
        ]
        return [_to_column(name, self._types[number]) for name, number in zip(names, numbers, strict=False)]


def _first_message(data: bytes, wanted: int) -> bytes:
    return next((each for number, each in read_fields(data) if number == wanted and isinstance(each, bytes)), b"")


def _to_column(name: str, fields: Sequence[tuple[int, int | bytes]]) -> OrcColumn:
    found = dict(fields)
    number, precision, length = (found.get(key, 0) for key in (_KIND, _PRECISION, _LENGTH))
    kind = _KINDS[number] if isinstance(number, int) and number < len(_KINDS) else ""
    digits = precision if kind == "DECIMAL" and isinstance(precision, int) else 0
    characters = length if kind == "CHAR" and isinstance(length, int) else 0
    return OrcColumn(name, kind, digits, characters)


def read_fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a Protocol Buffers message with their numbers [protobuf-encoding]."""
    position = 0
    while position < len(message):
        tag, position = read_varint(message, position)
        kind = tag & 7
        if kind == _VARINT:
            number, position = read_varint(message, position)
            yield tag >> 3, number
            continue
        if kind == _BYTES:
            length, position = read_varint(message, position)
        else:
            length = 8 if kind == _FIXED_64 else 4
        yield tag >> 3, message[position : position + length]
        position += length


def _varints(packed: bytes) -> Iterator[int]:
    position = 0
    while position < len(packed):
        number, position = read_varint(packed, position)
        yield number


def read_varint(message: bytes, position: int) -> tuple[int, int]:
    """Return the varint that begins at a position, and the position after the varint.

    Raises:
        IndexError: If the message ends before, or the varint has more than 64 bits.
    """
    number = 0
    for shift in range(0, _VARINT_BITS, 7):
        byte = message[position]
        number |= (byte & 127) << shift
        position += 1
        if byte < 128:
            return number, position
    raise IndexError("The varint has more than 64 bits.")
