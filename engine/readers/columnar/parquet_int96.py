"""The times of 96 bits of Parquet (``INT96``), in which Spark, Hive, Impala and Arrow write instants.

Such a time has the nanoseconds since midnight in 8 bytes, and the number of the Julian day in 4. Arrow reads some of
them as other times, without an error: those whose nanoseconds are negative, as Arrow itself wrote times before 1970
until version 22, and those of the Julian day 0. Therefore the column is read as bytes, with a footer that says so.

Source: [parquet-format]; [spark-data-source], ``ParquetRowConverter.binaryToSQLTimestamp``.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.readers.columnar.thrift_compact import CompactReader

INT96_BYTES: Final = 12

_FILE_SCHEMA, _FILE_ROW_GROUPS = 2, 4
_ROW_GROUP_COLUMNS, _CHUNK_METADATA = 1, 3
_TYPE, _TYPE_LENGTH = 1, 2
_INT96: Final = 3
_LENGTH: Final = b"\x15\x18"
"""The field ``type_length`` with the value 12, after the field ``type``."""
_ONE_FIELD: Final = 1 << 4
"""What the header of a field is larger by, if it is one field further away from the field before."""

_FIXED_LENGTH_BYTES: Final = 7 << 1
_EPOCH_DAY: Final = 2_440_588
_MICROSECONDS_PER_DAY: Final = 86_400 * 10**6
Numbers = npt.NDArray[np.int64]

_TIME: Final = np.dtype([("nanoseconds", "<i8"), ("day", "<i4")])


def with_bytes_for_int96(footer: bytes) -> bytes:
    """Return a footer in which each column of 96-bit times is a column of 12 bytes.

    Raises:
        ArrowInvalid: If the footer cannot be decoded.
    """
    reader = CompactReader(footer)
    changes: dict[int, bytes] = {}
    try:
        for number, kind in reader.fields():
            if number == _FILE_SCHEMA:
                for _ in range(reader.start_list()):
                    _change_element(reader, footer, changes)
            elif number == _FILE_ROW_GROUPS:
                for _ in range(reader.start_list()):
                    _change_row_group(reader, changes)
            else:
                reader.value(kind)
    except IndexError as error:
        raise pa.ArrowInvalid(str(error)) from error
    parts, end = [], 0
    for position, data in sorted(changes.items()):
        parts += [footer[end:position], data]
        end = position + 1
    return b"".join([*parts, footer[end:]])


def _change_element(reader: CompactReader, footer: bytes, changes: dict[int, bytes]) -> None:
    is_next = False
    for number, kind in reader.fields():
        start = reader.position
        if is_next:
            header = start - 1
            if number == _TYPE_LENGTH:
                changes[start] = _LENGTH[1:]
            elif footer[header] < _ONE_FIELD:
                raise IndexError("The footer does not encode its schema in the shortest form.")
            else:
                changes[header] = _LENGTH + bytes([footer[header] - _ONE_FIELD])
        is_next = number == _TYPE and reader.value(kind) == _INT96
        if is_next:
            changes[start] = bytes([_FIXED_LENGTH_BYTES])
        elif number != _TYPE:
            reader.value(kind)


def _change_row_group(reader: CompactReader, changes: dict[int, bytes]) -> None:
    for number, kind in reader.fields():
        if number != _ROW_GROUP_COLUMNS:
            reader.value(kind)
            continue
        for _ in range(reader.start_list()):
            for of_chunk, kind_of_chunk in reader.fields():
                if of_chunk != _CHUNK_METADATA:
                    reader.value(kind_of_chunk)
                    continue
                for field, kind_of_field in reader.fields():
                    start = reader.position
                    if reader.value(kind_of_field) == _INT96 and field == _TYPE:
                        changes[start] = bytes([_FIXED_LENGTH_BYTES])


def _sum_of(days: Numbers, microseconds: Numbers, choose: Callable[[Numbers], int]) -> int:
    """Return a bound of all times in microseconds, as a number of any size."""
    return int(choose(days)) * _MICROSECONDS_PER_DAY + int(choose(microseconds))


def to_instants(array: pa.FixedSizeBinaryArray, type_: pa.TimestampType) -> pa.TimestampArray:
    """Convert times of 96 bits.

    Args:
        array: The times, each in 12 bytes.
        type_: A type in microseconds.

    Raises:
        ArrowInvalid: If a time is outside the range of the type.
    """
    data = array.buffers()[1]
    times = np.frombuffer(data, _TIME, len(array), array.offset * INT96_BYTES) if len(array) else np.empty(0, _TIME)
    days, nanoseconds = times["day"].astype(np.int64) - _EPOCH_DAY, times["nanoseconds"].astype(np.int64)
    is_null = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    if is_null is not None:
        days[is_null] = nanoseconds[is_null] = 0
    microseconds = nanoseconds // 1000
    if len(days) and nanoseconds.min() < 0:  # Spark rounds towards zero
        microseconds += (nanoseconds < 0) & (nanoseconds % 1000 != 0)
    if len(days) and max(abs(_sum_of(days, microseconds, np.min)), abs(_sum_of(days, microseconds, np.max))) >= 2**63:
        raise pa.ArrowInvalid("it has a time of 96 bits before the year -290308 or after 294247")
    return pa.array(days * _MICROSECONDS_PER_DAY + microseconds, pa.int64(), mask=is_null).view(type_)
