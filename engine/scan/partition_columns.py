"""Partition columns, whose values are in the names of directories such as ``year=2026/month=11``.

Spark, Hive and other systems write such directories. A scan adds the columns after the columns of the files, as Spark's
readers do.

Guarantees:

1. All files of a scan have the same partition columns, in the same order. Otherwise an error is raised that names two
   directories.
2. A type fits the values of all directories. It is the type that Spark infers: ``int``, ``bigint``, a decimal without
   digits after the point, ``double``, ``date``, ``timestamp``, or ``string`` if the values have no common type.
3. ``__HIVE_DEFAULT_PARTITION__`` is null. Names and values are unescaped: ``%3A`` is a colon. As in Spark, an escaped
   number is a text.

Sources: [spark-partitioning], [hive-partitioning].
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from pathlib import PurePosixPath
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.types as pt

from engine.arrow_types import text_array
from engine.errors import PartitionError
from engine.result_set.conversion.decimals import cast_decimals
from engine.result_set.conversion.local_times import to_instants
from engine.scan_source import IMPLICIT_NAME
from engine.schema import MAX_DECIMAL_DIGITS, fold_case

_NULL_VALUE = "__HIVE_DEFAULT_PARTITION__"
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?", re.ASCII)
_DOUBLE = re.compile(r"\s*([+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))[fFdD]?\s*", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d)?", re.ASCII)
_BOOLEAN = re.compile(r"true|false", re.ASCII | re.IGNORECASE)
_PATTERNS = ((pt.is_boolean, _BOOLEAN), (pt.is_integer, _INTEGER), (pt.is_decimal, _DECIMAL))
"""The texts that Spark converts to a declared type. Unlike other casts, it does not ignore spaces."""

_INSTANT = pa.timestamp("us", "UTC")
_WHOLE = pa.decimal128(MAX_DECIMAL_DIGITS, 0)
_DIGITS = {pa.int32(): 10, pa.int64(): 20}


def partition_pairs(directories: Sequence[str]) -> Sequence[tuple[str, str | None]]:
    """Return the names and values of the partition columns in the names of directories. None means null.

    The names are unescaped, the values are not. The names of implicit columns, such as ``dir0``, are left out.
    """
    split = (name.partition("=") for name in directories if "=" in name)
    pairs = [(_unescape(key), value) for key, _, value in split if key]
    return [
        (key, None if value == _NULL_VALUE else value) for key, value in pairs if IMPLICIT_NAME.fullmatch(key) is None
    ]


def find_partition_columns(directories: Iterable[Sequence[str]], workspace: str, selected: str) -> Sequence[pa.Field]:
    """Return the partition columns of a scan.

    Args:
        directories: The directories of each file, below the selected directory.
        workspace: The name of the workspace, for error messages.
        selected: The selected directory, for error messages.

    Raises:
        PartitionError: If two files have different partition columns, or a value is empty.
    """
    values: dict[str, set[str]] = {}
    first: Sequence[str] | None = None
    for names in dict.fromkeys(tuple(each) for each in directories):
        pairs = partition_pairs(names)
        keys = [fold_case(key) for key, _ in pairs]
        place = str(PurePosixPath(selected, *names))
        if any(value == "" for _, value in pairs):
            raise PartitionError(workspace, place, "has a name without a value")
        if len(set(keys)) < len(keys):
            raise PartitionError(workspace, place, "has two names that are equal when case is ignored")
        first = names if first is None else first
        if keys != [fold_case(key) for key, _ in partition_pairs(first)]:
            other = str(PurePosixPath(selected, *first))
            raise PartitionError(workspace, place, f"does not give the same partition columns as {other!r}")
        for key, (_, value) in zip(keys, pairs, strict=True):
            values.setdefault(key, set()).update([] if value is None else [value])
    return [pa.field(key, _common_type(values[fold_case(key)])) for key, _ in partition_pairs(first or ())]


def convert_value(text: str | None, type_: pa.DataType) -> pa.Scalar:
    """Return the value of a partition column.

    Args:
        text: The value in the name of a directory, which may be escaped, or None.
        type_: The type of the column. A timestamp without an offset is in the time zone of the type. The offset is
            ignored if the type has no time zone, as Spark does.

    Raises:
        ValueError: If the text is not a value of the type, which a user has declared.
    """
    if text is None:
        return pa.nulls(1, type_)[0]
    if pt.is_string(type_):
        return text_array(_unescape(text))[0]
    if pt.is_timestamp(type_):
        return _to_timestamp(datetime.fromisoformat(_unescape(text)), type_)
    if pt.is_date(type_):
        return text_array(date.fromisoformat(text).isoformat()).cast(type_)[0]
    if pt.is_floating(type_):
        return text_array(str(_to_float(text))).cast(pa.float64()).cast(type_, safe=False)[0]
    for is_kind, pattern in _PATTERNS:
        if is_kind(type_) and pattern.fullmatch(text) is not None:
            exact = _WHOLE if pt.is_integer(type_) else type_
            texts = text_array(text.lower())
            return (texts if pt.is_boolean(type_) else cast_decimals(texts, exact)).cast(type_)[0]
    raise ValueError(text)


def _common_type(values: Iterable[str]) -> pa.DataType:
    merged: pa.DataType = reduce(_merge, map(_type_of, values), pa.null())
    return pa.string() if pt.is_null(merged) else merged


def _type_of(value: str) -> pa.DataType:
    if _DECIMAL.fullmatch(value) and int(Decimal(value).as_tuple().exponent) >= 0:
        number = int(Decimal(value))
        is_plain = _INTEGER.fullmatch(value) is not None
        for bits, type_ in ((32, pa.int32()), (64, pa.int64())):
            if is_plain and -(1 << (bits - 1)) <= number < 1 << (bits - 1):
                return type_
        digits = len(str(abs(number)))
        return pa.decimal128(digits, 0) if digits <= MAX_DECIMAL_DIGITS else pa.float64()
    for pattern, type_ in ((_DOUBLE, pa.float64()), (_TIMESTAMP, _INSTANT), (_DATE, pa.date32())):
        if pattern.fullmatch(_unescape(value) if type_ is _INSTANT else value):
            with suppress(ValueError):  # there is no such day or time
                convert_value(value, type_)
                return type_
    return pa.string()


def _unescape(text: str) -> str:
    """Replace each escape by one character, as Spark does. Other characters stay, also those beyond ASCII."""
    return unquote(text, encoding="latin-1") if "%" in text else text


def _to_timestamp(time: datetime, type_: pa.DataType) -> pa.Scalar:
    local = text_array(time.replace(tzinfo=None).isoformat()).cast(pa.timestamp("us"))
    if type_.tz is None:
        return local.cast(type_)[0]
    if time.tzinfo is not None:
        try:
            instant = time.astimezone(UTC).replace(tzinfo=None)
        except OverflowError as error:  # the year 0 or 10000
            raise ValueError(str(time)) from error
        return _to_timestamp(instant, _INSTANT).cast(type_)
    return to_instants(local, type_.tz).cast(type_)[0]


def _to_float(text: str) -> float:
    found = _DOUBLE.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return float(found[1])


def _merge(first: pa.DataType, second: pa.DataType) -> pa.DataType:
    """Return the type that Spark chooses for the values of two types."""
    if first.equals(second) or pt.is_null(first):
        return second
    both = (first, second)
    if all(pt.is_integer(each) for each in both):
        return pa.int64()
    if all(pt.is_integer(each) or pt.is_decimal(each) for each in both):
        digits = max(each.precision if pt.is_decimal(each) else _DIGITS[each] for each in both)
        return pa.decimal128(digits, 0)
    if set(both) == {pa.int32(), pa.float64()}:
        return pa.float64()
    if set(both) == {pa.date32(), _INSTANT}:
        return _INSTANT
    return pa.string()
