"""Times of 96 bits in Parquet (engine.readers.columnar.parquet_int96)."""

import datetime

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from engine.readers.columnar.parquet_int96 import to_instants
from engine.readers.reader_errors import FormatError
from tests.engine.file_bytes import written

EPOCH_DAY = 2_440_588
NANOSECONDS_PER_DAY = 86_400 * 10**9
MOMENTS = [
    datetime.datetime(1, 1, 1),
    datetime.datetime(1582, 10, 14, 23, 59, 59, 999999),
    None,
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime.datetime(2001, 2, 3, 4, 5, 6, 789012),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
]


def times(*pairs):
    """Return times of 96 bits from pairs of a Julian day and nanoseconds. None for null."""
    stored = np.zeros(len(pairs), np.dtype([("nanoseconds", "<i8"), ("day", "<i4")]))
    for number, pair in enumerate(pairs):
        if pair is not None:
            stored[number] = (pair[1], pair[0])
    bits = sum((pair is not None) << number for number, pair in enumerate(pairs))
    buffers = [pa.py_buffer(bits.to_bytes(8, "little")), pa.py_buffer(stored.tobytes())]
    return pa.Array.from_buffers(pa.binary(12), len(pairs), buffers)


def microseconds(array):
    return to_instants(array, pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()


def test_nanoseconds_are_rounded_towards_zero_as_in_spark():
    array = times(
        (EPOCH_DAY, 1500), (EPOCH_DAY, -1500), None, (EPOCH_DAY, -1000), (EPOCH_DAY - 1, NANOSECONDS_PER_DAY - 1)
    )
    assert microseconds(array) == [1, -1, None, -1, -1]
    assert microseconds(array.slice(1, 3)) == [-1, None, -1]
    assert microseconds(times()) == []


def test_day_0_is_not_the_epoch():
    assert microseconds(times((0, 0))) == [-EPOCH_DAY * 86_400 * 10**6]


def test_time_beyond_the_range_is_refused():
    with pytest.raises(pa.ArrowInvalid, match="after 294247"):
        microseconds(times((2**31 - 1, 0)))


@pytest.mark.parametrize("how", [{}, {"use_dictionary": False}, {"data_page_version": "2.0"}, {"row_group_size": 4}])
def test_times_of_all_years_at_every_depth(memory_file, how):
    values = pa.array(MOMENTS, pa.timestamp("us"))
    count = len(MOMENTS)
    table = pa.table(
        {
            "n": range(count),
            "at": values,
            "many": pa.ListArray.from_arrays(range(count + 1), values),
            "member": pa.StructArray.from_arrays([values, pa.array(range(count))], ["t", "n"]),
        }
    )
    file = memory_file("a.parquet", written(parquet.write_table, table, use_deprecated_int96_timestamps=True, **how))
    utc = [None if one is None else one.replace(tzinfo=datetime.UTC) for one in MOMENTS]
    assert [row["at"] for row in file.rows(columns=["at"])] == utc
    assert file.rows() == [
        {"n": number, "at": one, "many": [one], "member": {"t": one, "n": number}} for number, one in enumerate(utc)
    ]
    assert [row["n"] for row in file.rows(columns=["n"])] == list(range(count))


def test_cut_footer_is_an_error(memory_file):
    table = pa.table({"at": pa.array(MOMENTS, pa.timestamp("us"))})
    data = written(parquet.write_table, table, use_deprecated_int96_timestamps=True)
    size = int.from_bytes(data[-8:-4], "little")
    with pytest.raises(FormatError):
        memory_file("a.parquet", data[: -8 - size // 2] + size.to_bytes(4, "little") + b"PAR1").rows()
