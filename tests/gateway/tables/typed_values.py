"""Values of every type of Spark, the positions in which a table can have them, and texts that tell them apart."""

import random
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

NULL = "cast(null as string)"
LONG = 300
"""The length of a text that is too long for the name of a directory."""


def _numbers(kind: str, bits: int) -> Sequence[str]:
    return [f"cast('{value}' as {kind})" for value in (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0, 1, -1)]


def _floats(kind: str, *extremes: str) -> Sequence[str]:
    values = ("NaN", "Infinity", "-Infinity", "-0.0", "0.0", "1.5", "0.1", "1e10", "123456789.125", *extremes)
    return [f"cast('{value}' as {kind})" for value in values]


def _decimals(precision: int, scale: int) -> Sequence[str]:
    digits = "9" * precision
    largest = f"{digits[: precision - scale]}.{digits[precision - scale :]}"
    smallest = "1" if scale == 0 else f"0.{'1'.zfill(scale)}"
    return [f"cast('{text}' as decimal({precision},{scale}))" for text in (largest, f"-{largest}", smallest, "0")]


def _texts(values: Sequence[str], collation: str = "") -> Sequence[str]:
    return [f"{text} collate {collation}" if collation else text for text in map(literal, values)]


def literal(text: str) -> str:
    plain = string.ascii_letters + string.digits
    return f"'{''.join(each if each in plain else chr(92) + f'U{ord(each):08X}' for each in text)}'"


def _times(name: str, make: str) -> Mapping[str, Sequence[str]]:
    """Return the values of a type, by the name of the type with a remark.

    Args:
        name: The name.
        make: An expression of a time by its microseconds since 1970.
    """
    remarks = {
        "": MICROSECONDS,
        " (between calendars)": BETWEEN_CALENDARS,
        " (end of 1969)": LAST_OF_1969,
        " (last)": LAST_MICROSECONDS,
        " (first)": FIRST_MICROSECONDS,
    }
    return {f"{name}{remark}": [make.format(each) for each in values] for remark, values in remarks.items()}


MICROSECONDS = (
    0,
    -1000000,
    1730615400000000,  # 2024-11-03 06:30, an hour that New York has twice
    1710037800000000,  # 2024-03-10 02:30, an hour that New York skips
    1600000000123456,
    253402300799999999,  # 9999-12-31
    253402300800000000,  # 10000-01-01
    -62135596800000000,  # 0001-01-01
    -62135596800000001,
    -62167219200000001,  # before the year 0
    -2717640239000000,  # 1883-11-18 12:03
    -2208988800000001,  # before 1900
    -14831769600000001,  # 1499
    -12219292800000000,  # 1582-10-15
    -12220156800000001,  # before 1582-10-05
)
BETWEEN_CALENDARS = (-12219292800000001, -12219724800000000)
LAST_OF_1969 = (-1, -999999)
LAST_MICROSECONDS = (9223372036854775807, 9223372036853999999)
FIRST_MICROSECONDS = (-9223372036854775808, -9223372036854000001)
"""The first times of Spark, which are before the first whole second."""
DAYS = (0, -1, 18000, 2932896, 2932897, -719162, -719163, -719529, -141427, -141438, -171499)
DAYS_BETWEEN_CALENDARS = (-141428, -141432, -141437)
LAST_DAYS = (2147483647, 2147483646)
FIRST_DAYS = (-2147483648,)
TEXTS = (
    "",
    "text",
    " lead, trail ",
    "a\nb\r\nc\td",
    "\r",
    '"q""',
    '"',
    '"abc"',
    "it's",
    "\\",
    "\\N",
    "a\\",
    'a\\"b',
    "null",
    "NULL",
    "\x00",
    "\x00x",
    "a\x01\x02\x1f\x7f\x80\x9f\x85",
    "\x01null",
    "\u2028\u2029\ufeff\ufffd\ufffe",
    "\ufeffx",
    "é",
    "e\u0301",
    "😀",
    "straße İ",
    "#x",
    "NaN",
    "1",
    "-0.0",
    "true",
    "2020-01-01",
    "{}",
    "[1]",
    "a,b;c|d\te",
    "x" * LONG,
    "\U0010ffff",
    "__HIVE_DEFAULT_PARTITION__",
    "__DEFAULT_PARTITION__",
)
PARTITION_TEXTS = (
    "..",
    ".",
    "...",
    ".hidden",
    "_x",
    "a/b",
    "a=b",
    "a=b/c=%d",
    "100%",
    "%41",
    "%2F",
    "%",
    "trailing.",
    " ",
    "  x ",
    "a b",
    '{}?*:;#"[]^\\',
    "`",
    "'",
    "~",
    "$a${b}",
    "&+,@!<>",
    "p=1",
    "007",
    "1.50",
    "1e5",
    "-0",
)
POINT = "X'0101000000000000000000F03F0000000000000040'"
LINE = "X'01020000000200000000000000000000000000000000000000000000000000F03F0000000000000840'"
DAY_TIME = ("day", "day to hour", "day to minute", "day to second", "hour", "hour to minute", "hour to second")
LARGEST = {"day": "106751991", "hour": "2562047788", "minute": "153722867280", "second": "9223372036854.775807"}
SMALLEST_DAY_TIME = "interval '-106751991 04:00:54.775808' day to second"

PRECISIONS = [*((p, 0) for p in range(1, 39)), *((p, p) for p in range(1, 39)), (5, 2), (10, 3), (18, 9), (38, 18)]
VARIANTS = (
    """parse_json('{"a": [1, null, {"b": "x"}], "": 2.50, "Ä": true, "c.d": 1e300}')""",
    "parse_json('null')",
    "parse_json('[]')",
    "parse_json('{}')",
    "parse_json('\"text\"')",
    "parse_json('12345678901234567890123456789012345678')",
    "parse_json('1.5')",
)
TYPED_VARIANTS = (
    "cast(date'2020-01-01' as variant)",
    "cast(timestamp'2020-01-01 00:00:00.123456' as variant)",
    "cast(timestamp_ntz'2020-01-01' as variant)",
    "cast(X'00ff' as variant)",
    "cast(double('nan') as variant)",
    "cast(1.5f as variant)",
    "cast(-0.0d as variant)",
    "cast(cast('1.50' as decimal(5,2)) as variant)",
    "cast(array(null, date'1582-10-10') as variant)",
)
"""Variants whose types JSON does not have."""

VALUES: Mapping[str, Sequence[str]] = {
    "void": ["null"],
    "boolean": ["true", "false"],
    "tinyint": _numbers("tinyint", 8),
    "smallint": _numbers("smallint", 16),
    "int": _numbers("int", 32),
    "bigint": _numbers("bigint", 64),
    "float": _floats("float", "1.4E-45", "3.4028235E38", "-3.4028235E38", "1.17549435E-38", "16777217"),
    "double": _floats("double", "4.9E-324", "1.7976931348623157E308", "2.2250738585072014E-308", "9007199254740993"),
    **{f"decimal({p},{s})": _decimals(p, s) for p, s in PRECISIONS},
    "string": _texts(TEXTS),
    "string (not UTF-8)": [f"cast(X'{code}' as string)" for code in ("ff", "61c3", "eda080", "c080", "f8")],
    "string (NULL of CSV)": _texts(["\x01null\x01"]),
    **{
        f"string collate {name}": _texts(("", "Ab", "aB ", "É", "x\x00"), name)
        for name in ("utf8_lcase", "unicode", "unicode_ci", "utf8_binary_rtrim", "de_ci_ai_rtrim")
    },
    "binary": ["X''", "X'00'", "X'ff'", "X'00ff0a0d2c22'", "cast('text' as binary)", f"unhex(repeat('0d', {LONG}))"],
    "date": [f"date_from_unix_date({days})" for days in DAYS],
    "date (last)": [f"date_from_unix_date({days})" for days in LAST_DAYS],
    "date (first)": [f"date_from_unix_date({days})" for days in FIRST_DAYS],
    "date (between calendars)": [f"date_from_unix_date({days})" for days in DAYS_BETWEEN_CALENDARS],
    **_times("timestamp", "timestamp_micros({})"),
    **_times("timestamp_ntz", "timestampadd(MICROSECOND, {}, timestamp_ntz'1970-01-01')"),
    **{
        f"time({digits})": [
            f"cast('{text}' as time({digits}))"
            for text in ("00:00:00", "23:59:59", "12:30:00", *([f"23:59:59.{'9' * digits}"] if digits else []))
        ]
        for digits in range(7)
    },
    "interval year": [f"cast({years} as interval year)" for years in (0, 1, -1, 178956970, -178956970)],
    "interval month": [f"cast({months} as interval month)" for months in (0, 1, -1, 2147483647, -2147483648)],
    "interval year to month": [
        "interval '1-2' year to month",
        "interval '-0-1' year to month",
        "interval '178956970-7' year to month",
        "interval '-178956970-8' year to month",
    ],
    **{
        f"interval {unit}": [f"interval '{sign}{text}' {unit}" for sign in ("", "-") for text in ("0", "1", last)]
        for unit, last in LARGEST.items()
    },
    "interval day to hour": ["interval '1 02' day to hour", "interval '-106751991 04' day to hour"],
    "interval day to minute": ["interval '1 02:03' day to minute", "interval '-106751991 04:00' day to minute"],
    "interval day to second": [
        "interval '-1 02:03:04.5' day to second",
        "interval '106751991 04:00:54.775807' day to second",
        "interval '0 00:00:00.000001' day to second",
        SMALLEST_DAY_TIME,
    ],
    "interval hour to minute": ["interval '-1:02' hour to minute", "interval '2562047788:00' hour to minute"],
    "interval hour to second": ["interval '1:02:03.000001' hour to second"],
    "interval minute to second": ["interval '-1:02.5' minute to second"],
    "interval": ["make_interval(1, 2, 3, 4, 5, 6, 7)"],
    "variant": VARIANTS,
    "variant (types that JSON lacks)": TYPED_VARIANTS,
    "geometry(0)": [f"st_geomfromwkb({POINT})", f"st_geomfromwkb({LINE})"],
    "geometry(4326)": [f"st_geomfromwkb({POINT}, 4326)"],
    "geography(4326)": [f"st_geogfromwkb({POINT})"],
}
"""The values of each type, as expressions. Names of types may have a remark in parentheses."""
ROWS = max(map(len, VALUES.values())) + 1
"""The number of rows of a table with all values. The last one has only NULL."""


POSITIONS: Mapping[str, str] = {
    "value": "{0}",
    "member": "named_struct('m', {0}, 'B b', {0})",
    "element": "array({0}, null, {0})",
    "map value": "map('k', {0}, 'l', null)",
    "map key": "if({0} is null, map(), map({0}, 'v'))",
}
"""The positions that a value can have in a column, as expressions of the value."""


ONLY_AS_VALUES = frozenset(name for name in VALUES if name.startswith("decimal")) - {
    "decimal(1,1)",
    "decimal(9,0)",
    "decimal(10,3)",
    "decimal(18,18)",
    "decimal(38,0)",
    "decimal(38,18)",
}
"""The types that differ from others only in their precision."""

_NOT_STORED: Mapping[str, Sequence[str]] = {
    "parquet": (),
    "orc": ("void", "string collate", "variant", "geo"),
    "json": ("geo",),
    "csv": ("void", "binary", "variant", "geo"),
}
"""The beginnings of the names of types that a format does not store. None stores the type `interval`."""

CHANGED: Mapping[str, Sequence[str]] = {
    "parquet": (),
    "orc": ("date (between calendars)", "timestamp (between calendars)", "timestamp (end of 1969)"),
    "json": ("string (not UTF-8)", "variant (types that JSON lacks)"),
    "csv": ("string (not UTF-8)",),
}
"""The types whose values change in a format as in a table of Spark."""
NOT_WRITTEN: Mapping[str, Sequence[str]] = {
    "parquet": (),
    "orc": ("date (first)", "timestamp (first)"),
    "json": (),
    "csv": (),
}
"""The types with values for which Spark cannot write a file."""
NOT_READ: Mapping[str, Sequence[str]] = {
    "parquet": (),
    "orc": (),
    "json": ("timestamp (first)",),
    "csv": ("timestamp (first)",),
}
"""The types with values that Spark writes and cannot read."""


def is_refused(storage: str, kind: str, position: str) -> bool:
    """Return whether a format does not store a type in a position."""
    if kind == "interval" or kind.startswith(_NOT_STORED[storage]):
        return True
    if storage == "csv":
        return position != "value"
    if storage != "json":
        return False
    if position == "map key":
        return not kind.startswith("string")
    return kind.startswith("variant") and position in {"element", "map value"}


def places(kinds: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the types with the positions in which Spark can have their values."""
    for kind in kinds:
        for position in ("value",) if kind in ONLY_AS_VALUES else POSITIONS:
            is_key = position == "map key"
            if not is_key or not (kind == "interval" or kind.startswith(("variant", "geo"))):
                yield kind, position


def column(kind: str, position: str = "value") -> str:
    """Return an expression that gives each row ``n`` another value of a type, and NULL after the last one."""
    return POSITIONS[position].format(f"get(array({', '.join(VALUES[kind])}), n)")


def exact_text(value: str, kind: DataType, depth: int = 0) -> str:  # noqa: PLR0911 - one for each type
    """Return the SQL text of a text that differs for all different values of a type.

    As for Spark, the order of the entries of a map does not matter, and neither does the sign of a key that is zero.

    Args:
        value: The SQL text of the value.
        kind: Its type.
        depth: The number of arrays and maps that contain the value.
    """
    each = f"e{depth}"
    match kind:
        case BinaryType():
            return f"hex({value})"
        case StringType():
            return f"hex(cast({value} as binary))"
        case DateType():
            return f"string(unix_date({value}))"
        case TimestampType():
            return f"string(unix_micros({value}))"
        case VariantType():
            return f"concat(schema_of_variant({value}), to_json({value}))"
        case GeometryType() | GeographyType():
            return f"concat(st_srid({value}), hex(st_asbinary({value})))"
        case StructType():
            members = (_or_null(exact_text(f"{value}.`{field.name}`", field.dataType, depth)) for field in kind.fields)
            return f"if(isnull({value}), null, concat('(', concat_ws(',', {', '.join(members) or _QUOTED_NULL}), ')'))"
        case ArrayType():
            text = _or_null(exact_text(each, kind.elementType, depth + 1))
            return f"concat('[', array_join(transform({value}, {each} -> {text}), ','), ']')"
        case MapType():
            is_floating = isinstance(kind.keyType, FloatType | DoubleType)
            name = f"({each}.key + cast(0 as {kind.keyType.simpleString()}))" if is_floating else f"{each}.key"
            key = _or_null(exact_text(name, kind.keyType, depth + 1))
            text = _or_null(exact_text(f"{each}.value", kind.valueType, depth + 1))
            pairs = f"transform(map_entries({value}), {each} -> concat({key}, ':', {text}))"
            return f"concat('{{', array_join(array_sort({pairs}), ','), '}}')"
        case _:
            return f"string({value})"


_QUOTED_NULL = "'~'"


def _or_null(text: str) -> str:
    return f"coalesce({text}, {_QUOTED_NULL})"


def nested_values(columns: Sequence[str], seed: int, *, count: int, depth: int = 3) -> Sequence[str]:
    """Return expressions of nested values, in which NULL and empty values occur at each level.

    Args:
        columns: The expressions of the innermost values.
        seed: The seed of the random numbers.
        count: The number of expressions.
        depth: The number of levels.
    """
    chance = random.Random(seed)  # noqa: S311 - the numbers must be repeatable
    return [_nested(chance, columns, depth) for _ in range(count)]


def _nested(chance: random.Random, columns: Sequence[str], depth: int) -> str:
    if depth == 0:
        return chance.choice(columns)
    below = _nested(chance, columns, depth - 1)
    made, empty = chance.choice(
        (
            (f"array({below}, null, {below})", "array()"),
            (f"map('k', {below}, '', null)", "map()"),
            (f"named_struct('a', {below}, 'B b', {chance.choice(columns)})", "null"),
            (f"named_struct('a', cast(null as int), 'b', array({below}))", "null"),
        )
    )
    number = chance.randrange(7)
    return f"case n % 7 when {number} then {empty} when {(number + 1) % 7} then null else {made} end"
