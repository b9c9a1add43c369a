"""Values at the edges of each type, for the writers in Python. Each column has the same number of rows.

This module needs only the standard library, because each writer runs in an environment of its own.
"""

from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

ROWS = 8

BOOLEANS = [True, False, None, True, True, False, None, False]

FLOATS = [0.0, -0.0, float("nan"), float("inf"), float("-inf"), None, 1.1754943508222875e-38, -3.4028234663852886e38]
DOUBLES = [0.0, -0.0, float("nan"), float("inf"), float("-inf"), None, 5e-324, -1.7976931348623157e308]
HALVES = [0.0, -0.0, float("nan"), float("inf"), float("-inf"), None, 6e-08, -65504.0]

STRINGS = ["", " ", "a'b\"c\\d", "line\nand\ttab", "Grüße 漢字 😀", None, "e\u0301 is not \u00e9", "x" * 70]
BINARIES = [b"", b"\x00", b"\xff\xfe", b"abc", b"\x80" * 70, None, "Grüße".encode(), b"NULL"]
FIXED_BINARIES = [bytes(4), b"abcd", b"\xff" * 4, None, b"\x00\x01\x02\x03", b"    ", b"\x7f\x80\x81\x82", None]
UUIDS = [
    UUID(int=0),
    UUID(int=2**128 - 1),
    UUID("00112233-4455-6677-8899-aabbccddeeff"),
    None,
    *(UUID(int=1 << shift) for shift in (0, 63, 64, 127)),
]
JSONS = ["{}", "[]", "null", '{"a": 1.0, "b": "ä"}', "1", None, '"text"', " true "]
ENUMS = ["one", "two", None, "one", "three", "three", None, "one"]

DATES = [
    date(1, 1, 1),
    date(1582, 10, 4),
    date(1582, 10, 15),
    date(1969, 12, 31),
    date(1970, 1, 1),
    None,
    date(2024, 2, 29),
    date(9999, 12, 31),
]
MICROSECOND_TIMESTAMPS = [
    datetime(1, 1, 1),
    datetime(1582, 10, 14, 23, 59, 59, 999999),
    datetime(1883, 11, 18, 12, 0, 0, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(1970, 1, 1),
    None,
    datetime(2024, 3, 10, 2, 30, 0, 123456),
    datetime(9999, 12, 31, 23, 59, 59, 999999),
]
NANOSECOND_TIMESTAMPS = [
    datetime(1677, 9, 22),
    datetime(1883, 11, 18, 12, 0, 0, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(1970, 1, 1),
    datetime(2024, 10, 27, 1, 30, 0, 1),
    None,
    datetime(2024, 3, 10, 2, 30, 0, 123456),
    datetime(2262, 4, 11, 23, 47, 16, 854775),
]
"""Times that a count of nanoseconds in 64 bits can hold."""

MICROSECOND_TIMES = [
    time(0),
    time(0, 0, 0, 1),
    time(12, 34, 56, 789012),
    time(23, 59, 59, 999999),
    time(11, 59, 59),
    None,
    time(1, 2, 3, 4000),
    time(23, 59, 59),
]
DURATIONS = [
    timedelta(0),
    timedelta(microseconds=-1),
    timedelta(days=1, hours=2, minutes=3, seconds=4, microseconds=5),
    timedelta(days=-100000),
    timedelta(days=100000),
    None,
    timedelta(milliseconds=1),
    timedelta(seconds=1),
]

LISTS = [[], [None], [1, 2, 3], None, [1, None, -1], [2**31 - 1, -(2**31)], [0], [7] * 10]
STRING_LISTS = [[], [None], ["", "a"], None, ["ä", None], ["😀"], [" "], ["x"] * 10]
NESTED_LISTS = [[], [None], [[]], None, [[1, None], None, []], [[2**31 - 1]], [[0], [1]], [[], []]]
MAPS = [{}, {"a": 1}, {"": None, "ä": 2}, None, {"x": 3, "y": 4}, {"z": None}, {" ": 0}, {"long": 2**31 - 1}]
STRUCTS = [
    {"a": 1, "b": "x"},
    {"a": None, "b": None},
    None,
    {"a": -1, "b": ""},
    {"a": 2**31 - 1, "b": "ä"},
    None,
    {"a": 0, "b": " "},
    {"a": 5, "b": None},
]
STRUCT_LISTS = [[], [None], [{"a": 1, "b": "x"}], None, [{"a": None, "b": None}], [STRUCTS[0], None], [STRUCTS[3]], []]


def integers(bits, is_signed=True):
    """Return the edges of a type of integers."""
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    return [low, low + 1, 0, 1, high - 1, None, high, 7]


def decimals(precision, scale):
    """Return the edges of a type of decimals."""
    high = 10**precision - 1
    digits = [0, 1, -1, high, -high, None, high // 2, 10 ** (precision - 1)]
    # A tuple of digits keeps all of them, while arithmetic would round to 28 digits.
    return [None if n is None else Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)) for n in digits]


def in_utc(values):
    """Return times with the time zone UTC."""
    return [value and value.replace(tzinfo=timezone.utc) for value in values]  # noqa: UP017 - also Python 3.8 runs this


def in_milliseconds(values):
    """Return times without their microseconds."""
    return [value and value.replace(microsecond=value.microsecond // 1000 * 1000) for value in values]
