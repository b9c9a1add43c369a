"""Dates and times of the Julian calendar (engine.readers.columnar.calendars)."""

import datetime

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from engine.readers.columnar.calendars import modes_of_file, to_proleptic
from engine.readers.columnar.rebase_modes import CORRECTED, EXCEPTION, LEGACY, RebaseModes
from engine.readers.reader_errors import FormatError
from tests.engine.file_bytes import written

EPOCH = datetime.date(1970, 1, 1)
MARK = b"org.apache.spark.legacyDateTime"
VERSION = b"org.apache.spark.version"
OLD = datetime.date(1000, 3, 5)
"""The day 1000-02-28 of the Julian calendar, as Arrow reads it."""
IN_JULIAN = datetime.date(1000, 2, 28)


def julian_days(year, month, day):
    """Return the days since 1970-01-01 of a date of the Julian calendar, by counting."""
    lengths = [31, 28 + (year % 4 == 0), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    before = sum(366 if other % 4 == 0 else 365 for other in range(1, year))
    return before + sum(lengths[: month - 1]) + day - 1 - 719_164  # 0001-01-01 of the Julian calendar


def test_dates_keep_year_month_and_day():
    for year in [*range(1, 1582, 13), 4, 100, 400, 1000, 1500, 1581]:
        for month in range(1, 13):
            for day in (1, 15, 28):
                expected = (datetime.date(year, month, day) - EPOCH).days
                assert to_proleptic(np.array([julian_days(year, month, day)])).tolist() == [expected], (
                    year,
                    month,
                    day,
                )


def test_days_that_do_not_exist_become_the_next_one():
    expected = (datetime.date(1500, 3, 1) - EPOCH).days
    assert to_proleptic(np.array([julian_days(1500, 2, 29), julian_days(1500, 3, 1)])).tolist() == [expected] * 2


def test_gregorian_dates_stay():
    first = (datetime.date(1582, 10, 15) - EPOCH).days
    last_julian = (datetime.date(1582, 10, 4) - EPOCH).days
    assert to_proleptic(np.array([first - 1, first, 0, 10**6])).tolist() == [last_julian, first, 0, 10**6]


@pytest.mark.parametrize(
    ("metadata", "is_julian"),
    [
        ({}, False),
        ({VERSION: b"2.4.6"}, True),
        ({VERSION: b"3.0.0"}, False),
        ({VERSION: b"4.3.0", MARK: b""}, True),
        ({MARK: b""}, False),
    ],
)
def test_writer_decides(memory_file, metadata, is_julian):
    assert (modes_of_file(metadata, RebaseModes()).datetime == LEGACY) is is_julian
    nested = pa.array([[{"d": OLD}, None], None, []], pa.list_(pa.struct([("d", pa.date32())])))
    named = pa.array([[("a", OLD)], [], None], pa.map_(pa.string(), pa.date32()))
    table = pa.table({"day": pa.array([OLD, None, EPOCH]), "nested": nested, "named": named})
    file = memory_file("a.parquet", written(parquet.write_table, table.replace_schema_metadata(metadata)))
    found = IN_JULIAN if is_julian else OLD
    assert file.rows() == [
        {"day": found, "nested": [{"d": found}, None], "named": [("a", found)]},
        {"day": None, "nested": None, "named": []},
        {"day": EPOCH, "nested": [], "named": None},
    ]


@pytest.mark.parametrize("is_int96", [False, True])
def test_old_times_of_julian_files_are_refused(memory_file, is_int96):
    for moment, is_refused in ((datetime.datetime(1899, 12, 31), True), (datetime.datetime(1900, 1, 1), False)):
        table = pa.table({"at": pa.array([moment, None], pa.timestamp("us")), "n": [1, 2]})
        table = table.replace_schema_metadata({VERSION: b"2.4.6"})
        data = written(parquet.write_table, table, use_deprecated_int96_timestamps=is_int96)
        file = memory_file("a.parquet", data)
        if is_refused:
            with pytest.raises(FormatError, match="before 1900 of the Julian calendar"):
                file.rows()
        else:
            assert len(file.rows()) == 2
        assert [row["n"] for row in file.rows(columns=["n"])] == [1, 2]


def test_dates_of_orc_are_julian_unless_the_file_says_otherwise(memory_file):
    table = pa.table({"day": pa.array([OLD, None]), "many": pa.array([[OLD], None])})
    assert memory_file("a.orc", written(orc.write_table, table)).rows() == [
        {"day": IN_JULIAN, "many": [IN_JULIAN]},
        {"day": None, "many": None},
    ]


def test_mode_of_the_scan_is_for_files_without_a_version():
    modes = RebaseModes(EXCEPTION, LEGACY)
    assert modes_of_file(None, modes) == modes_of_file({MARK: b""}, modes) == modes
    assert modes_of_file({VERSION: b"4.0.0"}, modes) == RebaseModes(CORRECTED, CORRECTED)
    assert modes_of_file({VERSION: b"3.0.1"}, modes) == RebaseModes(CORRECTED, LEGACY)
