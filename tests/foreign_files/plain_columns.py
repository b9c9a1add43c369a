"""Columns that are equal if two readers return the same type and the same values.

Python has no dates after the year 9999 and no text that is not UTF-8, so such values become numbers and bytes.
"""

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class PlainColumn:
    """A column.

    Attributes:
        type: The type in Spark.
        values: The text of each value.
    """

    type: str
    values: tuple[str, ...]


def plain_columns(table: pa.Table, types: dict[str, str]) -> dict[str, PlainColumn]:
    """Return the columns of a table by their names.

    Args:
        table: The table, with Spark's types.
        types: The name of the type of each column.
    """
    plain = {}
    for number, name in enumerate(table.schema.names):
        column = table.column(number)
        values = column.cast(_plain_type(column.type)).to_pylist()
        plain[name] = PlainColumn(types[name], tuple(map(repr, values)))
    return plain


def _plain_type(type_: pa.DataType) -> pa.DataType:
    plain = type_
    if pa.types.is_date32(type_):
        plain = pa.int32()
    elif pa.types.is_timestamp(type_) or pa.types.is_duration(type_) or pa.types.is_time64(type_):
        plain = pa.int64()
    elif pa.types.is_string(type_) or pa.types.is_large_string(type_):
        plain = pa.binary()
    elif pa.types.is_struct(type_):
        plain = pa.struct([one.with_type(_plain_type(one.type)) for one in type_])
    elif pa.types.is_map(type_):
        plain = pa.map_(_plain_type(type_.key_type), _plain_type(type_.item_type))
    elif pa.types.is_list(type_):
        plain = pa.list_(type_.value_field.with_type(_plain_type(type_.value_type)))
    return plain
