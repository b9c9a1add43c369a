"""Random directories in which nothing drifts: all files have the same columns and types.

What differs between the files is what a reader must not notice: the order of the columns, the writer and its options,
and how the file is divided.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import orc, parquet

Row = Mapping[str, Any]
TIME_ZONES = ("UTC", "UTC", "America/Los_Angeles", "Europe/Berlin", "Asia/Kathmandu")
_NAMES = (
    "a",
    "B",
    "userId",
    "x y",
    "a.b",
    "ü",
    "_x",
    "select",
    "straße",
    "日付",
    "a-b",
    "1st",
    "key",
    "element",
    "c,d=e",
)
_MEMBERS = ("m", "N", "x y", "ö", "key", "value")
_TEXTS = ("", "x", "1", "é\n", "'quoted' \\ text", "2026-11-23", "null", "漢字 😀", "x" * 40)
_PARTITIONS = {
    "k": ("1", "2", "-7", "3000000000"),
    "Year": ("2026", "2027", "007"),
    "day": ("2026-01-02", "1582-10-04", "0001-01-01", "9999-12-31"),
    "_p": ("a%20b", "é", "a%3Ab%2Fc", "x=y", "1.5"),
    "x y": ("1.5", "2", "%25"),
}
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_DAYS = (
    date(1, 1, 1),
    date(1500, 2, 28),
    date(1582, 10, 4),
    date(1582, 10, 15),
    date(1969, 12, 31),
    date(9999, 12, 31),
)


@dataclass(frozen=True, slots=True)
class SteadyFile:
    """A file.

    Attributes:
        folder: Its directory, relative to that of the scan. It ends with a slash, or is empty.
        table: Its rows.
        options: The options of the writer.
        settings: The settings of Spark, if Spark writes the file. Otherwise None, and PyArrow writes it.
    """

    folder: str
    table: pa.Table
    options: Mapping[str, Any]
    settings: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class SteadyDirectory:
    """A directory.

    Attributes:
        number: Its number.
        format: ``parquet`` or ``orc``.
        time_zone: The time zone of the sessions that read it.
        files: Its files.
    """

    number: int
    format: str
    time_zone: str
    files: Sequence[SteadyFile]

    @classmethod
    def generate(cls, number: int) -> "SteadyDirectory":
        """Return the directory with a number."""
        return _Generator(number).directory()

    @property
    def is_legacy(self) -> bool:
        """Whether a file has times of the Julian calendar."""
        return any("LEGACY" in (file.settings or {}).values() for file in self.files)

    def write(self, place: Path, write_by_spark: Callable[[SteadyFile, str, Path], None]) -> None:
        """Write the files into an empty directory.

        Args:
            place: The directory.
            write_by_spark: Writes a file in a format to a path.
        """
        for number, file in enumerate(self.files):
            path = place / f"{file.folder}{number}.{self.format}"
            path.parent.mkdir(parents=True, exist_ok=True)
            if file.settings is not None:
                write_by_spark(file, self.format, path)
            else:
                {"parquet": parquet.write_table, "orc": orc.write_table}[self.format](file.table, path, **file.options)


class _Generator:
    def __init__(self, number: int) -> None:
        self._number = number
        self._random = random.Random(number)  # noqa: S311 - must be repeatable, not secret
        self._format = self._random.choice(("parquet", "parquet", "orc"))
        self._uses_spark = self._random.random() < 0.4
        self._has_int96 = self._format == "parquet" and self._random.random() < 0.15

    def directory(self) -> SteadyDirectory:
        count = self._random.randint(1, 5)
        schema = pa.schema([(name, self._type(depth=0)) for name in self._random.sample(_NAMES, count)])
        folders = self._folders(set(map(str.lower, schema.names)))
        chosen = [folders[0], *self._random.choices(folders, k=self._random.randint(0, 3))]
        files = [self._file(folder, schema) for folder in chosen]
        zone = self._random.choice(TIME_ZONES)
        return SteadyDirectory(self._number, self._format, zone, files)

    def _folders(self, columns: set[str]) -> Sequence[str]:
        names = [name for name in _PARTITIONS if name.lower() not in columns]
        keys = self._random.sample(names, self._random.choice((0, 0, 1, 1, 2)))
        with_value = ["".join(f"{key}={self._random.choice(_PARTITIONS[key])}/" for key in keys) for _ in range(2)]
        without = "".join(f"{key}={self._random.choice((*_PARTITIONS[key][:1], _NO_VALUE))}/" for key in keys)
        # Spark's reader of ORC fails if a partition column has no values.
        return [*with_value, without] if self._format == "orc" or self._random.random() < 0.7 else [without]

    def _file(self, folder: str, schema: pa.Schema) -> SteadyFile:
        fields = self._random.sample(list(schema), len(schema))
        if self._random.random() < 0.2 and not self._uses_spark:
            fields[0] = fields[0].with_nullable(False)
        ordered = pa.schema(fields)
        rows = [
            {one.name: self._value(one.type, is_nullable=one.nullable) for one in ordered}
            for _ in range(self._random.choice((1, 3, 8, 30) if self._uses_spark else (0, 1, 3, 8, 30)))
        ]
        table = pa.Table.from_pylist(rows, ordered)
        if self._uses_spark:
            options = {
                "compression": self._random.choice(("snappy", "zstd", "none")),
                "parquet.writer.version": self._random.choice(("v1", "v2")),
            }
            return SteadyFile(folder, table, options, self._settings())
        options = self._parquet_options() if self._format == "parquet" else self._orc_options()
        return SteadyFile(folder, table, options, None)

    def _parquet_options(self) -> Mapping[str, Any]:
        choose = self._random.choice
        return {
            "version": choose(("1.0", "2.4", "2.6")),
            "data_page_version": choose(("1.0", "2.0")),
            "compression": choose(("none", "snappy", "gzip", "zstd", "lz4")),
            "use_dictionary": choose((True, False)),
            "row_group_size": choose((2, 10, 1000)),
            "data_page_size": choose((64, 1 << 20)),
            "store_schema": choose((True, False)),
            "write_statistics": choose((True, False)),
            "write_page_index": choose((True, False)),
            "use_deprecated_int96_timestamps": self._has_int96,
            "use_compliant_nested_type": choose((True, True, False)),
        }

    def _orc_options(self) -> Mapping[str, Any]:
        choose = self._random.choice
        small_stripes = {"stripe_size": 1, "batch_size": choose((2, 10))}
        return {
            "compression": choose(("uncompressed", "snappy", "zlib", "zstd", "lz4")),
            "dictionary_key_size_threshold": choose((0.0, 1.0)),
            **choose(({}, small_stripes)),
        }

    def _settings(self) -> Mapping[str, str]:
        if self._format == "orc":
            return {}
        mode = self._random.choice(("CORRECTED", "CORRECTED", "LEGACY"))
        kinds = ("INT96",) if self._has_int96 else ("TIMESTAMP_MICROS", "TIMESTAMP_MILLIS")
        return {
            "spark.sql.parquet.datetimeRebaseModeInWrite": mode,
            "spark.sql.parquet.int96RebaseModeInWrite": mode,
            "spark.sql.parquet.outputTimestampType": self._random.choice(kinds),
            "spark.sql.parquet.writeLegacyFormat": self._random.choice(("false", "false", "true")),
        }

    def _type(self, depth: int) -> pa.DataType:
        chance = self._random.random()
        # Arrow's writer of ORC misplaces the values of a struct inside a struct if that is null.
        may_nest = depth < (2 if self._format == "parquet" or self._uses_spark else 1)
        if may_nest and chance < 0.12:
            kinds = (
                (pa.list_, pa.list_, pa.large_list)
                if self._format == "parquet" and not self._uses_spark
                else (pa.list_,)
            )
            return self._random.choice(kinds)(self._type(depth + 1))
        if may_nest and chance < 0.24:
            names = self._random.sample(_MEMBERS, self._random.randint(1, 3))
            return pa.struct([pa.field(name, self._type(depth + 1)) for name in names])
        if may_nest and chance < 0.32:
            key = self._random.choice((pa.string(), pa.int32(), pa.date32()))
            return pa.map_(key, self._type(depth + 1))
        return self._random.choice(self._simple_types())

    def _simple_types(self) -> Sequence[pa.DataType]:
        precision = self._random.randint(1, 38)
        types = [
            *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
            *(pa.string(), pa.string(), pa.binary(), pa.date32(), pa.date32()),
            *(pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Berlin")),
            *(pa.decimal128(precision, self._random.randint(0, precision)), pa.decimal128(9, 2)),
        ]
        if self._uses_spark:
            types.append(pa.duration("us"))
        elif self._format == "parquet":
            types += [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.timestamp("ms"), pa.timestamp("ms", "UTC")]
            types += [pa.dictionary(pa.int32(), pa.string()), pa.large_string(), pa.binary(4)]
            types.append(pa.large_binary())
        return types

    def _value(self, type_: pa.DataType, *, is_nullable: bool = True) -> Any:
        if is_nullable and self._random.random() < 0.2:
            return None
        sizes = range(self._random.choice((0, 1, 2, 3)))
        if pa.types.is_list(type_) or pa.types.is_large_list(type_):
            return [self._value(type_.value_type) for _ in sizes]
        if pa.types.is_struct(type_):
            return {member.name: self._value(member.type) for member in type_}
        if pa.types.is_map(type_):
            keys = {self._value(type_.key_type, is_nullable=False) for _ in sizes}
            return [(key, self._value(type_.item_type)) for key in sorted(keys)]
        return self._simple_value(type_)

    def _simple_value(self, type_: pa.DataType) -> Any:  # noqa: PLR0911 - one for each type
        choose = self._random.choice
        if pa.types.is_dictionary(type_):
            return choose(_TEXTS)
        if pa.types.is_integer(type_):
            bits = type_.bit_width
            low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if pa.types.is_signed_integer(type_) else (0, 2**bits)
            return choose((low, high - 1, 0, 1, self._random.randrange(low, high)))
        if pa.types.is_decimal(type_):
            most = 10**type_.precision - 1
            unscaled = choose((most, -most, 0, 1, self._random.randint(-most, most)))
            return Decimal(unscaled).scaleb(-type_.scale, Context(prec=type_.precision))
        if pa.types.is_date(type_):
            return choose((*_DAYS, date.fromordinal(self._random.randint(1, date.max.toordinal()))))
        if pa.types.is_timestamp(type_):
            return self._time(type_)
        if pa.types.is_duration(type_):
            return timedelta(microseconds=choose((0, -1, 1, 86_400_000_000, self._random.randint(-(10**15), 10**15))))
        if pa.types.is_fixed_size_binary(type_):
            return self._random.randbytes(type_.byte_width)
        return {
            "bool": lambda: choose((True, False)),
            "float": lambda: choose((0.0, self._negative_zero(), 1.5, float("nan"), float("inf"), -1024.25)),
            "double": lambda: choose(
                (0.0, self._negative_zero(), 1.5, float("nan"), float("-inf"), self._random.random())
            ),
            "binary": lambda: self._binary(),
            "large_binary": lambda: self._binary(),
        }.get(str(type_), lambda: choose(_TEXTS))()

    def _negative_zero(self) -> float:
        """Return -0.0, but not for ORC: the Java library returns 0.0 if all values of a batch are equal to it."""
        return 0.0 if self._format == "orc" else -0.0

    def _binary(self) -> bytes:
        return self._random.choice((b"", b"\x00", b"\xff\xfe", b"abc", self._random.randbytes(20)))

    def _time(self, type_: pa.DataType) -> datetime:
        """Return a time that ORC, or Arrow's writer of INT96, can store."""
        first, last = datetime(1, 1, 2), datetime(9999, 12, 30)
        if self._format == "orc":
            first, last = datetime(1680, 1, 1), datetime(2260, 1, 1)
        elif self._has_int96 and not self._uses_spark:
            first, last = datetime(1970, 1, 2), datetime(2260, 1, 1)
        near = (datetime(1970, 1, 2), datetime(2024, 3, 10, 2, 30), datetime(2024, 10, 27, 0, 30), first, last)
        seconds = self._random.randrange(int((last - first).total_seconds()))
        chosen = self._random.choice((*near, first + timedelta(seconds=seconds)))
        digits = self._random.choice((0, 0, 123_000, 999_000) if type_.unit == "ms" else (0, 123_456, 999_999))
        if self._format == "orc" and not self._uses_spark and chosen.year < 1970:
            digits = 0  # Spark's reader refuses the fractions that Arrow writes
        value = chosen + timedelta(microseconds=digits)
        return value.replace(tzinfo=UTC) if type_.tz else value
