"""The columns of a Parquet file that Spark's own reader reads as the engine does.

The same type of a scan can come from several types of Parquet, of which Spark reads only some to the same values. For
example, Spark refuses timestamps in nanoseconds. Spark converts old dates and times if a file says that a legacy
calendar wrote it. The engine converts the dates too, and refuses these times. Spark converts timestamps of 96 bits of
other programs if a setting of the session says so, but never those of a legacy calendar, which it wrote itself.

Spark compares the statistics of instants in milliseconds with a literal that it has rounded to milliseconds. So it can
skip rows for a literal with microseconds. Spark cannot decompress Brotli, and has LZO only on some machines.

A struct, list or map is marked if all its values are, and if the file has the three levels of a list or a map that the
format prescribes today. Spark pushes filters on members of structs down, and compares them with statistics that do not
include NaN. Therefore structs with floating-point members are not marked. Filters on elements of lists and maps are not
pushed down.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

from engine.readers.columnar.parquet_codecs import read_codecs
from engine.readers.columnar.parquet_types import INT96
from engine.readers.columnar.rebase_modes import LEGACY, RebaseModes
from engine.readers.columnar.spark_marks import mark
from engine.schema import TupleSchema

FORMAT: Final = "parquet"

_PLAIN: Final = frozenset(
    {
        ("BOOLEAN", "None"),
        ("INT32", "None"),
        ("INT64", "None"),
        ("FLOAT", "None"),
        ("DOUBLE", "None"),
        ("BYTE_ARRAY", "None"),
        ("BYTE_ARRAY", "String"),
        ("BYTE_ARRAY", "Enum"),
        ("INT32", "Int(bitWidth=8, isSigned=true)"),
        ("INT32", "Int(bitWidth=16, isSigned=true)"),
        ("INT32", "Int(bitWidth=32, isSigned=true)"),
        ("INT64", "Int(bitWidth=64, isSigned=true)"),
        ("INT32", "Int(bitWidth=8, isSigned=false)"),
        ("INT32", "Int(bitWidth=16, isSigned=false)"),
        ("INT32", "Int(bitWidth=32, isSigned=false)"),
    }
)
"""Physical and logical types whose values do not depend on the program that wrote them."""

_DECIMAL: Final = "Decimal("
_TIME: Final = ("Date", "Timestamp(")
_NANOSECONDS: Final = "timeUnit=nanoseconds"
_INSTANT_IN_MILLISECONDS: Final = "Timestamp(isAdjustedToUTC=true, timeUnit=milliseconds"

_CODECS: Final = frozenset({0, 1, 2, 6, 7})
"""Uncompressed, Snappy, gzip, Zstandard and LZ4_RAW. Programs disagree about the form of the older LZ4."""


class SparkColumns:
    """The columns that Spark's reader reads in files with the same schema, if it knows their codecs.

    Args:
        schema: The columns of a file, with the types of a scan.
        offered: The same columns, with the types that Arrow gives them.
        metadata: The decoded footer of the file, a ``pyarrow.parquet.FileMetaData``.
        modes: How the dates and times of the file are read.
    """

    def __init__(self, schema: TupleSchema, offered: pa.Schema, metadata: Any, modes: RebaseModes) -> None:
        self._offered = offered.remove_metadata()
        self._parquet = metadata.schema
        leaves: dict[str, list[Any]] = {}
        for number in range(len(self._parquet)):
            leaf = self._parquet.column(number)
            leaves.setdefault(leaf.path.partition(".")[0], []).append(leaf)
        self._has_legacy_int96 = modes.int96 == LEGACY
        self._schema = schema
        self._paths = {
            column.name: [leaf.path for leaf in found]
            for column, found in ((one, leaves.get(one.name, ())) for one in schema)
            if all(_is_plain(leaf, reads_int96=self._has_legacy_int96) for leaf in found)
            and [_levels(leaf) for leaf in found] == list(_expected_levels(column))
        }
        self._marked = self._mark(self._paths)

    def are_of(self, offered: pa.Schema, metadata: Any, modes: RebaseModes) -> bool:
        """Return whether these are also the columns of another file."""
        is_same_offer = offered.remove_metadata().equals(self._offered, check_metadata=True)
        is_same_calendar = (modes.int96 == LEGACY) == self._has_legacy_int96
        return bool(is_same_offer and is_same_calendar and metadata.schema.equals(self._parquet))

    def marked(self, row_groups: int, footer: bytes) -> TupleSchema:
        """Return the schema of a file with the marks of its columns.

        Args:
            row_groups: The number of row groups of the file.
            footer: The footer as it is in the file.
        """
        chunks = Counter(path.decode(errors="replace") for path, codec in read_codecs(footer) if codec in _CODECS)
        readable = {name for name, paths in self._paths.items() if all(chunks[path] == row_groups for path in paths)}
        return self._marked if len(readable) == len(self._paths) else self._mark(readable)

    def _mark(self, readable: Collection[str]) -> TupleSchema:
        return TupleSchema(mark(one, FORMAT) if one.name in readable else one for one in self._schema)


def _levels(leaf: Any) -> tuple[str, int, int]:
    """Return the path, and how many levels are repeated, and optional or repeated."""
    return leaf.path, leaf.max_repetition_level, leaf.max_definition_level


def _expected_levels(
    column: pa.Field, path: str = "", repeated: int = 0, defined: int = 0
) -> Iterator[tuple[str, int, int] | None]:
    """Yield the levels of each leaf of a column. Yield None if Spark's reader does not read the column like the engine.

    Args:
        column: A column, or a part of one.
        path: The path of its parent.
        repeated: The number of repeated levels above the column.
        defined: The number of optional or repeated levels above the column.
    """
    type_, path, defined = column.type, f"{path}{column.name}", defined + column.nullable
    if "." in column.name or (pt.is_struct(type_) and not _is_plain_struct(type_)):
        yield None
    elif pt.is_struct(type_):
        for member in type_:
            yield from _expected_levels(member, f"{path}.", repeated, defined)
    elif pt.is_list(type_):
        element = type_.value_field.with_name("element")
        yield from _expected_levels(element, f"{path}.list.", repeated + 1, defined + 1)
    elif pt.is_map(type_):
        for member in (type_.key_field.with_name("key"), type_.item_field.with_name("value")):
            yield from _expected_levels(member, f"{path}.key_value.", repeated + 1, defined + 1)
    else:
        yield path, repeated, defined


def _is_plain_struct(type_: pa.StructType) -> bool:
    """Return whether Spark reads a struct, and filters on its direct members do not depend on NaN.

    Spark does not read a ``VARIANT`` as a struct. pyarrow does not show this annotation.
    """
    members = {member.name: member.type for member in type_}
    is_variant = members.get("metadata") == pa.binary() and ("value" in members or "typed_value" in members)
    return not is_variant and not any(map(pt.is_floating, members.values()))


def _is_plain(leaf: Any, *, reads_int96: bool) -> bool:
    logical = str(leaf.logical_type)
    if (leaf.physical_type, logical) in _PLAIN or (reads_int96 and leaf.physical_type == INT96):
        return True
    if logical.startswith(_DECIMAL):
        return True
    return bool(
        logical.startswith(_TIME)
        and leaf.physical_type in ("INT32", "INT64")
        and _NANOSECONDS not in logical
        and not logical.startswith(_INSTANT_IN_MILLISECONDS)
    )
