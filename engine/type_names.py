"""Names of types for messages: those of Spark, such as ``array<double>`` and ``timestamp``, not those of Arrow.

| Arrow type | name |
| --- | --- |
| strings, binaries and lists of any representation; dictionary, run-end encoded | the name of the values' type |
| a type that Spark does not have, for example ``uint8``, ``halffloat`` or a union | the name in Arrow |
| an extension type with the attribute ``spark_name`` | this attribute |
| another extension type | the name of the storage type |

As in Spark, the name of a struct lists at most ``MAX_MEMBERS`` members.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa
import pyarrow.types as pt

MAX_MEMBERS: Final = 25
"""Spark's default for ``spark.sql.debug.maxToStringFields``."""

_SIMPLE: Final[Mapping[pa.DataType, str]] = MappingProxyType(
    {
        pa.null(): "void",
        pa.bool_(): "boolean",
        pa.int8(): "tinyint",
        pa.int16(): "smallint",
        pa.int32(): "int",
        pa.int64(): "bigint",
        pa.float32(): "float",
        pa.float64(): "double",
        pa.string(): "string",
        pa.large_string(): "string",
        pa.string_view(): "string",
        pa.binary(): "binary",
        pa.large_binary(): "binary",
        pa.binary_view(): "binary",
        pa.date32(): "date",
        pa.date64(): "date",
        pa.time32("s"): "time(0)",
        pa.time32("ms"): "time(3)",
        pa.time64("us"): "time(6)",
        pa.time64("ns"): "time(9)",
        pa.month_day_nano_interval(): "interval",
    }
)


def type_name(type_: pa.DataType) -> str:
    """Return the name of a type for a message."""
    if isinstance(type_, pa.BaseExtensionType):
        return _extension_name(type_)
    if type_ in _SIMPLE:
        return _SIMPLE[type_]
    return next((name(type_) for is_kind, name in _NAMES if is_kind(type_)), str(type_))


def describe(wanted: object) -> str:
    """Return the name of a type, or the text of anything else."""
    return type_name(wanted) if isinstance(wanted, pa.DataType) else str(wanted)


def _is_list(type_: pa.DataType) -> bool:
    kinds = (pt.is_list, pt.is_large_list, pt.is_fixed_size_list, pt.is_list_view, pt.is_large_list_view)
    return any(is_kind(type_) for is_kind in kinds)


def _extension_name(type_: pa.BaseExtensionType) -> str:
    name = getattr(type_, "spark_name", None)
    return str(name) if name else type_name(type_.storage_type)


def _struct_name(type_: pa.StructType) -> str:
    members = [f"{field.name}:{type_name(field.type)}" for field in list(type_)[:MAX_MEMBERS]]
    left_out = type_.num_fields - len(members)
    return f"struct<{','.join([*members, f'... {left_out} more fields'] if left_out else members)}>"


_NAMES: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], str]], ...]] = (
    (lambda one: pt.is_dictionary(one) or pt.is_run_end_encoded(one), lambda one: type_name(one.value_type)),
    (pt.is_fixed_size_binary, lambda _: "binary"),
    (pt.is_decimal, lambda one: f"decimal({one.precision},{one.scale})"),
    (pt.is_timestamp, lambda one: "timestamp" if one.tz else "timestamp_ntz"),
    (pt.is_duration, lambda _: "interval day to second"),
    (_is_list, lambda one: f"array<{type_name(one.value_type)}>"),
    (pt.is_map, lambda one: f"map<{type_name(one.key_type)},{type_name(one.item_type)}>"),
    (pt.is_struct, _struct_name),
)
