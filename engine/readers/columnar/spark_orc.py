"""The columns of an ORC file that Spark's own reader reads as the engine does.

Only columns outside of structs, lists, maps and unions are marked. Timestamps are not marked, because Spark converts
them with the time zone of the machine. Dates are marked only if the file says that they are of the proleptic Gregorian
calendar. Spark converts the dates of other files.
"""

from collections.abc import Mapping
from typing import Final

from engine.readers.columnar.orc_tail import OrcColumn, OrcTail
from engine.readers.columnar.spark_marks import mark
from engine.schema import MAX_DECIMAL_DIGITS, TupleSchema

FORMAT: Final = "orc"

_PLAIN: Final = frozenset({"BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "STRING", "BINARY"})
"""Types whose values do not depend on the program that wrote them."""

_ATTRIBUTES_OF_TEXT: Final = {b"spark.sql.catalyst.type": b"string"}
"""What Spark adds to the type of a text. Other types with this attribute have another meaning for Spark."""

_NAME_OF_HIVE: Final = "_col"
"""The beginning of all names in a file of old versions of Hive, whose columns Spark finds by their positions."""


def mark_columns(schema: TupleSchema, tail: OrcTail) -> TupleSchema:
    """Return the schema of a file with the marks of its columns.

    Args:
        schema: The columns of the file, with the types of a scan.
        tail: The tail of the file.
    """
    columns = {column.name: column for column in tail.columns()}
    if all(name.startswith(_NAME_OF_HIVE) for name in columns):
        return TupleSchema(one.remove_metadata() for one in schema)

    def is_plain(name: str, attributes: Mapping[bytes, bytes]) -> bool:
        column = columns.get(name)
        return column is not None and _is_plain(column, attributes, tail)

    # Attributes of the file are metadata of its columns, so they could look like a mark.
    return TupleSchema(
        mark(one, FORMAT) if is_plain(one.name, one.metadata or {}) else one.remove_metadata() for one in schema
    )


def _is_plain(column: OrcColumn, attributes: Mapping[bytes, bytes], tail: OrcTail) -> bool:
    if attributes:
        return column.kind == "STRING" and attributes == _ATTRIBUTES_OF_TEXT
    if column.kind == "DATE":
        return tail.is_proleptic
    return column.kind in _PLAIN or (column.kind == "DECIMAL" and 0 < column.precision <= MAX_DECIMAL_DIGITS)
