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

from engine.readers.columnar.thrift_compact import CompactReader

VARIANT: Final = "VARIANT"
GEOMETRY: Final = "GEOMETRY"
GEOGRAPHY: Final = "GEOGRAPHY"
UUID: Final = "UUID"
INTERVAL: Final = "INTERVAL"
MAP: Final = "MAP"

_OF_LOGICAL: Final = {2: MAP, 14: UUID, 16: VARIANT, 17: GEOMETRY, 18: GEOGRAPHY}
_CONVERTED_MAP: Final = 1
_OF_CONVERTED: Final = {_CONVERTED_MAP: MAP, 21: INTERVAL}
_LIST: Final = 3
"""The number of ``LIST``, both as a converted and as a logical type."""

_SCHEMA: Final = 2
_CHILDREN, _CONVERTED, _LOGICAL = 5, 6, 10
_CRS, _ALGORITHM = 1, 2
_SPHERICAL = 0
_INTERVAL_BYTES = 12
_MAX_DEPTH = 128


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


def with_lists_for_maps(footer: bytes) -> bytes:
    """Return a footer in which each ``MAP`` is a ``LIST`` of pairs. Arrow does not read maps with optional keys.

    Raises:
        ArrowInvalid: If the schema in the footer cannot be decoded.
    """
    changed = bytearray(footer)
    reader = CompactReader(footer)
    try:
        for number, kind in reader.fields():
            if number != _SCHEMA:
                reader.value(kind)
                continue
            for _ in range(reader.start_list()):
                for position, byte in _find_map(reader):
                    changed[position] = byte
            break
    except IndexError as error:
        raise pa.ArrowInvalid(str(error)) from error
    return bytes(changed)


def _find_map(reader: CompactReader) -> Iterator[tuple[int, int]]:
    """Read an element of the schema. Yield the positions of its annotation as a map, and the bytes of a list there."""
    for number, kind in reader.fields():
        start = reader.position
        if number == _LOGICAL:
            for inner, inner_kind in reader.fields():
                if _OF_LOGICAL.get(inner) == MAP:
                    yield reader.position - 1, _LIST << 4 | inner_kind
                reader.value(inner_kind)
        elif reader.value(kind) == _CONVERTED_MAP and number == _CONVERTED:
            yield start, _LIST << 1


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
    if not isinstance(converted, int):
        return None
    return Annotation(first, end, _OF_CONVERTED[converted]) if converted in _OF_CONVERTED else None


def _read_schema(footer: bytes) -> Sequence[Mapping[int, object]]:
    reader = CompactReader(footer)
    for number, kind in reader.fields():
        if number == _SCHEMA:
            found = reader.value(kind)
            return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
        reader.value(kind)
    return []
