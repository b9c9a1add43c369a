"""Dates and times of the Julian calendar in columnar files.

Old versions of Spark, Hive and others count days in a calendar that is Julian before 1582-10-15. Arrow reads them in
the proleptic Gregorian calendar, which gives other dates. What a file says of its writer decides, as in Spark:

| file | its calendar |
| --- | --- |
| Parquet, ``org.apache.spark.version`` before 3.0.0, or ``org.apache.spark.legacyDateTime`` | Julian |
| the same with a column of ``INT96``: version before 3.1.0, or ``org.apache.spark.legacyINT96`` | Julian |
| other Parquet files that name a version | proleptic |
| other Parquet files | what the options ``datetime_rebase`` and ``int96_rebase`` of the scan say |
| ORC, unless its footer says that it is proleptic | Julian |

Guarantees:

1. A date gets the same year, month and day in the proleptic calendar. A day that does not exist there, 29 February of
   some years, becomes 1 March.
2. A time before 1900 in a Parquet file of the Julian calendar raises an error. Spark converts it with old rules of time
   zones, which Arrow does not have.

Sources: [spark-data-source], ``DataSourceUtils.datetimeRebaseSpec`` and ``RebaseDateTime``; [orc-format],
``CalendarKind``.
"""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from engine.readers.columnar.leaves import convert_leaves
from engine.readers.columnar.rebase_modes import CORRECTED, LEGACY, RebaseModes

_VERSION: Final = b"org.apache.spark.version"
_FIRST_GREGORIAN_DAY: Final = -141_427
"""1582-10-15, in days since 1970-01-01."""

_JULIAN_DAY_OF_EPOCH: Final = 2_440_588
_DAYS_BEFORE_MARCH: Final = 32_082
"""The number of days from the first March of the Julian year -4800 to the first Julian day."""

_SECONDS_OF_1900: Final = -2_208_988_800
_UNITS_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

Days = npt.NDArray[np.int64]


def modes_of_file(metadata: Mapping[bytes, bytes] | None, modes: RebaseModes) -> RebaseModes:
    """Return how the dates and times of a Parquet file are read.

    Args:
        metadata: The metadata in the footer of the file.
        modes: The modes for files that do not name the version of Spark that wrote them.
    """
    found = metadata or {}
    if _VERSION not in found:
        return modes
    return RebaseModes(
        _mode_of_file(found, b"org.apache.spark.legacyDateTime", b"3.0.0"),
        _mode_of_file(found, b"org.apache.spark.legacyINT96", b"3.1.0"),
    )


def _mode_of_file(metadata: Mapping[bytes, bytes], mark: bytes, first: bytes) -> str:
    return LEGACY if metadata[_VERSION] < first or mark in metadata else CORRECTED


def to_proleptic(days: Days) -> Days:
    """Return the days of dates of the Julian calendar before 1582-10-15, and of the Gregorian one from then on."""
    shifted = days + _JULIAN_DAY_OF_EPOCH + _DAYS_BEFORE_MARCH
    year = (4 * shifted + 3) // 1461 - 4800  # begins in March
    difference = year // 100 - year // 400 - 2
    return np.where(days < _FIRST_GREGORIAN_DAY, days - difference, days)


def rebase_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch in which all dates, also nested ones, are proleptic.

    Raises:
        ArrowInvalid: If the dates cannot be replaced.
    """
    columns = [convert_leaves(column, pt.is_date32, _rebase) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def refuse_unknown_calendar(array: pa.Array, setting: str) -> None:
    """Check that no date in an array is before 1582-10-15, and no timestamp before 1900, also no nested one.

    Args:
        array: The values.
        setting: The setting of Spark that says that such values are errors.

    Raises:
        ArrowInvalid: If there is one.
    """
    _refuse_old(
        array,
        lambda type_: pt.is_date32(type_) or pt.is_timestamp(type_),
        "it has dates before 1582-10-15 or times before 1900, and does not say in which calendar; set "
        f"{setting} to CORRECTED, or to LEGACY if it was written with the Julian calendar",
    )


def refuse_old_times(array: pa.Array) -> None:
    """Check that no timestamp in an array, also no nested one, is before 1900.

    Raises:
        ArrowInvalid: If there is one.
    """
    _refuse_old(
        array,
        pt.is_timestamp,
        "it has times before 1900 of the Julian calendar, which an old version of Spark wrote; read the file with "
        "spark.read.parquet, or write it with a newer version",
    )


def _rebase(array: pa.Array) -> pa.Array:
    numbers = array.cast(pa.int32())
    earliest = pc.min(numbers)
    if not earliest.is_valid or earliest.as_py() >= _FIRST_GREGORIAN_DAY:
        return array
    days = numbers.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    rebased = pa.array(to_proleptic(days).astype(np.int32), mask=array.is_null().to_numpy(zero_copy_only=False))
    return rebased.cast(pa.date32())


def _refuse_old(array: pa.Array, is_checked: Callable[[pa.DataType], bool], problem: str) -> None:
    def check(values: pa.Array) -> pa.Array:
        if pt.is_timestamp(values.type):
            numbers, first = values.cast(pa.int64()), _SECONDS_OF_1900 * _UNITS_PER_SECOND[values.type.unit]
        else:
            numbers, first = values.cast(pa.int32()), _FIRST_GREGORIAN_DAY
        earliest = pc.min(numbers)
        if earliest.is_valid and earliest.as_py() < first:
            raise pa.ArrowInvalid(problem)
        return values

    convert_leaves(array, is_checked, check)
