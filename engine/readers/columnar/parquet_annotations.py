"""The annotations of a Parquet schema that pyarrow does not show.

pyarrow shows a ``VARIANT`` as a struct, and does not read an ``INTERVAL``. The annotations are therefore read from the
footer, a ``FileMetaData`` whose second field is the list of schema elements.

Source: [parquet-format], ``SchemaElement``, ``ConvertedType`` and ``LogicalType``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from engine.readers.columnar.orc_tail import read_varint

_UNSUPPORTED_LOGICAL: Final = {16: "VARIANT", 17: "GEOMETRY", 18: "GEOGRAPHY"}
_UNSUPPORTED_CONVERTED: Final = {21: "INTERVAL"}

_SCHEMA: Final = 2
_NAME, _CHILDREN, _CONVERTED, _LOGICAL = 4, 5, 6, 10
_BOOLEANS = frozenset({1, 2})
_LONG_LIST = 15
_INTERVAL_BYTES = 12
_MAX_DEPTH = 64


@dataclass(frozen=True, slots=True)
class _Element:
    """An element of the schema, in the order of the file: parents before their children."""

    name: str
    children: int
    unsupported: str


def may_be_unsupported(schema: Any) -> bool:
    """Return whether a schema may contain such a type, by what pyarrow shows. Otherwise, the footer is not read again.

    A ``VARIANT`` is a group with a member ``metadata``.

    Args:
        schema: The schema of the file, a ``pyarrow.parquet.ParquetSchema``.
    """
    leaves = (schema.column(number) for number in range(len(schema)))
    return any(
        leaf.path.endswith(".metadata") or leaf.length == _INTERVAL_BYTES or str(leaf.logical_type).startswith("Geo")
        for leaf in leaves
    )


def find_unsupported(footer: bytes) -> Mapping[str, str]:
    """Return the columns with a type that no reader of the engine knows, and the names of these types.

    Args:
        footer: The ``FileMetaData``, as in the file. pyarrow has decoded it before.

    Raises:
        ArrowInvalid: If the schema in the footer cannot be decoded.
    """
    try:
        return _find_unsupported(footer)
    except IndexError as error:
        raise pa.ArrowInvalid(str(error)) from error


def _find_unsupported(footer: bytes) -> Mapping[str, str]:
    elements = [_to_element(fields) for fields in _read_schema(footer)]
    found: dict[str, str] = {}
    position = 1
    for _ in range(elements[0].children if elements else 0):
        end = _end_of(elements, position)
        types = [each.unsupported for each in elements[position:end] if each.unsupported]
        if types:
            found[elements[position].name] = types[0]
        position = end
    return found


def _end_of(elements: Sequence[_Element], position: int) -> int:
    """Return the position after an element and all elements below it."""
    pending = 1
    while pending and position < len(elements):
        pending += elements[position].children - 1
        position += 1
    return position


def _to_element(fields: Mapping[int, object]) -> _Element:
    name, children = fields.get(_NAME), fields.get(_CHILDREN)
    logical = fields.get(_LOGICAL)
    kinds = list(logical) if isinstance(logical, dict) else []
    unsupported = [_UNSUPPORTED_LOGICAL[kind] for kind in kinds if kind in _UNSUPPORTED_LOGICAL]
    unsupported += [text for kind, text in _UNSUPPORTED_CONVERTED.items() if fields.get(_CONVERTED) == kind]
    return _Element(
        name.decode(errors="replace") if isinstance(name, bytes) else "",
        children if isinstance(children, int) else 0,
        unsupported[0] if unsupported else "",
    )


def _read_schema(footer: bytes) -> Sequence[Mapping[int, object]]:
    reader = _Compact(footer)
    for number, kind in reader.fields():
        if number == _SCHEMA:
            found = reader.value(kind)
            return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
        reader.value(kind)
    return []


class _Compact:
    """A reader of Thrift's compact protocol.

    Args:
        data: The encoded struct.

    Raises:
        IndexError: If the data ends too early, or is nested too deeply.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """Yield the number and the kind of each field. The caller reads the value before the next field."""
        number = 0
        while True:
            header = self._byte()
            if header == 0:
                return
            delta = header >> 4
            number = number + delta if delta else self._integer()
            yield number, header & 15

    def value(self, kind: int, depth: int = 0) -> object:
        """Read a value. Values that no annotation has are None."""
        if depth > _MAX_DEPTH:
            raise IndexError("The footer is nested too deeply.")
        match kind:
            case 1 | 2:  # true or false
                found: object = None
            case 3:
                found = self._byte()
            case 4 | 5 | 6:
                found = self._integer()
            case 7:  # a double
                found = self._bytes(8)
            case 8:
                found = self._bytes(self._varint())
            case 9 | 10:
                found = self._list(depth)
            case 12:
                found = {number: self.value(inner, depth + 1) for number, inner in self.fields()}
            case _:
                raise IndexError(f"The footer contains a value of the unknown kind {kind}.")
        return found

    def _list(self, depth: int) -> list[object]:
        header = self._byte()
        count = header >> 4
        count = self._varint() if count == _LONG_LIST else count
        return [self._element(header & 15, depth) for _ in range(count)]

    def _element(self, kind: int, depth: int) -> object:
        """Read an element of a list, in which a boolean occupies a byte."""
        return self._byte() if kind in _BOOLEANS else self.value(kind, depth + 1)

    def _byte(self) -> int:
        found = self._data[self._position]
        self._position += 1
        return found

    def _bytes(self, length: int) -> bytes:
        start, self._position = self._position, self._position + length
        if self._position > len(self._data):
            raise IndexError("The footer ends too early.")
        return self._data[start : self._position]

    def _varint(self) -> int:
        number, self._position = read_varint(self._data, self._position)
        return number

    def _integer(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)
