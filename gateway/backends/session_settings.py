"""The Spark settings that change how Lodge interprets the statements of a session.

As in Spark, ``spark.sql.ansi.doubleQuotedIdentifiers`` has an effect only in ANSI mode.

Source: [temporary-tables §5.1.4] for ``store.format``; Spark's ``SQLConf`` for the other settings.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.sql.lexer import DEFAULT_DIALECT, Dialect
from workspace.name_comparison import comparable_name

_CASE_SENSITIVE = "spark.sql.caseSensitive"
_ANSI = "spark.sql.ansi.enabled"
_DOUBLE_QUOTED_IDENTIFIERS = "spark.sql.ansi.doubleQuotedIdentifiers"
_ESCAPED_STRING_LITERALS = "spark.sql.parser.escapedStringLiterals"
_TIME_ZONE = "spark.sql.session.timeZone"
_STORE_FORMAT = "store.format"
_PARTITION_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"
_FIRST_READERS = "spark.sql.sources.useV1SourceList"

SETTING_DEFAULTS: Mapping[str, str] = {
    _CASE_SENSITIVE: "false",
    _ANSI: "true",
    _DOUBLE_QUOTED_IDENTIFIERS: "false",
    _ESCAPED_STRING_LITERALS: "false",
    _TIME_ZONE: "UTC",
    _STORE_FORMAT: "parquet",
    _PARTITION_OVERWRITE_MODE: "static",
    _FIRST_READERS: "avro,csv,json,kafka,orc,parquet,text",
}
"""The settings to read from the backend, with their default values.

A default value applies if the backend does not have the setting.
"""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The settings of a session when a request arrives.

    Attributes:
        is_case_sensitive: Whether names that differ only in case are different names.
        dialect: How Spark parses names and strings in SQL text.
        time_zone: The time zone in which strings are converted to timestamps.
        store_format: The storage format of new tables without a ``USING`` clause.
        overwrites_partitions: Whether an insertion that overwrites rows replaces only the partitions that they name.
        first_readers: The formats that Spark reads with the first version of its readers. The columns ``_metadata`` are
            missing in the second version.
    """

    is_case_sensitive: bool = False
    dialect: Dialect = DEFAULT_DIALECT
    time_zone: str = "UTC"
    store_format: str = "parquet"
    overwrites_partitions: bool = False
    first_readers: frozenset[str] = frozenset({"orc", "parquet"})

    @classmethod
    def from_values(cls, values: Mapping[str, str]) -> "SessionSettings":
        """Create the settings from their values in the backend.

        The mapping must contain a value for each key of ``SETTING_DEFAULTS``.
        """
        return cls(
            is_case_sensitive=_is_true(values[_CASE_SENSITIVE]),
            dialect=Dialect(
                double_quoted_identifiers=_is_true(values[_ANSI]) and _is_true(values[_DOUBLE_QUOTED_IDENTIFIERS]),
                escaped_string_literals=_is_true(values[_ESCAPED_STRING_LITERALS]),
            ),
            time_zone=values[_TIME_ZONE],
            store_format=values[_STORE_FORMAT].strip().strip("'\"`").lower(),
            overwrites_partitions=values[_PARTITION_OVERWRITE_MODE].strip().lower() == "dynamic",
            first_readers=frozenset(map(str.strip, values[_FIRST_READERS].lower().split(","))),
        )

    def comparable_name(self, name: str) -> str:
        """Return the normalized form of a name.

        Names that the session treats as the same name have the same normalized form.
        """
        return name if self.is_case_sensitive else comparable_name(name)


def _is_true(value: str) -> bool:
    return value.strip().lower() == "true"
