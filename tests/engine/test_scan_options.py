"""Options of scans."""

import pytest

from engine.errors import ScanOptionError
from engine.scan_options import ScanOptions, validate_options


@pytest.mark.parametrize(
    ("zone", "as_arrow_writes_it"),
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
def test_a_time_zone_may_be_any_offset_that_a_session_has(zone, as_arrow_writes_it):
    assert validate_options(ScanOptions, {"time_zone": zone}).time_zone == as_arrow_writes_it


@pytest.mark.parametrize("zone", ["", "Berlin", "+99:00", "GMT+", "2"])
def test_what_is_no_time_zone_is_refused(zone):
    with pytest.raises(ScanOptionError, match="is no time zone"):
        validate_options(ScanOptions, {"time_zone": zone})
