"""The types of Spark that ORC does not have.

Spark stores values of such a type as numbers, and the name of the type as an attribute of the column. Without the
attribute, a scan would return the numbers.

| attribute | stored as | type in the scan |
| --- | --- | --- |
| ``timestamp_ntz`` | microseconds | timestamp without time zone |
| ``interval`` of days, hours, minutes and seconds | microseconds | duration |
| ``string``, ``char(…)``, ``varchar(…)``, ``timestamp`` | the type itself | the type itself |
| others, such as ``interval year to month`` | | refused |

Source: [spark-data-source], ``OrcUtils.orcTypeDescription``.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.types as pt

from engine.arrow_types import inner_fields, with_inner_fields

_ATTRIBUTE: Final = b"spark.sql.catalyst.type"
_SAME: Final = re.compile(rb"string( collate .*)?|(var)?char\(\d+\)|timestamp|binary")
_DAY_TIME: Final = re.compile(rb"interval (day|hour|minute|second)( to (hour|minute|second))?")
_NTZ: Final = b"timestamp_ntz"


def with_spark_types(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a file with the types of Spark. If nothing changes, it is the same object."""
    fields = [_with_spark_type(field) for field in schema]
    return schema if fields == list(schema) else pa.schema(fields, schema.metadata)


def find_unsupported(schema: pa.Schema) -> Mapping[str, str]:
    """Return the columns with a type that scans do not have, also a nested one, and the names of these types."""
    found = ((column.name, next(_unsupported(column), None)) for column in schema)
    return {name: type_ for name, type_ in found if type_ is not None}


def _with_spark_type(field: pa.Field) -> pa.Field:
    if inner := inner_fields(field.type):
        return field.with_type(with_inner_fields(field.type, [_with_spark_type(one) for one in inner]))
    attribute = _attribute(field)
    if not pt.is_int64(field.type):
        return field
    if attribute == _NTZ:
        return field.with_type(pa.timestamp("us"))
    return field.with_type(pa.duration("us")) if _DAY_TIME.fullmatch(attribute) else field


def _unsupported(field: pa.Field) -> Iterator[str]:
    attribute = _attribute(field)
    is_known = _SAME.fullmatch(attribute) or not _with_spark_type(field).type.equals(field.type)
    if attribute and not is_known:
        yield attribute.decode(errors="replace")
    for inner in inner_fields(field.type):
        yield from _unsupported(inner)


def _attribute(field: pa.Field) -> bytes:
    found: bytes = (field.metadata or {}).get(_ATTRIBUTE, b"")
    return found
