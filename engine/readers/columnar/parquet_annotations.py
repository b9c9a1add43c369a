"""The annotations of a Parquet schema that pyarrow does not show.

pyarrow shows a ``VARIANT`` as a struct, ``GEOMETRY``, ``GEOGRAPHY`` and ``UUID`` as bytes, and does not read an
``INTERVAL``. The annotations are therefore read from the footer, a ``FileMetaData`` whose second field is the list of
schema elements.

Source: [parquet-format], ``SchemaElement``, ``ConvertedType`` and ``LogicalType``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from engine.readers.columnar.orc_tail import read_varint

VARIANT: Final = "VARIANT"
GEOMETRY: Final = "GEOMETRY"
GEOGRAPHY: Final = "GEOGRAPHY"
UUID: Final = "UUID"
INTERVAL: Final = "INTERVAL"

_OF_LOGICAL: Final = {14: UUID, 16: VARIANT, 17: GEOMETRY, 18: GEOGRAPHY}
_CONVERTED_INTERVAL: Final = 21

_SCHEMA: Final = 2
_CHILDREN, _CONVERTED, _LOGICAL = 5, 6, 10
_CRS, _ALGORITHM = 1, 2
_SPHERICAL = 0
_BOOLEANS = frozenset({1, 2})
_LONG_LIST = 15
_INTERVAL_BYTES = 12
_MAX_DEPTH = 64


@dataclass(frozen=True, slots=True)
class Annotation:
    """An annotated group or leaf of the schema.

    Attributes:
        first: The number of its first leaf.
        end: The number after its last leaf.
        kind: The annotation.
        crs: The coordinate reference system of a geometry or geography. None for the default.
        is_spherical: Whether the edges of a geography are interpolated on a sphere.
    """

    first: int
    end: int
    kind: str
    crs: str | None = None
    is_spherical: bool = True


def may_be_annotated(schema: Any) -> bool:
    """Return whether a schema may have such annotations, by what pyarrow shows. If not, the footer is not read again.

    A ``VARIANT`` is a group with a member ``metadata``.

    Args:
        schema: The schema of the file, a ``pyarrow.parquet.ParquetSchema``.
    """
    leaves = (schema.column(number) for number in range(len(schema)))
    return any(
        leaf.path.endswith(".metadata")
        or leaf.length == _INTERVAL_BYTES
        or str(leaf.logical_type).startswith((GEOMETRY.title(), GEOGRAPHY.title(), UUID))
        for leaf in leaves
    )


def find_annotations(footer: bytes) -> Sequence[Annotation]:
    """Return the annotations in the order of the schema.

    Args:
        footer: The ``FileMetaData``, as in the file. pyarrow has decoded it before.

    Raises:
        ArrowInvalid: If the schema in the footer cannot be decoded.
    """
    try:
        elements = _read_schema(footer)
        found: list[Annotation] = []
        position, leaves = 1, 0
        while position < len(elements):
            position, leaves = _add(elements, position, leaves, found, 0)
    except IndexError as error:
        raise pa.ArrowInvalid(str(error)) from error
    return found


def _add(
    elements: Sequence[Mapping[int, object]], position: int, leaves: int, found: list[Annotation], depth: int
) -> tuple[int, int]:
    """Add the annotations of an element and of all elements below it. Return the position and the leaf after it.

    Raises:
        IndexError: If the schema ends too early, or is nested too deeply.
    """
    if depth > _MAX_DEPTH:
        raise IndexError("The schema is nested too deeply.")
    fields, first = elements[position], leaves
    children = fields.get(_CHILDREN)
    position += 1
    if isinstance(children, int) and children > 0:
        for _ in range(children):
            position, leaves = _add(elements, position, leaves, found, depth + 1)
    else:
        leaves += 1
    annotation = _to_annotation(fields, first, leaves)
    if annotation is not None:
        found.append(annotation)
    return position, leaves


def _to_annotation(fields: Mapping[int, object], first: int, end: int) -> Annotation | None:
    logical = fields.get(_LOGICAL)
    for number, kind in _OF_LOGICAL.items():
        details = logical.get(number) if isinstance(logical, dict) else None
        if isinstance(details, dict):
            crs = details.get(_CRS) if kind in (GEOMETRY, GEOGRAPHY) else None
            is_spherical = kind != GEOGRAPHY or details.get(_ALGORITHM, _SPHERICAL) == _SPHERICAL
            return Annotation(
                first, end, kind, crs.decode(errors="replace") if isinstance(crs, bytes) else None, is_spherical
            )
    converted = fields.get(_CONVERTED)
    return Annotation(first, end, INTERVAL) if converted == _CONVERTED_INTERVAL else None


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
