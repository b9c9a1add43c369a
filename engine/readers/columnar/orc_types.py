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
from typing import Final

import pyarrow as pa
import pyarrow.types as pt

from engine.arrow_types import inner_fields, with_inner_fields
from engine.spark_type import UnreadableType

KIND: Final = "ORC"

_ATTRIBUTE: Final = b"spark.sql.catalyst.type"
_SAME: Final = re.compile(rb"string( collate .*)?|(var)?char\(\d+\)|timestamp|binary")
_DAY_TIME: Final = re.compile(rb"interval (day|hour|minute|second)( to (hour|minute|second))?")
_NTZ: Final = b"timestamp_ntz"


def with_spark_types(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a file with the types of Spark. If nothing changes, it is the same object."""
    fields = [_with_spark_type(field) for field in schema]
    return schema if fields == list(schema) else pa.schema(fields, schema.metadata)


def _with_spark_type(field: pa.Field) -> pa.Field:
    if inner := inner_fields(field.type):
        return field.with_type(with_inner_fields(field.type, [_with_spark_type(one) for one in inner]))
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
