"""The storage formats of tables, and the Spark options that each format needs.

Guarantee: with every format, Spark reads each value exactly as it was written, or the write fails. With Spark's default
options, text formats lose empty strings, leading and trailing whitespace, line breaks and microseconds.

Not guaranteed:

- Empty strings in a partition column, which Spark reads as NULL.
- Dates in the ten days of October 1582 that the ORC calendar omits.
- In CSV, the one string that represents NULL.
- Values that cannot be written with the options in a statement.

Source: [temporary-tables §5.1.4]; [spark-data-source].
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from gateway.errors import GatewayError, SparkError
from gateway.sql.name_syntax import quote_name
from workspace.name_comparison import comparable_name
from workspace.records import TemporaryTable

_ALL_FILES = {
    "ignoreCorruptFiles": "false",
    "ignoreInvalidPartitionPaths": "false",
    "ignoreMissingFiles": "false",
    "ignoredPathSegmentRegex": "^[._]",
}
"""Options with which a read returns the rows of all files, or fails.

Without them, settings of the session decide. A merge of parts or a change of rows would make missing rows permanent.
"""
_IN_UTC = {"timeZone": "UTC"}
"""A fixed time zone for writes and reads.

The time zone of the session is not suitable. It may change between the write and the read, and it may repeat an hour
each year.
"""
_TIMES = {
    "dateFormat": "yyyy-MM-dd",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_TEXT_OPTIONS = frozenset({"compression", *_TIMES})
_NO_TEXT = "\x01null\x01"
_STRICT = {
    "columnNameOfCorruptRecord": "\x01malformed\x01",
    "enableDateTimeParsingFallback": "false",
    "mode": "FAILFAST",
}
"""Options that turn malformed rows into errors instead of NULL values or other values.

No table has a column with the given name for malformed rows.
"""

_MAX_CHARACTERS = 4096
_MAX_OPTIONS = 100
_MAX_CHARACTERS_OF_ALL = 16 * 1024


@dataclass(frozen=True, slots=True)
class StorageFormat:
    """A Spark data source that can store tables.

    Attributes:
        name: The name of the data source in Spark.
        defaults: The default options for writes and reads. Statements can override them.
        allowed: The options that a statement can set.
        allowed_prefixes: The prefixes of additional options that a statement can set.
    """

    name: str
    defaults: Mapping[str, str]
    allowed: frozenset[str]
    allowed_prefixes: tuple[str, ...] = ()

    def options(self, statement: Mapping[str, str]) -> Mapping[str, str]:
        """Return the options for writes and reads.

        Args:
            statement: The options in the statement that creates the table.

        Raises:
            GatewayError: If an option is not allowed.
        """
        known = {key.lower(): key for key in self.allowed}
        named: dict[str, str] = {}
        for key, value in statement.items():
            name = known.get(key.lower())
            if name is None and not key.lower().startswith(self.allowed_prefixes):
                raise _refused(
                    f"Tables stored as [{self.name}] do not support the option [{key}]. Use one of: "
                    f"{', '.join(sorted(self.allowed))}."
                )
            named[name or key] = value
        return {**self.defaults, **named}

    def check_options(self, statement: Mapping[str, str]) -> None:
        """Check the options in a statement that creates a table.

        Raises:
            GatewayError: If an option is not allowed or too long, or there are too many. The session record, which
                every change writes again, contains all options.
        """
        for key in statement:
            if len(key) > _MAX_CHARACTERS:
                raise _refused(
                    f"The name of an option has {len(key):,} characters. The maximum is {_MAX_CHARACTERS:,}. Use "
                    "an option of the storage format."
                )
        self.options(statement)
        for key, value in statement.items():
            if len(value) > _MAX_CHARACTERS:
                raise _refused(
                    f"The option [{key}] has a value of {len(value):,} characters. The maximum is "
                    f"{_MAX_CHARACTERS:,}. Use a shorter value."
                )
        if len(statement) > _MAX_OPTIONS:
            raise _refused(
                f"The table has {len(statement):,} options. The maximum is {_MAX_OPTIONS:,}. Use fewer options."
            )
        characters = sum(len(key) + len(value) for key, value in statement.items())
        if characters > _MAX_CHARACTERS_OF_ALL:
            raise _refused(
                f"The names and values of all options of the table have {characters:,} characters. The maximum is "
                f"{_MAX_CHARACTERS_OF_ALL:,}. Use shorter values."
            )


def check_properties(properties: Mapping[str, str]) -> None:
    """Check the properties of a table, which the session record contains.

    Raises:
        GatewayError: If there are too many, or they are too long.
    """
    characters = sum(len(key) + len(value) for key, value in properties.items())
    if len(properties) > _MAX_OPTIONS or characters > _MAX_CHARACTERS_OF_ALL:
        raise _refused(
            f"The table has {len(properties):,} properties with {characters:,} characters. The maximum is "
            f"{_MAX_OPTIONS:,} properties with {_MAX_CHARACTERS_OF_ALL:,} characters. Use fewer or shorter ones."
        )


def _refused(text: str) -> GatewayError:
    return GatewayError("LODGE_TABLE_OPTIONS", "42000", text)


STORAGE_FORMATS: Mapping[str, StorageFormat] = {
    each.name: each
    for each in (
        StorageFormat("parquet", {**_ALL_FILES, **_IN_UTC}, frozenset({"compression"}), ("parquet.",)),
        StorageFormat("orc", {**_ALL_FILES, **_IN_UTC}, frozenset({"compression"}), ("orc.",)),
        StorageFormat(
            "json",
            {**_ALL_FILES, **_TIMES, **_IN_UTC, **_STRICT, "ignoreNullFields": "true"},
            _TEXT_OPTIONS | {"ignoreNullFields"},
        ),
        StorageFormat(
            "csv",
            {
                **_ALL_FILES,
                **_TIMES,
                **_IN_UTC,
                **_STRICT,
                "escape": '"',
                "ignoreLeadingWhiteSpace": "false",
                "ignoreTrailingWhiteSpace": "false",
                "lineSep": "\n",  # Spark would take the first line break of a file, which may be in a value
                "multiLine": "true",
                "nullValue": _NO_TEXT,
            },
            _TEXT_OPTIONS
            | {"charToEscapeQuoteEscaping", "delimiter", "emptyValue", "encoding", "escape", "escapeQuotes", "header"}
            | {"ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", "nullValue", "quote", "quoteAll", "sep"},
        ),
    )
}


def find_storage_format(name: str, table: str) -> StorageFormat:
    """Return the storage format with the given name.

    Args:
        name: The name. Case is ignored.
        table: The name of the table to mention in the error message.

    Raises:
        GatewayError: If there is no storage format with this name.
    """
    found = STORAGE_FORMATS.get(name.lower())
    if found is None:
        raise GatewayError(
            "LODGE_STORAGE_FORMAT",
            "0A000",
            f"Table [{table}] cannot be stored as [{name}]. Use one of {', '.join(STORAGE_FORMATS)} after USING or in "
            "the session setting store.format.",
        )
    return found


def storage_options(table: TemporaryTable) -> Mapping[str, str]:
    """Return the options for writes to a table and reads of it.

    Raises:
        GatewayError: If the storage format or an option is not supported.
    """
    return find_storage_format(table.storage_format, table.name).options(dict(table.options))


def unsupported_partitions(storage: StorageFormat) -> GatewayError:
    """Return the error for partitions of a permanent table in a format that does not support them."""
    return GatewayError(
        "LODGE_PARTITION_FORMAT", "0A000", f"{storage.name.capitalize()} format does not support auto-partitioning."
    )


def check_columns(storage: StorageFormat, schema: StructType, partition_columns: Sequence[str]) -> None:
    """Check that Spark can read all columns back exactly as it writes them.

    Args:
        storage: The storage format.
        schema: The schema of the table.
        partition_columns: The columns by which the table is partitioned.

    Raises:
        GatewayError: If Spark would read different values from a column than it wrote.
    """
    partitions = {comparable_name(name) for name in partition_columns}
    for field in schema.fields:
        is_partition = comparable_name(field.name) in partitions
        names = () if is_partition else (field.name, *_names(field.dataType))
        if storage.name == "orc" and any(name == "" or "`" in name for name in names):
            raise GatewayError(
                "LODGE_COLUMN_NAME",
                "0A000",
                f"Column [{field.name}] cannot be stored as [orc], which supports neither empty names nor names with "
                "[`]. Rename the column with AS, or use another format after USING.",
            )
        if any(_is_lost(storage, each, is_partition=is_partition) for each in _types(field.dataType)):
            where = "a partition column" if is_partition else f"a column of a table stored as [{storage.name}]"
            raise SparkError(
                "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE",
                f"Column [{field.name}] has type [{field.dataType.simpleString()}], which {where} cannot have, because "
                "Spark would read back other values. Cast the column, or store the table as [parquet] and do not "
                "partition it by this column.",
                format=storage.name,
                columnName=quote_name(field.name),
                columnType=f'"{field.dataType.simpleString().upper()}"',
            )


def has_times(schema: StructType) -> bool:
    """Return whether a schema contains dates or timestamps."""
    return any(isinstance(each, DateType | TimestampType | TimestampNTZType) for each in _types(schema))


def _is_lost(storage: StorageFormat, kind: DataType, *, is_partition: bool) -> bool:
    if isinstance(kind, BinaryType):
        return is_partition or storage.name == "csv"
    if isinstance(kind, MapType):
        is_variant = isinstance(kind.valueType, VariantType)
        return storage.name == "json" and (is_variant or not isinstance(kind.keyType, StringType))
    if isinstance(kind, ArrayType):
        return storage.name == "json" and isinstance(kind.elementType, VariantType)
    return isinstance(kind, StringType) and storage.name == "orc" and not kind.isUTF8BinaryCollation()


def _types(kind: DataType) -> Iterator[DataType]:
    """Yield a type and all types that are nested in it."""
    yield kind
    if isinstance(kind, StructType):
        below = [field.dataType for field in kind.fields]
    elif isinstance(kind, MapType):
        below = [kind.keyType, kind.valueType]
    else:
        below = [kind.elementType] if isinstance(kind, ArrayType) else []
    for each in below:
        yield from _types(each)


def _names(kind: DataType) -> Iterator[str]:
    """Yield the names of all fields that are nested in a type."""
    for each in _types(kind):
        if isinstance(each, StructType):
            yield from each.names
