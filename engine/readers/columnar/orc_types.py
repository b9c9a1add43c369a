"""The types of Spark that ORC does not have.

Spark stores values of such a type as numbers, and the name of the type as an attribute of the column. Without the
attribute, a scan would return the numbers.

| attribute | stored as | type in the scan |
| --- | --- | --- |
| ``timestamp_ntz`` | microseconds | timestamp without time zone |
| ``interval`` of days, hours, minutes and seconds | microseconds | duration |
| ``string``, ``char(…)``, ``varchar(…)``, ``timestamp`` | the type itself | the type itself |
| others, such as ``interval year to month`` | | refused |

Arrow reads a decimal without a precision, as Hive 0.11 wrote it, with fewer digits than it has, so it is refused.

Source: [spark-data-source], ``OrcUtils.orcTypeDescription``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from engine.arrow_types import inner_fields, inner_types, with_inner_fields
from engine.readers.columnar.leaves import convert_leaves
from engine.readers.columnar.orc_tail import OrcColumn
from engine.spark_type import UnreadableType

KIND: Final = "ORC"

_PADDED_BYTES: Final = 2**28
_BYTES_PER_CHARACTER: Final = 4

_ATTRIBUTE: Final = b"spark.sql.catalyst.type"
_SAME: Final = re.compile(rb"string( collate .*)?|(var)?char\(\d+\)|timestamp|binary")
_DAY_TIME: Final = re.compile(rb"interval (day|hour|minute|second)( to (hour|minute|second))?")
_NTZ: Final = b"timestamp_ntz"


def with_spark_types(schema: pa.Schema, types: Iterable[OrcColumn]) -> pa.Schema:
    """Return the schema of a file with the types of Spark. If nothing changes, it is the same object.

    Args:
        schema: The schema.
        types: The types of the file, without that of its rows.
    """
    remaining = iter(types)
    fields = [_with_spark_type(field, remaining) for field in schema]
    return schema if fields == list(schema) else pa.schema(fields, schema.metadata)


def find_chars(schema: pa.Schema, types: Iterable[OrcColumn]) -> Mapping[str, Sequence[int]]:
    """Return the columns with ``CHAR``, also a nested one, and the length of each text in them, or 0.

    Args:
        schema: The schema as Arrow reads it.
        types: The types of the file, without that of its rows.
    """
    remaining = iter(types)
    found = {field.name: list(_text_lengths(field.type, remaining)) for field in schema}
    return {name: lengths for name, lengths in found.items() if any(lengths)}


def pad_chars(batch: pa.RecordBatch, chars: Mapping[str, Sequence[int]]) -> pa.RecordBatch:
    """Return a batch whose ``CHAR`` columns have their length in characters. Files store the length in bytes."""
    for number, field in enumerate(batch.schema):
        if field.name in chars:
            lengths = iter(chars[field.name])
            padded = convert_leaves(batch.column(number), pt.is_string, partial(_pad, lengths))
            batch = batch.set_column(number, field, padded)
    return batch


def _pad(lengths: Iterator[int], text: pa.Array) -> pa.Array:
    length = next(lengths)
    if not length:
        return text
    rows = max(_PADDED_BYTES // (_BYTES_PER_CHARACTER * length), 1)  # Arrow reserves as much as there can be
    parts = [pc.utf8_rpad(text.slice(first, rows), length) for first in range(0, len(text), rows)]
    return pa.concat_arrays(parts) if parts else text


def _text_lengths(type_: pa.DataType, types: Iterator[OrcColumn]) -> Iterator[int]:
    """Yield the length of each text in a type, as far as its values can be converted."""
    stored = next(types, None)
    if pt.is_string(type_):
        yield 0 if stored is None else stored.length
    for inner in inner_types(type_):
        lengths = list(_text_lengths(inner, types))
        yield from () if pt.is_union(type_) else lengths


def _with_spark_type(field: pa.Field, types: Iterator[OrcColumn]) -> pa.Field:
    stored = next(types, None)
    if pt.is_union(field.type):
        for inner in inner_types(field.type):
            _with_spark_type(field.with_type(inner), types)
        return field
    if inner := inner_fields(field.type):
        return field.with_type(with_inner_fields(field.type, [_with_spark_type(one, types) for one in inner]))
    if stored is not None and stored.kind == "DECIMAL" and not stored.precision:
        return field.with_type(UnreadableType(KIND, "decimal without a precision", field.type))
    return _by_attribute(field)


def _by_attribute(field: pa.Field) -> pa.Field:
    attribute = _attribute(field)
    if not attribute or _SAME.fullmatch(attribute):
        return field
    if pt.is_int64(field.type) and attribute == _NTZ:
        return field.with_type(pa.timestamp("us"))
    if pt.is_int64(field.type) and _DAY_TIME.fullmatch(attribute):
        return field.with_type(pa.duration("us"))
    return field.with_type(UnreadableType(KIND, attribute.decode(errors="replace"), field.type))


def _attribute(field: pa.Field) -> bytes:
    found: bytes = (field.metadata or {}).get(_ATTRIBUTE, b"")
    return found
