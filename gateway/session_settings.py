"""The settings of a session that change what its statements mean to Lodge.

Source: Spark: SQLConf (``caseSensitive``, ``doubleQuotedIdentifiers``, which counts only while ANSI mode is on,
``sessionLocalTimeZone``); seed 001, 5.1.4 (``store.format``).
"""

from collections.abc import Mapping
from dataclasses import dataclass

_CASE_SENSITIVE = "spark.sql.caseSensitive"
_ANSI = "spark.sql.ansi.enabled"
_DOUBLE_QUOTED_IDENTIFIERS = "spark.sql.ansi.doubleQuotedIdentifiers"
_TIME_ZONE = "spark.sql.session.timeZone"
_STORE_FORMAT = "store.format"

SETTINGS_ASKED_FOR: Mapping[str, str] = {
    _CASE_SENSITIVE: "false",
    _ANSI: "true",
    _DOUBLE_QUOTED_IDENTIFIERS: "false",
    _TIME_ZONE: "UTC",
    _STORE_FORMAT: "parquet",
}
"""What to ask the backend for, with what holds if it knows nothing."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """One session's settings, at the time of one request.

    Attributes:
        is_case_sensitive: Whether names in another letter case are other names.
        double_quoted_identifiers: Whether ``"a"`` is a name, not a string.
        time_zone: For text that becomes a timestamp.
        store_format: The storage format of new tables that name none.
    """

    is_case_sensitive: bool = False
    double_quoted_identifiers: bool = False
    time_zone: str = "UTC"
    store_format: str = "parquet"

    @classmethod
    def from_values(cls, values: Mapping[str, str]) -> "SessionSettings":
        """From the values of the keys in ``SETTINGS_ASKED_FOR``."""
        return cls(
            is_case_sensitive=_is_true(values[_CASE_SENSITIVE]),
            double_quoted_identifiers=_is_true(values[_ANSI]) and _is_true(values[_DOUBLE_QUOTED_IDENTIFIERS]),
            time_zone=values[_TIME_ZONE],
            store_format=values[_STORE_FORMAT].strip().strip("'\"`").lower(),
        )


def _is_true(value: str) -> bool:
    return value.strip().lower() == "true"
