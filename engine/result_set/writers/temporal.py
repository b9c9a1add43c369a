"""Writers of dates, times, timestamps and intervals.

These writers accept Python objects, or integers in the unit of the column.
"""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from engine.result_set.writers.column import ColumnContext
from engine.result_set.writers.scalars import FixedWriter

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY_MILLISECONDS = 86_400_000
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class TemporalWriter(FixedWriter):
    """Base class of the writers that store an integer in the unit of the column."""

    __slots__ = ("_per_second",)

    def __init__(self, field: pa.Field, context: ColumnContext) -> None:
        super().__init__(field, context)
        self._per_second = 1 if pt.is_date(field.type) else _PER_SECOND[field.type.unit]

    def _set(self, value: Any) -> None:
        stored = self._to_integer(value)
        try:
            self._put(stored)
        except OverflowError:
            self._refuse(value)

    def set_int(self, value: int) -> None:
        """Write an integer in the unit of the column, counted from 1970 or from midnight."""
        try:
            self._put(value)
        except (OverflowError, TypeError):
            self._refuse(value)

    def _to_integer(self, value: Any) -> int:
        """Convert a value to the unit of the column, or raise an error."""
        raise NotImplementedError

    def _to_units(self, microseconds: int, value: object) -> int:
        units, lost = divmod(microseconds * self._per_second, 1_000_000)
        return self._refuse(value) if lost else units


class DateWriter(TemporalWriter):
    """Writer of dates."""

    __slots__ = ()

    set_date = TemporalWriter._set

    def _to_integer(self, value: Any) -> int:
        if not isinstance(value, date) or isinstance(value, datetime):
            self._refuse(value)
        days = value.toordinal() - _EPOCH_DAY
        return days if self._width_bytes == 4 else days * _DAY_MILLISECONDS


class TimeWriter(TemporalWriter):
    """Writer of times of day."""

    __slots__ = ()

    set_time = TemporalWriter._set

    def _to_integer(self, value: Any) -> int:
        if not isinstance(value, time) or value.tzinfo is not None:
            self._refuse(value)
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return self._to_units(seconds * 1_000_000 + value.microsecond, value)


class TimestampWriter(TemporalWriter):
    """Writer of timestamps, with or without a time zone."""

    __slots__ = ()

    set_timestamp = TemporalWriter._set

    def _to_integer(self, value: Any) -> int:
        has_zone = self.field.type.tz is not None
        if not isinstance(value, datetime) or (value.tzinfo is not None) != has_zone:
            self._refuse(value)
        return self._to_units((value - (_EPOCH_UTC if has_zone else _EPOCH)) // _MICROSECOND, value)


class IntervalWriter(TemporalWriter):
    """Writer of intervals, which are Arrow durations."""

    __slots__ = ()

    set_interval = TemporalWriter._set

    def _to_integer(self, value: Any) -> int:
        if not isinstance(value, timedelta):
            self._refuse(value)
        return self._to_units(value // _MICROSECOND, value)


class Date32Writer(DateWriter):
    """Writer of dates that are stored in 32 bits."""

    __slots__ = ()
    type_code = "i"


class Time32Writer(TimeWriter):
    """Writer of times that are stored in 32 bits."""

    __slots__ = ()
    type_code = "i"
