"""The settings of a session as the gateway understands them."""

import pytest

from gateway.backends.session_settings import SETTING_DEFAULTS, SessionSettings


def test_default_values_are_those_of_a_session_without_settings():
    found = SessionSettings.from_values({**SETTING_DEFAULTS, "spark.sql.sources.useV1SourceList": "orc,parquet"})
    assert found == SessionSettings()


@pytest.mark.parametrize(
    ("key", "value", "formats"),
    [
        ("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MILLIS", ["parquet"]),
        ("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS", []),
        ("spark.sql.parquet.int96RebaseModeInWrite", "legacy", ["parquet"]),
        ("spark.sql.orc.impl", "hive", ["orc"]),
        ("spark.sql.legacy.timeParserPolicy", "LEGACY", ["json", "csv"]),
        ("spark.sql.legacy.timeParserPolicy", "EXCEPTION", []),
    ],
)
def test_setting_that_changes_times_is_found_for_its_formats(key, value, formats):
    settings = SessionSettings.from_values({**SETTING_DEFAULTS, key: value})
    found = {storage: settings.find_inexact_times(storage) for storage in ("parquet", "orc", "json", "csv")}
    assert found == {storage: key if storage in formats else None for storage in found}
