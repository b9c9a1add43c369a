"""The options of every scan."""

import pytest

from engine.errors import ScanOptionError
from engine.options import parse_options
from engine.scan_options import ScanOptions


@pytest.mark.parametrize(
    ("zone", "arrow_zone"),
    [
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


@pytest.mark.parametrize("zone", ["", "Berlin", "+99:00", "GMT+", "2"])
def test_unknown_time_zone_is_rejected(zone):
    with pytest.raises(ScanOptionError, match="is not a time zone"):
        parse_options(ScanOptions, {"time_zone": zone})
