"""The formats that tables are stored in: what is written, and what must be said so that the same is read back.

Guarantee: a value that was written is read back the same, whatever the format, or the write fails; text and
timestamps above all, where Spark's defaults lose empty text, blanks at the ends, line ends and microseconds.

Not guaranteed: an empty text in a column that a table is partitioned by, which Spark reads as NULL; the ten days in
October 1582 that ORC's calendar leaves out; in CSV, the very text that stands for NULL; and what a statement's own
options of a text format leave out.

Source: seed 001, 5.1.4; Spark's documentation of its Parquet, JSON, CSV and ORC data sources.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType

from gateway.errors import GatewayError
from workspace.name_comparison import comparable_name

_IN_UTC = {"timeZone": "UTC"}
"""The session's may change between writing and reading, and says two times twice a year."""
_TIMES = {
    "dateFormat": "yyyy-MM-dd",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_TEXT_OPTIONS = frozenset({"compression", *_TIMES})
_NO_TEXT = "\x01null\x01"
_STRICT = {"columnNameOfCorruptRecord": "\x01malformed\x01", "mode": "FAILFAST"}
"""What cannot be read back is an error, not NULL; and no column of a table is taken for the place of malformed rows."""


@dataclass(frozen=True, slots=True)
class StorageFormat:
    """A data source of Spark that tables can be stored in.

    Attributes:
        name: As Spark knows it.
        defaults: Options of both writing and reading, unless a statement gives them.
        allowed: The options that a statement may give.
        allowed_prefixes: How other options may begin.
    """

    name: str
    defaults: Mapping[str, str]
    allowed: frozenset[str]
    allowed_prefixes: tuple[str, ...] = ()

    @property
    def is_partitionable(self) -> bool:
        """Seed 001, 5.1.4: only Parquet."""
        return self.name == "parquet"

    def options(self, given: Mapping[str, str]) -> Mapping[str, str]:
        """What to write and to read with.

        Raises: GatewayError for an option that it does not know, or that would lead elsewhere.
        """
        known = {key.lower(): key for key in self.allowed}
        named: dict[str, str] = {}
        for key, value in given.items():
            name = known.get(key.lower())
            if name is None and not key.lower().startswith(self.allowed_prefixes):
                raise GatewayError(
                    "LODGE_TABLE_OPTIONS",
                    "42000",
                    f"Tables stored as [{self.name}] have no option [{key}]. Known are: "
                    f"{', '.join(sorted(self.allowed))}.",
                )
            named[name or key] = value
        return {**self.defaults, **named}


STORAGE_FORMATS: Mapping[str, StorageFormat] = {
    each.name: each
    for each in (
        StorageFormat("parquet", _IN_UTC, frozenset({"compression"}), ("parquet.",)),
        StorageFormat("orc", {}, frozenset({"compression"}), ("orc.",)),
        StorageFormat("json", {**_TIMES, **_IN_UTC, **_STRICT}, _TEXT_OPTIONS | {"ignoreNullFields"}),
        StorageFormat(
            "csv",
            {
                **_TIMES,
                **_IN_UTC,
                **_STRICT,
                "escape": '"',
                "ignoreLeadingWhiteSpace": "false",
                "ignoreTrailingWhiteSpace": "false",
                "multiLine": "true",
                "nullValue": _NO_TEXT,
            },
            _TEXT_OPTIONS
            | {"charToEscapeQuoteEscaping", "delimiter", "emptyValue", "encoding", "escape", "escapeQuotes", "header"}
            | {"ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", "nullValue", "quote", "quoteAll", "sep"},
        ),
    )
}


def storage_format(name: str, table: str) -> StorageFormat:
    """Raises: GatewayError that names the formats there are."""
    found = STORAGE_FORMATS.get(name.lower())
    if found is None:
        raise GatewayError(
            "LODGE_STORAGE_FORMAT",
            "0A000",
            f"Table [{table}] cannot be stored as [{name}]. Give one of {', '.join(STORAGE_FORMATS)} after USING, or "
            "in the session's setting store.format.",
        )
    return found


def refuse_partitions(storage: StorageFormat) -> GatewayError:
    """Seed 001, 5.4: a partition clause for another format than Parquet."""
    return GatewayError(
        "LODGE_PARTITION_FORMAT", "0A000", f"{storage.name.capitalize()} format does not support auto-partitioning."
    )


def check_columns(storage: StorageFormat, schema: StructType, partition_columns: Sequence[str]) -> None:
    """Refuses what Spark would write, but not read back as it was.

    Raises: GatewayError that names the column.
    """
    partitions = {comparable_name(name) for name in partition_columns}
    for field in schema.fields:
        if storage.name == "orc" and any(name == "" or "`" in name for name in (field.name, *_names(field.dataType))):
            raise GatewayError(
                "LODGE_COLUMN_NAME",
                "0A000",
                f"Column [{field.name}] cannot be stored as [orc], which keeps no empty names and none with [`]. Name "
                "it otherwise with AS, or give another format after USING.",
            )
        is_partition = comparable_name(field.name) in partitions
        if any(_is_lost(storage, each, is_partition=is_partition) for each in _types(field.dataType)):
            where = "a column to partition by" if is_partition else f"a column of tables stored as [{storage.name}]"
            raise GatewayError(
                "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE",
                "0A000",
                f"Column [{field.name}] has type [{field.dataType.simpleString()}], which {where} cannot have: Spark "
                "would not read it back as it was. Cast it, or store the table as [parquet] without partitions of it.",
            )


def _is_lost(storage: StorageFormat, kind: DataType, *, is_partition: bool) -> bool:
    if isinstance(kind, BinaryType):
        return is_partition or storage.name == "csv"
    if isinstance(kind, MapType):
        return storage.name == "json" and not isinstance(kind.keyType, StringType)
    return isinstance(kind, StringType) and storage.name == "orc" and not kind.isUTF8BinaryCollation()


def _types(kind: DataType) -> Iterator[DataType]:
    """A type and all types in it."""
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
    """The names of all fields in a type."""
    for each in _types(kind):
        if isinstance(each, StructType):
            yield from each.names
