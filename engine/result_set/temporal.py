"""Writers of dates, times, timestamps and intervals: Python's objects, or whole numbers in the column's unit."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from engine.result_set.scalars import FixedWriter
from engine.result_set.writer import Place

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY_MILLISECONDS = 86_400_000
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class TemporalWriter(FixedWriter):
    __slots__ = ("_per_second",)

    def __init__(self, field: pa.Field, place: Place) -> None:
        super().__init__(field, place)
        self._per_second = 1 if pt.is_date(field.type) else _PER_SECOND[field.type.unit]

    def set_value(self, value: Any) -> None:
        if value is None:
            self.set_null()
        else:
            self._put_raw(self._to_raw(value), value)

    def set_int(self, value: int) -> None:
        """A number in the unit of the column, since 1970 or midnight."""
        self._put_raw(value, value)

    def _to_raw(self, value: Any) -> int:
        """Of the kind of Python object that the column takes."""
        raise NotImplementedError

    def _put_raw(self, raw: int, value: object) -> None:
        try:
            self._put(raw)
        except (OverflowError, TypeError):
            self._refuse(value)

    def _units(self, microseconds: int, value: object) -> int:
        units, lost = divmod(microseconds * self._per_second, 1_000_000)
        return self._refuse(value) if lost else units


class DateWriter(TemporalWriter):
    __slots__ = ()

    def set_date(self, value: date) -> None:
        self._put_raw(self._to_raw(value), value)

    def _to_raw(self, value: Any) -> int:
        if not isinstance(value, date) or isinstance(value, datetime):
            self._refuse(value)
        days = value.toordinal() - _EPOCH_DAY
        return days if self._width_bytes == 4 else days * _DAY_MILLISECONDS


class TimeWriter(TemporalWriter):
    __slots__ = ()

    def set_time(self, value: time) -> None:
        self._put_raw(self._to_raw(value), value)

    def _to_raw(self, value: Any) -> int:
        if not isinstance(value, time) or value.tzinfo is not None:
            self._refuse(value)
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return self._units(seconds * 1_000_000 + value.microsecond, value)


class TimestampWriter(TemporalWriter):
    __slots__ = ()

    def set_timestamp(self, value: datetime) -> None:
        self._put_raw(self._to_raw(value), value)

    def _to_raw(self, value: Any) -> int:
        has_zone = self.field.type.tz is not None
        if not isinstance(value, datetime) or (value.tzinfo is not None) != has_zone:
            self._refuse(value)
        return self._units((value - (_EPOCH_UTC if has_zone else _EPOCH)) // _MICROSECOND, value)


class IntervalWriter(TemporalWriter):
    __slots__ = ()

    def set_interval(self, value: timedelta) -> None:
        self._put_raw(self._to_raw(value), value)

    def _to_raw(self, value: Any) -> int:
        if not isinstance(value, timedelta):
            self._refuse(value)
        return self._units(value // _MICROSECOND, value)


class Date32Writer(DateWriter):
    __slots__ = ()
    type_code = "i"


class Time32Writer(TimeWriter):
    __slots__ = ()
    type_code = "i"
