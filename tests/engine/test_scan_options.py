"""The options of every scan."""

import pyarrow as pa
import pytest
from pyspark.sql.connect.session import SparkSession

from engine.errors import ScanOptionError
from engine.options import parse_options
from engine.result_set.conversion.local_times import to_instants
from engine.scan_options import ScanOptions
from engine.time_zones import to_arrow_zone

OLD_NAMES = [
    *("ACT", "AET", "AGT", "ART", "AST", "BET", "BST", "CAT", "CNT", "CST", "CTT", "EAT", "ECT", "EST", "HST", "IET"),
    *("IST", "JST", "MIT", "MST", "NET", "NST", "PLT", "PNT", "PRT", "PST", "SST", "VST"),
]


@pytest.fixture
def direct_spark(spark_server):
    session = SparkSession.builder.remote(spark_server).create()
    yield session
    session.stop()


@pytest.mark.parametrize(
    ("zone", "arrow_zone"),
    [
        ("UT", "UTC"),
        ("+18:00", "+18:00"),
        ("EST", "-05:00"),
        ("PST", "America/Los_Angeles"),
        ("PST8PDT", "PST8PDT"),
        ("Etc/GMT+5", "Etc/GMT+5"),
        ("Europe/Berlin", "Europe/Berlin"),
        ("Etc/GMT+2", "Etc/GMT+2"),
        ("+02:00", "+02:00"),
        ("GMT+2", "+02:00"),
        ("UTC-03:30", "-03:30"),
        ("UT+1130", "+11:30"),
        ("Z", "UTC"),
    ],
)
def test_time_zone_accepts_the_forms_of_java(zone, arrow_zone):
    assert parse_options(ScanOptions, {"time_zone": zone}).time_zone == arrow_zone


@pytest.mark.parametrize("zone", ["", "Berlin", "GMT+", "2", "pst", "+02:00:30", "SystemV/PST8"])
def test_unknown_time_zone_is_rejected(zone):
    with pytest.raises(ScanOptionError, match="is not a time zone"):
        parse_options(ScanOptions, {"time_zone": zone})


@pytest.mark.parametrize("zone", ["+99:00", "-18:01", "+02:60"])
def test_offset_that_java_does_not_have_is_rejected(zone):
    with pytest.raises(ScanOptionError, match="is not an offset between"):
        parse_options(ScanOptions, {"time_zone": zone})


@pytest.mark.slow
def test_old_abbreviations_are_the_zones_of_java(direct_spark):
    """Each name gives the same local times as in Spark, in winter and summer."""
    times = [f"{year}-{month}-01 12:00:00" for year in (1975, 1995, 2020) for month in ("01", "07")]
    for zone in [*OLD_NAMES, "UT", "Z", "EST5EDT", "UTC+3", "GMT-8", "+2", "-0730", "Etc/GMT+5"]:
        direct_spark.conf.set("spark.sql.session.timeZone", zone)
        query = ", ".join(f"unix_micros(timestamp'{each}')" for each in times)
        (expected,) = direct_spark.sql(f"select {query}").collect()
        local = pa.array(times).cast(pa.timestamp("us"))
        instants = to_instants(local, to_arrow_zone(zone)).cast(pa.int64())
        assert instants.to_pylist() == list(expected), zone
