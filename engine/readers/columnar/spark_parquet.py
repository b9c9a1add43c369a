"""The columns of a Parquet file that Spark's own reader reads as the engine does.

The same type of a scan can come from several types of Parquet, of which Spark reads only some to the same values. For
example, Spark refuses timestamps in nanoseconds, and converts old dates if a file says that a legacy calendar wrote it.

Spark compares the statistics of instants in milliseconds with a literal that it has rounded to milliseconds. So it can
skip rows for a literal with microseconds. Spark cannot decompress Brotli, and has LZO only on some machines.

Only columns outside of structs, lists and maps are marked.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from engine.readers.columnar.parquet_codecs import read_codecs
from engine.readers.columnar.spark_marks import mark
from engine.schema import TupleSchema

FORMAT: Final = "parquet"

_LEGACY_CALENDAR = b"org.apache.spark.legacyDateTime"
_SPARK_VERSION = b"org.apache.spark.version"
_FIRST_PROLEPTIC = b"3"

_PLAIN: Final = frozenset(
    {
        ("BOOLEAN", "None"),
        ("INT32", "None"),
        ("INT64", "None"),
        ("FLOAT", "None"),
        ("DOUBLE", "None"),
        ("BYTE_ARRAY", "None"),
        ("BYTE_ARRAY", "String"),
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


def mark_columns(schema: TupleSchema, metadata: Any, footer: bytes) -> TupleSchema:
    """Return the schema of a file with the marks of its columns.

    Args:
        schema: The columns of the file, with the types of a scan.
        metadata: The decoded footer, a ``pyarrow.parquet.FileMetaData``.
        footer: The footer as it is in the file.
    """
    written: Mapping[bytes, bytes] = metadata.metadata or {}
    parquet = metadata.schema
    leaves = [parquet.column(number) for number in range(len(parquet))]
    readable = Counter(name.decode(errors="replace") for name, codec in read_codecs(footer) if codec in _CODECS)
    marked = {
        leaf.path
        for leaf in leaves
        if "." not in leaf.path
        and leaf.max_repetition_level == 0
        and readable[leaf.path] == metadata.num_row_groups
        and _is_plain(leaf, written)
    }
    return TupleSchema(mark(one, FORMAT) if one.name in marked else one for one in schema)


def _is_plain(leaf: Any, written: Mapping[bytes, bytes]) -> bool:
    logical = str(leaf.logical_type)
    if (leaf.physical_type, logical) in _PLAIN:
        return True
    if logical.startswith(_DECIMAL):
        return True
    return (
        logical.startswith(_TIME)
        and leaf.physical_type in ("INT32", "INT64")
        and _NANOSECONDS not in logical
        and not logical.startswith(_INSTANT_IN_MILLISECONDS)
        and _is_proleptic(written)
    )


def _is_proleptic(written: Mapping[bytes, bytes]) -> bool:
    """Return whether Spark reads the dates of a file without a conversion between calendars."""
    major = written.get(_SPARK_VERSION, _FIRST_PROLEPTIC).partition(b".")[0]
    return _LEGACY_CALENDAR not in written and major.isdigit() and int(major) >= int(_FIRST_PROLEPTIC)
