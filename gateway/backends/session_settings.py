"""The Spark settings that change how Lodge interprets the statements of a session.

As in Spark, ``spark.sql.ansi.doubleQuotedIdentifiers`` has an effect only in ANSI mode.

Source: [temporary-tables §5.1.4] for ``store.format``; Spark's ``SQLConf`` for the other settings.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.sql.lexer import DEFAULT_DIALECT, Dialect
from workspace.name_comparison import comparable_name

_CASE_SENSITIVE = "spark.sql.caseSensitive"
_ANSI = "spark.sql.ansi.enabled"
_DOUBLE_QUOTED_IDENTIFIERS = "spark.sql.ansi.doubleQuotedIdentifiers"
_ESCAPED_STRING_LITERALS = "spark.sql.parser.escapedStringLiterals"
_TIME_ZONE = "spark.sql.session.timeZone"
_REBASE_MODES: Mapping[str, str] = {
    "datetime_rebase": "spark.sql.parquet.datetimeRebaseModeInRead",
    "int96_rebase": "spark.sql.parquet.int96RebaseModeInRead",
}
"""The settings that are options of scans, by the name of the option."""

_CORRECTED = "CORRECTED"
_STORE_FORMAT = "store.format"
_PARTITION_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"
_FIRST_READERS = "spark.sql.sources.useV1SourceList"

_CHAR_AS_STRING = "spark.sql.legacy.charVarcharAsString"
_CHAR_AS_VARCHAR = "spark.sql.charAsVarchar"
_ENFORCE_NOT_NULL = "spark.sql.fileSource.insert.enforceNotNull"
_CONSTANTS_AS_TEXTS = (
    "spark.sql.legacy.keepPartitionSpecAsStringLiteral",
    "spark.sql.legacy.parseNullPartitionSpecAsStringLiteral",
)
_INEXACT_TIMES: Mapping[str, tuple[str, str, frozenset[str]]] = {
    "spark.sql.legacy.timeParserPolicy": ("CORRECTED", "legacy", frozenset({"csv", "json"})),
    "spark.sql.orc.impl": ("native", "hive", frozenset({"orc"})),
    "spark.sql.parquet.datetimeRebaseModeInWrite": ("CORRECTED", "legacy", frozenset({"parquet"})),
    "spark.sql.parquet.int96RebaseModeInWrite": ("CORRECTED", "legacy", frozenset({"parquet"})),
    "spark.sql.parquet.outputTimestampType": ("INT96", "timestamp_millis", frozenset({"parquet"})),
}
"""The settings with which Spark changes some dates and times when it writes them.

Each has its default value, the value with which Spark changes them, and the formats that it concerns.
"""

SETTING_DEFAULTS: Mapping[str, str] = {
    _CASE_SENSITIVE: "false",
    _ANSI: "true",
    _DOUBLE_QUOTED_IDENTIFIERS: "false",
    _ESCAPED_STRING_LITERALS: "false",
    _TIME_ZONE: "UTC",
    **dict.fromkeys(_REBASE_MODES.values(), _CORRECTED),
    _STORE_FORMAT: "parquet",
    _PARTITION_OVERWRITE_MODE: "static",
    _FIRST_READERS: "avro,csv,json,kafka,orc,parquet,text",
    _CHAR_AS_STRING: "false",
    _CHAR_AS_VARCHAR: "false",
    _ENFORCE_NOT_NULL: "false",
    **dict.fromkeys(_CONSTANTS_AS_TEXTS, "false"),
    **{key: default for key, (default, _, _) in _INEXACT_TIMES.items()},
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
        scan_options: The options of scans that are settings of the session, such as the time zone in which strings are
            converted to timestamps.
        store_format: The storage format of new tables without a ``USING`` clause.
        overwrites_partitions: Whether an insertion that overwrites rows replaces only the partitions that they name.
        first_readers: The formats that Spark reads with the first version of its readers. The columns ``_metadata`` are
            missing in the second version.
        char_is_string: Whether new columns have ``STRING`` in the place of ``CHAR`` and ``VARCHAR``.
        char_is_varchar: Whether new columns have ``VARCHAR`` in the place of ``CHAR``.
        enforces_not_null: Whether Spark refuses to insert NULL into columns with ``NOT NULL``.
        partition_constants_are_texts: Whether some constants in ``PARTITION`` have another meaning than in a query.
        inexact_times: The settings of the session with which Spark changes some dates and times when it writes them.
    """

    is_case_sensitive: bool = False
    dialect: Dialect = DEFAULT_DIALECT
    scan_options: Mapping[str, str] = field(default_factory=lambda: {"time_zone": "UTC"})
    store_format: str = "parquet"
    overwrites_partitions: bool = False
    first_readers: frozenset[str] = frozenset({"orc", "parquet"})
    char_is_string: bool = False
    char_is_varchar: bool = False
    enforces_not_null: bool = False
    partition_constants_are_texts: bool = False
    inexact_times: frozenset[str] = frozenset()

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
            scan_options={
                "time_zone": values[_TIME_ZONE],
                **{
                    option: mode
                    for option, key in _REBASE_MODES.items()
                    if (mode := _mode(values[key])) != _mode(_CORRECTED)
                },
            },
            store_format=values[_STORE_FORMAT].strip().strip("'\"`").lower(),
            overwrites_partitions=values[_PARTITION_OVERWRITE_MODE].strip().lower() == "dynamic",
            first_readers=frozenset(map(str.strip, values[_FIRST_READERS].lower().split(","))),
            char_is_string=_is_true(values[_CHAR_AS_STRING]),
            char_is_varchar=_is_true(values[_CHAR_AS_VARCHAR]),
            enforces_not_null=_is_true(values[_ENFORCE_NOT_NULL]),
            partition_constants_are_texts=any(_is_true(values[key]) for key in _CONSTANTS_AS_TEXTS),
            inexact_times=frozenset(
                key for key, (_, inexact, _) in _INEXACT_TIMES.items() if values[key].strip().lower() == inexact
            ),
        )

    def find_inexact_times(self, storage_format: str) -> str | None:
        """Return a setting with which Spark changes some dates and times when it writes files in a format."""
        return next((key for key in sorted(self.inexact_times) if storage_format in _INEXACT_TIMES[key][2]), None)

    def comparable_name(self, name: str) -> str:
        """Return the normalized form of a name.

        Names that the session treats as the same name have the same normalized form.
        """
        return name if self.is_case_sensitive else comparable_name(name)


def _mode(value: str) -> str:
    return value.strip().lower()


def _is_true(value: str) -> bool:
    return value.strip().lower() == "true"
