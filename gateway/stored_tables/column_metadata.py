"""What Spark stores in the metadata of a column beside its type and its comment.

Source: ``CharVarcharUtils`` and ``ResolveDefaultColumns`` of Spark.
"""

import re
from collections.abc import Callable, Mapping

from pyspark.sql.types import ArrayType, CharType, DataType, MapType, StringType, StructField, StructType, VarcharType

from gateway.backends.session_settings import SessionSettings
from gateway.sql.name_syntax import quote_name

CHAR_OR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"
"""The type of a column that contains ``CHAR`` or ``VARCHAR``. The column itself then has ``STRING`` there."""
CURRENT_DEFAULT = "CURRENT_DEFAULT"
"""The SQL text of the default value."""
EXISTS_DEFAULT = "EXISTS_DEFAULT"
"""The SQL text of the value in files that were written before the column was added."""

_KEYS = frozenset({CHAR_OR_VARCHAR, CURRENT_DEFAULT, EXISTS_DEFAULT})
_CHAR = re.compile(r"\bchar\b")
_ONLY_CHAR = re.compile(r"char\((\d{1,9})\)", re.IGNORECASE)


def stored_schema(defined: StructType, defaults: Mapping[int, str]) -> StructType:
    """Return the schema of a new table as Spark stores it.

    As in a table of Spark in files, all columns accept NULL.

    Args:
        defined: The columns with their types as defined.
        defaults: The SQL texts of default values, by the number of the column.
    """
    fields = []
    for number, field in enumerate(defined.fields):
        metadata = dict(field.metadata or {})
        kind = _without_limits(field.dataType)
        if kind != field.dataType:
            metadata[CHAR_OR_VARCHAR] = field.dataType.simpleString()
        if number in defaults:
            metadata |= dict.fromkeys((CURRENT_DEFAULT, EXISTS_DEFAULT), defaults[number])
        fields.append(StructField(field.name, kind, nullable=True, metadata=metadata))
    return StructType(fields)


def has_limits_or_default(field: StructField) -> bool:
    """Return whether a column has a default value, or contains ``CHAR`` or ``VARCHAR``."""
    return not _KEYS.isdisjoint(field.metadata or {})


def without_limits_and_default(field: StructField) -> StructField:
    """Return a column without its default value, and with ``STRING`` in the place of ``CHAR`` and ``VARCHAR``."""
    metadata = {key: value for key, value in (field.metadata or {}).items() if key not in _KEYS}
    return StructField(field.name, field.dataType, field.nullable, metadata)


def with_varchar_only(metadata: Mapping[str, object]) -> Mapping[str, object]:
    """Return the metadata of a column in which ``CHAR`` is replaced with ``VARCHAR``."""
    kind = metadata.get(CHAR_OR_VARCHAR)
    return metadata if kind is None else {**metadata, CHAR_OR_VARCHAR: _CHAR.sub("varchar", str(kind))}


def char_length(field: StructField) -> int | None:
    """Return the length of a ``CHAR`` column. None for other columns."""
    match = _ONLY_CHAR.fullmatch(str((field.metadata or {}).get(CHAR_OR_VARCHAR, "")))
    return None if match is None else int(match[1])


def replace_limits(defined: StructType, settings: SessionSettings) -> StructType:
    """Return the columns of a definition with the types that settings of the session put in the place of others."""
    if settings.char_is_string:
        return _map_columns(defined, _without_limit)
    if settings.char_is_varchar:
        return _map_columns(defined, lambda kind: VarcharType(kind.length) if isinstance(kind, CharType) else kind)
    return defined


def sql_type(kind: DataType) -> str:
    """Return a type in Spark's SQL syntax, with quoted names of members."""
    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(f'{quote_name(field.name)}: {sql_type(field.dataType)}' for field in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{sql_type(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{sql_type(kind.keyType)}, {sql_type(kind.valueType)}>"
    return kind.simpleString().upper()


def _without_limits(kind: DataType) -> DataType:
    """Return a type with ``STRING`` in the place of ``CHAR`` and ``VARCHAR``."""
    return _map_type(kind, _without_limit)


def _without_limit(kind: DataType) -> DataType:
    return StringType() if isinstance(kind, CharType | VarcharType) else kind


def _map_type(kind: DataType, change: Callable[[DataType], DataType]) -> DataType:
    """Return a type in which a function has replaced each type that contains no other."""
    match kind:
        case ArrayType():
            return ArrayType(_map_type(kind.elementType, change), kind.containsNull)
        case MapType():
            key, value = _map_type(kind.keyType, change), _map_type(kind.valueType, change)
            return MapType(key, value, kind.valueContainsNull)
        case StructType():
            return _map_columns(kind, change)
        case _:
            return change(kind)


def _map_columns(schema: StructType, change: Callable[[DataType], DataType]) -> StructType:
    return StructType(
        [
            StructField(each.name, _map_type(each.dataType, change), each.nullable, each.metadata)
            for each in schema.fields
        ]
    )
