"""Directories of random files in random formats, and what a scan of them must return.

The expected result comes from a simple implementation of the rules in ``docs/explanation/schema-drift.md``: it merges
the kinds of all values, and converts each value. It shares no code with the engine, reads no file, and has no limits.

``python -m tests.drift.random_directories --count 10000`` checks many directories. Each one has a number, which
generates the same directory again (``--first``).
"""

import argparse
import csv
import io
import json
import random
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import feather, orc, parquet

from engine.errors import EngineError
from engine.file_scan.file_scan import FileScan
from engine.file_scan.partition_reading import read_partition
from engine.file_scan.partitions import plan_partitions
from engine.file_scan.schema_discovery import discover_schema
from engine.scan_source import ScanSource

Row = Mapping[str, Any]
FORMATS = ("parquet", "orc", "arrow", "json", "csv")
_MAX_DECIMAL_DIGITS = 38
_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}


class ConflictError(Exception):
    """Raised if no type fits all values of a column."""


# What values are -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kind:
    """The kind of a value.

    Attributes:
        name: The name, such as ``int``.
        digits: The digits before and after the point of an integer or decimal.
        element: The kind of the elements of a list.
        members: The kinds of the members of a struct.
    """

    name: str
    digits: tuple[int, int] = (0, 0)
    element: "Kind | None" = None
    members: Mapping[str, "Kind"] = field(default_factory=dict)


NULL = Kind("null")
_WIDER = {
    frozenset({"int", "decimal"}): "decimal",
    frozenset({"int", "float"}): "float",
    frozenset({"date", "time"}): "time",
}


def kind_of_type(type_: pa.DataType) -> Kind:
    """Return the kind of an Arrow type."""
    if pa.types.is_integer(type_):
        return Kind("int", (_DIGITS[type_], 0))
    if pa.types.is_decimal(type_):
        return Kind("decimal", (type_.precision - type_.scale, type_.scale))
    if pa.types.is_list(type_):
        return Kind("list", element=kind_of_type(type_.value_type))
    if pa.types.is_struct(type_):
        return Kind("struct", members={member.name: kind_of_type(member.type) for member in type_})
    checks = {
        "null": pa.types.is_null,
        "bool": pa.types.is_boolean,
        "float": pa.types.is_floating,
        "text": pa.types.is_string,
        "date": pa.types.is_date,
        "instant": lambda other: pa.types.is_timestamp(other) and other.tz is not None,
        "time": pa.types.is_timestamp,
    }
    return Kind(next(name for name, check in checks.items() if check(type_)))


def kind_of_json(value: Any) -> Kind:
    """Return the kind of a value in a JSON file."""
    if isinstance(value, list):
        return Kind("list", element=merge_all(map(kind_of_json, value)))
    if isinstance(value, dict):
        return Kind("struct", members={name: kind_of_json(member) for name, member in value.items()})
    if isinstance(value, int) and not isinstance(value, bool):
        return Kind("int", (19, 0))
    return {type(None): NULL, bool: Kind("bool"), float: Kind("float"), str: Kind("text")}[type(value)]


def merge_all(kinds: Any) -> Kind:
    """Return the kind that fits all values of several kinds."""
    merged = NULL
    for kind in kinds:
        merged = merge(merged, kind)
    return merged


def merge(first: Kind, second: Kind) -> Kind:
    """Return the kind that fits all values of two kinds.

    Raises:
        ConflictError: If there is none.
    """
    if NULL in (first, second):
        return second if first == NULL else first
    name = first.name if first.name == second.name else _WIDER.get(frozenset({first.name, second.name}))
    before, after = (max(pair) for pair in zip(first.digits, second.digits, strict=True))
    if name is None or before + after > _MAX_DECIMAL_DIGITS:
        raise ConflictError
    return Kind(
        name,
        (before, after),
        merge(first.element or NULL, second.element or NULL),
        merge_members(first.members, second.members),
    )


def merge_members(first: Mapping[str, Kind], second: Mapping[str, Kind]) -> Mapping[str, Kind]:
    """Merge columns or members by their names. The first spelling of a name stays."""
    merged = dict(first)
    spelling = {name.lower(): name for name in merged}
    for name, kind in second.items():
        known = spelling.setdefault(name.lower(), name)
        merged[known] = merge(merged.get(known, NULL), kind)
    return merged


def convert(value: Any, kind: Kind) -> Any:
    """Convert a value to the merged kind.

    Raises:
        ConflictError: If an integer has no exact double value.
    """
    found = value
    if isinstance(value, dict):
        found = convert_members(value, kind.members)
    elif isinstance(value, list):
        found = [convert(element, kind.element or NULL) for element in value]
    elif isinstance(value, int) and kind.name == "float":
        found = float(value)
        if int(found) != value:
            raise ConflictError
    elif isinstance(value, int) and kind.name == "decimal":
        found = Decimal(value)
    elif isinstance(value, date) and not isinstance(value, datetime) and kind.name == "time":
        found = datetime(value.year, value.month, value.day)
    return found


def convert_members(values: Row, kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """Convert a row or a struct. Missing members are null."""
    found = {name.lower(): value for name, value in values.items()}
    return {name: convert(found.get(name.lower()), kind) for name, kind in kinds.items()}


# Random files ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RandomFile:
    """A file.

    Attributes:
        path: The path, relative to the directory.
        columns: The kinds of the columns.
        rows: The rows. Members without a value may be missing.
        content: The bytes of the file.
    """

    path: str
    columns: Mapping[str, Kind]
    rows: Sequence[Row]
    content: bytes

    @property
    def folders(self) -> Sequence[str]:
        """The directories in the path."""
        return self.path.split("/")[:-1]

    def folder(self, level: int) -> str | None:
        """Return the directory at a level, if there is one."""
        return self.folders[level] if level < len(self.folders) else None


@dataclass(frozen=True, slots=True)
class RandomDirectory:
    """A directory of random files.

    Args:
        files: The files in the order of their paths.
    """

    files: Sequence[RandomFile]

    @classmethod
    def generate(cls, number: int) -> "RandomDirectory":
        """Return the directory with a number."""
        return _Generator(random.Random(number)).directory()  # noqa: S311 - must be repeatable, not secret

    def write(self, place: Path) -> None:
        """Write the files into an empty directory."""
        for file in self.files:
            path = place / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.content)

    def expected(self) -> Sequence[Row]:
        """Return the rows that a scan must return, in any order.

        Raises:
            ConflictError: If the scan must fail.
        """
        columns: Mapping[str, Kind] = {}
        for file in self.files:
            columns = merge_members(columns, file.columns)
        depth = max(len(file.folders) for file in self.files)
        return [
            convert_members(row, columns) | {f"dir{level}": file.folder(level) for level in range(depth)}
            for file in self.files
            for row in file.rows
        ]


_INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
_FLOATS = [pa.float32(), pa.float64()]
_RELATED = {
    "int": [*_INTEGERS, *_FLOATS, pa.decimal128(9, 2)],
    "float": [*_INTEGERS, *_FLOATS],
    "decimal": [*_INTEGERS, pa.decimal128(38, 30), pa.decimal128(20, 5)],
    "date": [pa.date32(), pa.timestamp("ms"), pa.timestamp("us")],
    "time": [pa.date32(), pa.timestamp("ms"), pa.timestamp("us")],
    "instant": [pa.timestamp("ms", "UTC"), pa.timestamp("us", "Europe/Berlin"), pa.timestamp("us")],
}


class _Generator:
    def __init__(self, source: random.Random) -> None:
        self._random = source

    def directory(self) -> RandomDirectory:
        names = self._random.sample(["a", "b", "userId", "x y", "ü"], self._random.randint(1, 4))
        usual = {name: self._type(depth=0) for name in names}
        # Text files have only text columns, which mostly conflict with others.
        formats = (
            ["csv"] if self._random.random() < 0.1 else self._random.sample(FORMATS[:4], self._random.randint(1, 3))
        )
        files = []
        for number in range(self._random.randint(1, 6)):
            format_ = self._random.choice(formats)
            folder = self._random.choice(["", "", "d/", "d/e/"])
            files.append(self._file(f"{folder}{number}.{format_}", format_, usual))
        return RandomDirectory(sorted(files, key=lambda file: file.path))

    def _file(self, path: str, format_: str, usual: Mapping[str, pa.DataType]) -> RandomFile:
        kept = [name for name in usual if self._random.random() < 0.8] or [next(iter(usual))]
        self._random.shuffle(kept)
        types = {self._spelled(name): self._drifted(usual[name]) for name in kept}
        if format_ == "orc" and any(map(_has_struct_inside, types.values())):
            # Arrow's writer misplaces the values of a struct inside a struct if that is null.
            return self._file(f"{path.rpartition('.')[0]}.parquet", "parquet", usual)
        if format_ == "csv":
            types = dict.fromkeys(types, pa.string())
        is_json = format_ == "json"
        rows = [
            {name: self._value(type_, is_json=is_json) for name, type_ in types.items()}
            for _ in range(self._random.randint(1, 12))
        ]
        if is_json:
            rows = [{name: value for name, value in row.items() if value is not None or self._coin()} for row in rows]
            columns: Mapping[str, Kind] = {}
            try:
                for row in rows:
                    columns = merge_members(columns, kind_of_json(row).members)
            except ConflictError:
                return self._file(path, format_, usual)  # a conflict inside one file is another test
            return RandomFile(path, columns, rows, "".join(json.dumps(row) + "\n" for row in rows).encode())
        columns = {name: kind_of_type(type_) for name, type_ in types.items()}
        if format_ == "csv":
            rows = [{name: value or "-" for name, value in row.items()} for row in rows]
            return RandomFile(path, columns, rows, _csv(rows))
        table = pa.Table.from_pylist([dict(row) for row in rows], pa.schema(types))
        sink = io.BytesIO()
        {"parquet": parquet.write_table, "orc": orc.write_table, "arrow": feather.write_feather}[format_](table, sink)
        return RandomFile(path, columns, rows, sink.getvalue())

    def _coin(self) -> bool:
        return self._random.random() < 0.5

    def _spelled(self, name: str) -> str:
        return self._random.choice([name, name, name, name.upper(), name.lower()])

    def _drifted(self, usual: pa.DataType) -> pa.DataType:
        chance = self._random.random()
        if chance < 0.65:
            return usual
        if chance < 0.96:
            return self._related(usual)
        return self._type(depth=0)

    def _related(self, type_: pa.DataType) -> pa.DataType:
        """Return a type that merges with another, in most cases."""
        if pa.types.is_struct(type_):
            members = [pa.field(self._spelled(each.name), self._drifted(each.type)) for each in type_ if self._coin()]
            return pa.struct(members or list(type_))
        if pa.types.is_list(type_):
            return pa.list_(self._related(type_.value_type))
        return self._random.choice(_RELATED.get(kind_of_type(type_).name, [type_]))

    def _type(self, depth: int) -> pa.DataType:
        simple = [
            *(pa.bool_(), pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.string()),
            *(pa.decimal128(9, 2), pa.decimal128(20, 5), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")),
        ]
        chance = self._random.random()
        if depth < 2 and chance < 0.15:
            return pa.list_(self._type(depth + 1))
        if depth < 2 and chance < 0.3:
            names = self._random.sample(["m", "n", "Oo"], self._random.randint(1, 3))
            return pa.struct([pa.field(name, self._type(depth + 1)) for name in names])
        return self._random.choice(simple)

    def _value(self, type_: pa.DataType, *, is_json: bool) -> Any:
        if self._random.random() < 0.15:
            return None
        if pa.types.is_list(type_):
            return [self._value(type_.value_type, is_json=is_json) for _ in range(self._random.randint(0, 3))]
        if pa.types.is_struct(type_):
            return {member.name: self._value(member.type, is_json=is_json) for member in type_}
        value = self._simple_value(type_)
        if is_json and not isinstance(value, bool | int | float | str):
            return float(value) if isinstance(value, Decimal) else str(value)
        return value

    def _simple_value(self, type_: pa.DataType) -> Any:
        kind = kind_of_type(type_)
        if kind.name == "int":
            bound = 2 ** (type_.bit_width - 1)
            return self._random.choice([0, 1, -1, bound - 1, -bound, self._random.randrange(-100, 100)])
        if kind.name == "decimal":
            digits = self._random.randrange(-(10**4), 10**4)
            return Decimal(digits).scaleb(-type_.scale if self._coin() else 0)
        moment = datetime(1900, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self._random.randrange(10**13))
        return {
            "bool": self._coin(),
            "float": self._random.choice([0.0, -1.5, 1024.25, 3.0, -(2.0**40)]),
            "date": moment.date(),
            "time": moment.replace(tzinfo=None),
            "instant": moment,
            "text": self._random.choice(["", "x", "1", "é\n", '"quoted", text', "2026-11-23", "null"]),
        }[kind.name]


def _has_struct_inside(type_: pa.DataType) -> bool:
    children = [type_.field(index).type for index in range(type_.num_fields)]
    return any(pa.types.is_struct(child) or _has_struct_inside(child) for child in children)


def _csv(rows: Sequence[Row]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


# The check -------------------------------------------------------------------------------------------------------


def check(number: int, place: Path) -> bool:
    """Write the directory with a number, scan it, and compare the result. Return whether the scan had to fail.

    Raises:
        AssertionError: If the result is wrong.
    """
    directory = RandomDirectory.generate(number)
    directory.write(place)
    try:
        expected = directory.expected()
    except ConflictError:
        expected = None
    try:
        found = _scan(place)
    except EngineError as error:
        assert expected is None, f"Directory {number}: the scan failed: {error}"
        is_clear = any(f"'{file.path}' in workspace 'dfs'" in str(error) for file in directory.files)
        assert is_clear, f"Directory {number}: the error names no file: {error}"
        return True
    assert expected is not None, f"Directory {number}: the scan did not fail, and returned {found}"
    assert _in_any_order(found) == _in_any_order(expected), f"Directory {number} has other rows."
    names = list(expected[0])
    assert list(found[0]) == names, f"Directory {number} has the columns {list(found[0])}, not {names}."
    return False


def _scan(place: Path) -> Sequence[Row]:
    options = {"header": "true"} if list(place.rglob("*.csv")) else {}
    scan = FileScan.from_options(ScanSource("dfs", str(place), ".").to_options(reader=options))
    schema = discover_schema(scan)
    batches = [
        batch for files in plan_partitions(scan) for batch in read_partition(scan, files, schema, is_declared=False)
    ]
    return pa.Table.from_batches(batches, schema.to_arrow()).to_pylist()


def _in_any_order(rows: Sequence[Row]) -> Sequence[str]:
    return sorted(map(_text, rows))


def _text(value: Any) -> str:
    """Return a text that is equal for equal values of the same kind."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_text(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, Decimal):
        return f"{value.normalize():f}"
    if isinstance(value, datetime):
        return (value.astimezone(UTC) if value.tzinfo else value).isoformat()
    return repr(value)


def main() -> None:
    """Check many directories."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--first", type=int, default=0, help="the number of the first directory")
    parser.add_argument("--count", type=int, default=10_000, help="how many directories are checked")
    arguments = parser.parse_args()
    refused = 0
    for number in range(arguments.first, arguments.first + arguments.count):
        with tempfile.TemporaryDirectory(prefix="lodge-directory-") as place:
            refused += check(number, Path(place))
    sys.stdout.write(f"{arguments.count} directories are right; {refused} of them had a conflict.\n")


if __name__ == "__main__":
    main()
