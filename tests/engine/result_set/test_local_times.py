"""Local times as points in time (engine.result_set.conversion.local_times). Java's rules are those of Spark."""

import datetime

import pyarrow as pa
import pytest

from engine.result_set.conversion.local_times import to_instants
from engine.scan.partition_columns import convert_value


@pytest.mark.parametrize(
    ("zone", "local", "expected"),
    [
        ("Europe/Berlin", "2026-03-29T01:59:59", "2026-03-29T00:59:59"),
        ("Europe/Berlin", "2026-03-29T02:00:00", "2026-03-29T01:00:00"),
        ("Europe/Berlin", "2026-03-29T02:30:00.000001", "2026-03-29T01:30:00.000001"),
        ("Europe/Berlin", "2026-03-29T03:00:00", "2026-03-29T01:00:00"),
        ("Europe/Berlin", "2026-10-25T02:30:00", "2026-10-25T00:30:00"),
        ("Australia/Lord_Howe", "2026-10-04T02:15:00", "2026-10-03T15:45:00"),
        ("Pacific/Apia", "2011-12-30T12:00:00", "2011-12-30T22:00:00"),
        ("+02:00", "2026-03-29T02:30:00", "2026-03-29T00:30:00"),
    ],
)
def test_skipped_times_are_later_and_repeated_ones_are_the_first(zone, local, expected):
    instant = datetime.datetime.fromisoformat(f"{expected}+00:00")
    found = to_instants(pa.array([datetime.datetime.fromisoformat(local), None], pa.timestamp("us")), zone)
    assert found.cast(pa.timestamp("us", "UTC")).to_pylist() == [instant, None]
    partition = convert_value(local.replace("T", " ").replace(":", "%3A"), pa.timestamp("us", zone))
    assert partition.cast(pa.timestamp("us", "UTC")).as_py() == instant
