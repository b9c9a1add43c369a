"""The cases of schema drift: files of one directory, and the expected result of a scan of all of them.

A case is one kind of drift in one format. The tests of this folder and ``scripts/drift_table.py`` use the list. The
expected result is right rows, or an error that names the file, the position, the column and the conflict.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet

from engine.type_names import type_name

Row = Mapping[str, Any]

COLUMNAR = ("parquet", "orc", "arrow")
HEADER = {"header": "true"}
_UNITS = {"parquet": "row group 1", "orc": "stripe 1", "arrow": "record batch 1"}
"""The position of a value."""

SCHEMA = "schema"
"""The position of a type in a file with one type for each column."""

NAIVE, INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class File:
    """One file.

    Attributes:
        content: Text, or a table for the columnar formats.
        rows: The rows that the file adds to the right result, without null members. None if only an error is right.
        place: The position that an error names.
        suffix: The suffix, if it is not that of the case.
    """

    content: str | bytes | pa.Table
    rows: Sequence[Row] | None
    place: str = ""
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """An expected error.

    Attributes:
        error: The name of the class.
        column: The column that the error names; empty for an error of a row.
        parts: Further parts of the message: both types, or the type and the value.
        files: The index of the file that the error names, in the given order and in the reversed order.
    """

    error: str
    column: str
    parts: Sequence[str]
    files: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of drift in one format.

    Attributes:
        drift: The kind of drift.
        format: The suffix of the files.
        files: The files in the order of their names. In the reversed order, they swap their names.
        options: The options of the scan and its reader.
        declared: The column types that the user declares.
        types: The types of the result that the test checks.
        refused: The expected error; None for rows.
        warning: A part of the expected log; empty for no warning.
        has_order: Whether the result depends on the order of the files.
    """

    drift: str
    format: str
    files: Sequence[File]
    options: Mapping[str, str] = field(default_factory=dict)
    declared: Mapping[str, pa.DataType] | None = None
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    refused: Refused | None = None
    warning: str = ""
    has_order: bool = False

    @property
    def rows(self) -> list[Row] | None:
        """The right rows; None if only an error is right."""
        parts = [one.rows for one in self.files]
        return None if None in parts else [row for part in parts for row in part or ()]

    @property
    def is_by_default(self) -> bool:
        """Whether the case has neither a declared schema nor a policy."""
        return self.declared is None and self.options in ({}, HEADER)

    def names(self, *, is_reversed: bool) -> Sequence[str]:
        """Return the name of each file."""
        order = range(len(self.files))[::-1] if is_reversed else range(len(self.files))
        numbers = {index: number for number, index in enumerate(order, start=1)}
        return [f"{numbers[index]}.{one.suffix or self.format}" for index, one in enumerate(self.files)]

    def write(self, directory: Path, *, is_reversed: bool = False) -> None:
        for name, file in zip(self.names(is_reversed=is_reversed), self.files, strict=True):
            _write(directory / name, file.content)

    def error_parts(self, *, folder: str = "", is_reversed: bool = False) -> Sequence[str]:
        """Return the parts of the expected message: file, position, column, and both types or the value.

        Args:
            folder: The directory of the files in the workspace, with a slash at the end.
            is_reversed: Whether the files were written in the reversed order.
        """
        if self.refused is None:
            return ()
        index = self.refused.files[is_reversed]
        is_value = self.refused.error == "ValueConversionError"
        place = self.files[index].place or (_UNITS.get(self.format) if is_value else "")
        file = repr(folder + self.names(is_reversed=is_reversed)[index])
        column = f"column {self.refused.column!r}" if self.refused.column else ""
        return (f"{file} in workspace 'dfs', {place}" if place else file, column, *self.refused.parts)

    def __str__(self) -> str:
        return f"{self.drift}, {self.format}".replace(" ", "_")


def _write(path: Path, content: str | bytes | pa.Table) -> None:
    if isinstance(content, str):
        path.write_bytes(content.encode())
    elif isinstance(content, bytes):
        path.write_bytes(content)
    elif path.suffix == ".parquet":
        pa.parquet.write_table(content, path)
    elif path.suffix == ".orc":
        pa.orc.write_table(content, path)
    else:
        pa.feather.write_feather(content, path, compression="uncompressed")


def jsonl(drift: str, *files: File, **more: Any) -> Case:
    return Case(drift, "jsonl", files, **more)


def csv(drift: str, *files: File, **more: Any) -> Case:
    """Create a case of CSV files with headers."""
    return Case(drift, "csv", files, HEADER | more.pop("options", {}), **more)


def columnar(drift: str, *files: File, formats: Sequence[str] = COLUMNAR, **more: Any) -> Iterator[Case]:
    for format_ in formats:
        yield Case(drift, format_, files, **more)


def lines(*rows: Row, place: str = "", right: Sequence[Row] | None = ()) -> File:
    """Create a file of JSON lines. Its right rows are its objects unless ``right`` is given."""
    return File("".join(json.dumps(row) + "\n" for row in rows), rows if right == () else right, place)


def table(*rows: Row, place: str = "", right: Sequence[Row] | None = (), **types: pa.DataType | None) -> File:
    """Create a file of one table. Its right rows are these unless ``right`` is given."""
    names = list(dict.fromkeys(name for row in rows for name in row)) or list(types)
    columns = [pa.array([row.get(name) for row in rows], types.get(name)) for name in names]
    return File(pa.table(columns, names=names), rows if right == () else right, place)


def conflict(column: str, *types: str, files: tuple[int, int] = (1, 0)) -> Refused:
    """Expect a conflict between the types of two files. The error names the later file."""
    return Refused("SchemaConflictError", column, types, files)


def misfit(column: str, type_: str, value: str, file: int) -> Refused:
    """Expect an error for a value that is not of its column's type."""
    return Refused("ValueConversionError", column, (type_, value), (file, file))


INT, BIGINT, DOUBLE, TEXT, BOOL, DATE = pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.date32()
D = Decimal
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
ODD = 2**53 + 1
"""An integer that is not exact as a double."""

FOUND: Sequence[Case] = [
    # The drifts of the original comparison with other systems.
    csv("a column is added", File("a\n1\n", [{"a": "1"}]), File("a,b\n2,3\n", [{"a": "2", "b": "3"}])),
    jsonl("a column is added", lines({"a": 1}), lines({"a": 2, "b": 3}), types={"a": BIGINT, "b": BIGINT}),
    *columnar("a column is added", table({"a": 1}), table({"a": 2, "b": 3}), types={"a": BIGINT, "b": BIGINT}),
    csv(
        "columns change places",
        File("a,b\n1,x\n", [{"a": "1", "b": "x"}]),
        File("b,a\ny,2\n", [{"a": "2", "b": "y"}]),
    ),
    jsonl("columns change places", lines({"a": 1, "b": "x"}), lines({"b": "y", "a": 2})),
    *columnar("columns change places", table({"a": 1, "b": "x"}), table({"b": "y", "a": 2})),
    csv("int, then bigint", File("a\n1\n", [{"a": "1"}]), File(f"a\n{2**40}\n", [{"a": str(2**40)}])),
    jsonl("int, then bigint", lines({"a": 1}), lines({"a": 2**40}), types={"a": BIGINT}),
    *columnar("int, then bigint", table({"a": 1}, a=INT), table({"a": 2**40}), types={"a": BIGINT}),
    csv("int, then double", File("a\n1\n", [{"a": "1"}]), File("a\n1.5\n", [{"a": "1.5"}])),
    jsonl("int, then double", lines({"a": 1}, right=[{"a": 1.0}]), lines({"a": 1.5}), types={"a": DOUBLE}),
    *columnar("int, then double", table({"a": 1}, right=[{"a": 1.0}]), table({"a": 1.5}), types={"a": DOUBLE}),
    csv("int, then text", File("a\n1\n", [{"a": "1"}]), File("a\nx\n", [{"a": "x"}])),
    jsonl(
        "int, then text",
        lines({"a": 1}, place="line 1"),
        lines({"a": "x"}, place="line 1"),
        refused=conflict("a", "bigint", "string"),
    ),
    *columnar(
        "int, then text",
        table({"a": 1}, place=SCHEMA),
        table({"a": "x"}, place=SCHEMA),
        refused=conflict("a", "bigint", "string"),
    ),
    jsonl("null, then struct", lines({"a": None}, right=[{}]), lines({"a": {"b": 1}})),
    *columnar(
        "null, then struct", table({"a": None}, right=[{}]), table({"a": {"b": 1}}), formats=("parquet", "arrow")
    ),
    jsonl("a struct gains a member", lines({"a": {"b": 1}}), lines({"a": {"b": 2, "c": 3}})),
    *columnar("a struct gains a member", table({"a": {"b": 1}}), table({"a": {"b": 2, "c": 3}})),
    csv("letter case of a name", File("a\n1\n", [{"a": "1"}]), File("A\n2\n", [{"a": "2"}])),
    jsonl("letter case of a name", lines({"a": 1}), lines({"A": 2})),
    *columnar("letter case of a name", table({"a": 1}), table({"A": 2})),
    Case(
        "no header, ragged rows",
        "csv",
        [
            File("1,x\n2,y,z\n", [{"columns": ["1", "x"]}, {"columns": ["2", "y", "z"]}]),
            File("3\n", [{"columns": ["3"]}]),
        ],
        types={"columns": pa.list_(TEXT)},
    ),
    # Columns that come and go.
    jsonl(
        "a column vanishes and returns",
        lines({"a": 1, "b": 1}),
        lines({"a": 2}),
        lines({"a": 3, "b": 3}),
    ),
    csv(
        "a column vanishes and returns",
        File("a,b\n1,x\n", [{"a": "1", "b": "x"}]),
        File("a\n2\n", [{"a": "2"}]),
        File("a,b\n3,z\n", [{"a": "3", "b": "z"}]),
    ),
    *columnar("a column vanishes and returns", table({"a": 1, "b": 1}), table({"a": 2}), table({"a": 3, "b": 3})),
    jsonl(
        "a column vanishes and returns wider", lines({"b": 1}, right=[{"b": 1.0}]), lines({"a": 2}), lines({"b": 2.5})
    ),
    jsonl("each of three files has its own column", lines({"a": 1}), lines({"b": True}), lines({"c": "x"})),
    csv(
        "each of three files has its own column",
        File("a\n1\n", [{"a": "1"}]),
        File("b\n2\n", [{"b": "2"}]),
        File("c\n3\n", [{"c": "3"}]),
    ),
    *columnar("each of three files has its own column", table({"a": 1}), table({"b": True}), table({"c": "x"})),
    jsonl("an empty file", File("", []), lines({"a": 1})),
    csv("an empty file", File("", []), File("a\n1\n", [{"a": "1"}])),
    *columnar("an empty file", table(a=BIGINT), table({"a": 1})),
    csv("a header without rows", File("a,b\n", []), File("a\n1\n", [{"a": "1"}]), types={"b": TEXT}),
    csv("an empty field, and no such column", File("a,b\n1,\n", [{"a": "1", "b": ""}]), File("a\n2\n", [{"a": "2"}])),
    # Nulls.
    jsonl("int, null, int", lines({"a": 1}), lines({"a": None}, right=[{}]), lines({"a": 2}), types={"a": BIGINT}),
    *columnar(
        "int, null, int",
        table({"a": 1}),
        table({"a": None}, right=[{}]),
        table({"a": 2}),
        formats=("parquet", "arrow"),
        types={"a": BIGINT},
    ),
    jsonl("nothing but nulls", lines({"a": None}, right=[{}]), lines({"a": None}, right=[{}]), types={"a": TEXT}),
    jsonl("null, then list", lines({"a": None}, right=[{}]), lines({"a": [1, None]})),
    jsonl("empty list, then list of structs", lines({"a": []}), lines({"a": [{"b": 1}]})),
    jsonl("empty struct, then struct", lines({"a": {}}), lines({"a": {"b": 1}})),
    jsonl("list of nulls, then of text", lines({"a": [None]}), lines({"a": ["x"]})),
    jsonl("lists of several nulls, then of text", lines({"a": [None, None]}, {"a": []}), lines({"a": ["x"]})),
    # Nested columns.
    jsonl("list of int, then of double", lines({"a": [1]}, right=[{"a": [1.0]}]), lines({"a": [1.5]})),
    *columnar("list of int, then of double", table({"a": [1]}, right=[{"a": [1.0]}]), table({"a": [1.5]})),
    jsonl("structs in a list gain a member", lines({"a": [{"b": 1}]}), lines({"a": [{"c": "x"}, None]})),
    *columnar("structs in a list gain a member", table({"a": [{"b": 1}]}), table({"a": [{"c": "x"}, None]})),
    jsonl("a struct in a struct gains a member", lines({"a": {"b": {"c": 1}}}), lines({"a": {"b": {"d": 2}}})),
    *columnar("a struct in a struct gains a member", table({"a": {"b": {"c": 1}}}), table({"a": {"b": {"d": 2}}})),
    jsonl("a member is int, then double", lines({"a": {"b": 1}}, right=[{"a": {"b": 1.0}}]), lines({"a": {"b": 1.5}})),
    *columnar(
        "a member is int, then double", table({"a": {"b": 1}}, right=[{"a": {"b": 1.0}}]), table({"a": {"b": 1.5}})
    ),
    jsonl("members change places", lines({"a": {"b": 1, "c": "x"}}), lines({"a": {"c": "y", "b": 2}})),
    *columnar("members change places", table({"a": {"b": 1, "c": "x"}}), table({"a": {"c": "y", "b": 2}})),
    jsonl("letter case of a member", lines({"a": {"b": 1}}), lines({"A": {"B": 2}})),
    *columnar("letter case of a member", table({"a": {"b": 1}}), table({"A": {"B": 2}})),
    *columnar(
        "map of int, then of bigint",
        table({"a": [("k", 1)]}, a=pa.map_(TEXT, INT)),
        table({"a": [("k", 2**40)]}, a=pa.map_(TEXT, BIGINT)),
    ),
    # Numbers.
    *columnar("float, then double", table({"a": 1.5}, a=pa.float32()), table({"a": 0.1}), types={"a": DOUBLE}),
    *columnar(
        "int, then float",
        table({"a": 2**24 + 1}, right=[{"a": float(2**24 + 1)}], a=INT),
        table({"a": 1.5}, a=pa.float32()),
        types={"a": DOUBLE},
    ),
    *columnar(
        "uint64, then bigint",
        table({"a": 2**63}, right=[{"a": D(2**63)}], a=pa.uint64()),
        table({"a": -1}, right=[{"a": D(-1)}]),
        formats=("parquet", "arrow"),
    ),
    jsonl(
        "bigint, then an integer of 21 digits",
        File('{"a": 1}\n', [{"a": D(1)}]),
        File('{"a": 123456789012345678901}\n', [{"a": D("123456789012345678901")}]),
    ),
    jsonl(
        "a bigint that is no double, then double",
        lines({"a": ODD}, place="line 1", right=None),
        lines({"a": 1.5}, right=None),
        refused=misfit("a", "double", str(ODD), 0),
    ),
    *columnar(
        "a bigint that is no double, then double",
        table({"a": ODD}, right=None),
        table({"a": 1.5}, right=None),
        refused=misfit("a", "double", str(ODD), 0),
    ),
    csv(
        "a bigint that is no double, then double",
        File(f"a\n{ODD}\n", [{"a": str(ODD)}]),
        File("a\n1.5\n", [{"a": "1.5"}]),
    ),
    jsonl(
        "doubles written as 1e3 and 1.0",
        File('{"a": 1}\n', [{"a": 1.0}]),
        File('{"a": 1e3}\n{"a": 1.0}\n', [{"a": 1000.0}, {"a": 1.0}]),
    ),
    *columnar(
        "decimals of several scales",
        table({"a": D("1.5")}, right=[{"a": D("1.50")}], a=pa.decimal128(3, 1)),
        table({"a": D("12345678.25")}, a=pa.decimal128(10, 2)),
        types={"a": pa.decimal128(10, 2)},
    ),
    *columnar(
        "decimal, then int",
        table({"a": D("1.5")}, a=pa.decimal128(3, 1)),
        table({"a": 2**31 - 1}, right=[{"a": D(2**31 - 1) + D("0.0")}], a=INT),
        types={"a": pa.decimal128(11, 1)},
    ),
    *columnar(
        "decimals of more than 38 digits together",
        table({"a": D(10) ** 37}, place=SCHEMA, a=pa.decimal128(38, 0)),
        table({"a": D("0.0000000001")}, place=SCHEMA, a=pa.decimal128(38, 10)),
        refused=conflict("a", "decimal(38,0)", "decimal(38,10)"),
    ),
    *columnar(
        "decimal, then double",
        table({"a": D("1.5")}, place=SCHEMA, a=pa.decimal128(3, 1)),
        table({"a": 1.5}, place=SCHEMA),
        refused=conflict("a", "decimal(3,1)", "double"),
    ),
    # Dates and times.
    *columnar(
        "date, then timestamp",
        table({"a": date(2026, 1, 2)}, right=[{"a": datetime(2026, 1, 2)}]),
        table({"a": datetime(2026, 1, 2, 3, 4, 5, 678)}, a=NAIVE),
        formats=("parquet", "arrow"),
        types={"a": NAIVE},
    ),
    *columnar(
        "timestamps of several units",
        table({"a": datetime(2026, 1, 2)}, a=pa.timestamp("ms")),
        table({"a": datetime(2026, 1, 2, 3, 4, 5, 678)}, a=pa.timestamp("ns")),
        formats=("parquet", "arrow"),
        types={"a": NAIVE},
    ),
    *columnar(
        "timestamps of two zones",
        table({"a": NOON}, a=INSTANT),
        table({"a": NOON}, a=pa.timestamp("us", "Europe/Berlin")),
        formats=("parquet", "arrow"),
        types={"a": INSTANT},
    ),
    *columnar(
        "timestamp with a zone, then without",
        table({"a": NOON}, place=SCHEMA, a=INSTANT),
        table({"a": datetime(2026, 1, 2)}, place=SCHEMA, a=NAIVE),
        formats=("parquet", "arrow"),
        refused=conflict("a", "timestamp", "timestamp_ntz"),
    ),
    *columnar(
        "date, then timestamp with a zone",
        table({"a": date(2026, 1, 2)}, place=SCHEMA),
        table({"a": NOON}, place=SCHEMA, a=INSTANT),
        formats=("parquet", "arrow"),
        refused=conflict("a", "date", "timestamp"),
    ),
    *columnar(
        "nanoseconds that are no microseconds",
        table({"a": datetime(1970, 1, 1, 1)}, a=pa.timestamp("us")),
        table({"a": pd.Timestamp(1_001)}, a=pa.timestamp("ns")),
        formats=("parquet", "arrow"),
        refused=misfit("a", "timestamp_ntz", "1001", 1),
    ),
    jsonl("dates of several forms in text", lines({"a": "2026-01-02"}), lines({"a": "31/01/2026"}, {"a": "soon"})),
    csv(
        "dates of several forms in text",
        File("a\n2026-01-02\n", [{"a": "2026-01-02"}]),
        File("a\n31/01/2026\n", [{"a": "31/01/2026"}]),
    ),
    jsonl("date, then timestamp in text", lines({"a": "2026-01-02"}), lines({"a": "2026-01-02T03:04:05.678Z"})),
    # Text.
    csv("leading zeros", File("a\n007\n", [{"a": "007"}]), File("a\n8\n", [{"a": "8"}])),
    csv(
        "words for null and not a number",
        File("a\n1\n", [{"a": "1"}]),
        File("a\nNULL\nNaN\n", [{"a": "NULL"}, {"a": "NaN"}]),
    ),
    csv("bool, then int", File("a\ntrue\n", [{"a": "true"}]), File("a\n2\n", [{"a": "2"}])),
    csv(
        "quotes, commas and line ends in fields",
        File('a,b\n"1,5","x\ny"\n', [{"a": "1,5", "b": "x\ny"}]),
        File('a,b\n"say ""z""",w\n', [{"a": 'say "z"', "b": "w"}]),
    ),
    csv(
        "a byte order mark",
        File("\ufeffa,b\n1,2\n", [{"a": "1", "b": "2"}]),
        File("a,b\n3,4\n", [{"a": "3", "b": "4"}]),
    ),
    *columnar(
        "text in several encodings of Arrow",
        table({"a": "x"}, a=pa.dictionary(pa.int8(), TEXT)),
        table({"a": "y"}, a=pa.large_string()),
        table({"a": "z"}),
        formats=("parquet", "arrow"),
        types={"a": TEXT},
    ),
    jsonl("names of any characters", lines({"a.b": 1, "c d": 2, "é`": 3}), lines({"é`": 4, "a.b": 5})),
    *columnar(
        "names of any characters",
        table({"a.b": 1, "c d": 2}),
        table({"c d": 4, "a.b": 5}),
        formats=("parquet", "arrow"),
    ),
    # Several formats and layouts.
    Case(
        "Parquet, then JSON",
        "parquet",
        [table({"a": 1, "b": "x"}), File('{"a": 2, "c": true}\n', [{"a": 2, "c": True}], suffix="jsonl")],
        types={"a": BIGINT},
    ),
    Case(
        "ORC, Arrow and JSON of wider types",
        "orc",
        [
            table({"a": 1}, right=[{"a": 1.0}], a=INT),
            File(pa.table({"a": [2]}), [{"a": 2.0}], suffix="arrow"),
            File('{"a": 2.5}\n', [{"a": 2.5}], suffix="jsonl"),
        ],
        types={"a": DOUBLE},
    ),
    Case(
        "text without header beside JSON",
        "csv",
        [File("1,2\n", [{"columns": ["1", "2"]}]), File('{"a": 1}\n', [{"a": 1}], suffix="jsonl")],
    ),
    Case(
        "JSON, then text in Parquet",
        "jsonl",
        [
            lines({"a": 1}, place="line 1"),
            File(pa.table({"a": ["x"]}), [{"a": "x"}], SCHEMA, "parquet"),
        ],
        refused=conflict("a", "bigint", "string"),
    ),
    csv(
        "commas, then tabs",
        File("a,b\n1,x\n", [{"a": "1", "b": "x"}]),
        File("b\ta\ny\t2\n", [{"a": "2", "b": "y"}], suffix="tsv"),
    ),
    Case(
        "an array, then lines",
        "json",
        [File('[{"a": 1},\n {"a": 2}]\n', [{"a": 1}, {"a": 2}]), File('{"b": 3}\n', [{"b": 3}])],
    ),
    # What does not go together.
    jsonl(
        "the type changes in the middle of a file",
        lines({"a": 1}, {"a": None}, {"a": "x"}, place="line 3", right=[{"a": 1}, {}, {"a": "x"}]),
        lines({"a": 2}),
        refused=Refused("SchemaConflictError", "a", ("bigint", "string"), (0, 0)),
    ),
    jsonl(
        "int, double, text",
        lines({"a": 1}),
        lines({"a": 1.5}, place="line 1"),
        lines({"a": "x"}, place="line 1"),
        refused=Refused("SchemaConflictError", "a", ("double", "string"), (2, 1)),
    ),
    jsonl(
        "bool, then int",
        lines({"a": True}, place="line 1"),
        lines({"b": 1}, {"a": 2}, place="line 2"),
        refused=conflict("a", "boolean", "bigint"),
    ),
    *columnar(
        "bool, then int",
        table({"a": True}, place=SCHEMA),
        table({"a": 2}, place=SCHEMA),
        refused=conflict("a", "boolean", "bigint"),
    ),
    *columnar(
        "text, then bytes",
        table({"a": "x"}, place=SCHEMA),
        table({"a": b"y"}, place=SCHEMA),
        refused=conflict("a", "string", "binary"),
    ),
    jsonl(
        "struct, then int",
        lines({"a": {"b": 1}}, place="line 1"),
        lines({"a": None}, {"a": 1}, place="line 2", right=[{}, {"a": 1}]),
        refused=conflict("a", "struct<b:bigint>", "bigint"),
    ),
    jsonl(
        "list, then int",
        lines({"a": [1]}, place="line 1"),
        lines({"a": 1}, place="line 1"),
        refused=conflict("a", "array<bigint>", "bigint"),
    ),
    jsonl(
        "a member is int, then text",
        lines({"m": {"a": 1, "b": 1}}, place="line 1"),
        lines({"m": {"b": 1.5}}, {"m": {"a": "x"}}, place="line 2"),
        refused=conflict("m.a", "bigint", "string"),
    ),
    *columnar(
        "a member is int, then text",
        table({"m": {"a": 1}}, place=SCHEMA),
        table({"m": {"a": "x"}}, place=SCHEMA),
        refused=conflict("m.a", "bigint", "string"),
    ),
    jsonl(
        "a member in a list is int, then text",
        lines({"m": [{"a": 1}]}, place="line 1"),
        lines({"m": []}, {"m": [{"b": 1}, {"a": "x"}]}, place="line 2"),
        refused=conflict("m.a", "bigint", "string"),
    ),
    *columnar(
        "map, then struct",
        table({"a": [("k", 1)]}, place=SCHEMA, right=[{"a": {"k": 1}}], a=pa.map_(TEXT, BIGINT)),
        table({"a": {"k": 2}}, place=SCHEMA),
        refused=conflict("a", "map<string,bigint>", "struct<k:bigint>"),
    ),
    jsonl(
        "two names of one file differ by letter case",
        lines({"a": 1}),
        lines({"a": 2}, {"A": 3}, place="line 2"),
        refused=Refused("DuplicateColumnError", "A", ("'a'",), (1, 1)),
    ),
    csv(
        "two names of one file differ by letter case",
        File("a\n1\n", [{"a": "1"}]),
        File("a,A\n2,3\n", [{"a": "2", "A": "3"}], "line 1"),
        refused=Refused("DuplicateColumnError", "A", ("'a'",), (1, 1)),
    ),
    *columnar(
        "two names of one file differ by letter case",
        table({"a": 1}),
        table({"a": 2, "A": 3}),
        refused=Refused("DuplicateColumnError", "A", ("'a'",), (1, 1)),
    ),
    csv(
        "a header, and a row too short",
        File("a,b\n1,2\n", [{"a": "1", "b": "2"}]),
        File("a,b\n3,4\n5\n", [{"a": "3", "b": "4"}, {"a": "5"}], "line 3"),
        refused=Refused("FormatError", "", ("1 fields", "the header has 2"), (1, 1)),
    ),
    csv(
        "a header, and a row too long",
        File("a,b\n1,2\n", [{"a": "1", "b": "2"}]),
        File("a,b\n3,4\n5,6,7\n", [{"a": "3", "b": "4"}, {"a": "5", "b": "6", "column2": "7"}], "line 3"),
        refused=Refused("FormatError", "", ("3 fields", "the header has 2"), (1, 1)),
    ),
    jsonl(
        "a line that is no JSON",
        lines({"a": 1}, right=None),
        File('{"a": 2}\n{"a": \n', None, "line 2"),
        refused=Refused("FormatError", "", ("not JSON",), (1, 1)),
    ),
]
"""Cases without a declared schema and without a policy."""

DECLARED: Sequence[Case] = [
    csv(
        "declared: text becomes dates, timestamps and decimals of several forms",
        File(
            "d,n,i,m\n2026-01-02,2026-01-02,2026-01-02T12:00:00Z,1.5\n",
            [{"d": date(2026, 1, 2), "n": datetime(2026, 1, 2), "i": NOON, "m": D("1.50")}],
        ),
        File(
            "m,i,n\n-7,2026-01-02 14:00:00+02:00,2026-01-02T03:04:05.678\n1e2,2026-01-02 12:00,\n",
            [
                {"n": datetime(2026, 1, 2, 3, 4, 5, 678_000), "i": NOON, "m": D("-7.00")},
                {"i": NOON, "m": D("100.00")},
            ],
        ),
        declared={"d": DATE, "n": NAIVE, "i": INSTANT, "m": pa.decimal128(5, 2)},
    ),
    jsonl(
        "declared: text and numbers become dates, timestamps and decimals",
        File(
            '{"d": "2026-01-02", "n": "2026-01-02", "i": "2026-01-02T12:00:00Z", "m": 1.10}\n',
            [{"d": date(2026, 1, 2), "n": datetime(2026, 1, 2), "i": NOON, "m": D("1.10")}],
        ),
        lines(
            {"n": "2026-01-02 03:04:05", "i": "2026-01-02 14:00:00+02:00", "m": "2.5"},
            right=[{"n": datetime(2026, 1, 2, 3, 4, 5), "i": NOON, "m": D("2.50")}],
        ),
        lines({"m": 3}, right=[{"m": D("3.00")}]),
        declared={"d": DATE, "n": NAIVE, "i": INSTANT, "m": pa.decimal128(5, 2)},
    ),
    *columnar(
        "declared: text becomes a date",
        table({"a": "2026-01-02"}, right=[{"a": date(2026, 1, 2)}]),
        table({"a": date(2026, 1, 3)}),
        declared={"a": DATE},
    ),
    *(
        case
        for type_, value in [
            (DATE, "2026-02-30"),
            (DATE, "02/01/2026"),
            (NAIVE, "2026-01-02T03:04:05Z"),
            (NAIVE, "2026-01-02 03:04:05.123456789"),
            (pa.decimal128(5, 2), "1.505"),
            (pa.decimal128(5, 2), "1234.5"),
            (INT, "2147483648"),
            (INT, "1.5"),
            (BOOL, "yes"),
            (DOUBLE, "1,5"),
        ]
        for case in (
            csv(
                f"declared: {value} is no {type_}",
                File("b\n1\n", None),
                File(f'b,a\n2,\n3,"{value}"\n', None, "line 3"),
                declared={"a": type_, "b": TEXT},
                refused=misfit("a", type_name(type_), value, 1),
            ),
            jsonl(
                f"declared: {value} is no {type_}",
                lines({"b": "x"}, right=None),
                lines({"a": value}, right=None, place="line 1"),
                declared={"a": type_, "b": TEXT},
                refused=misfit("a", type_name(type_), value, 1),
            ),
        )
    ),
    *columnar(
        "declared: text that is no date",
        table({"a": "2026-01-02"}, right=None),
        table({"a": None}, {"a": "soon"}, right=None, a=TEXT),
        declared={"a": DATE},
        refused=misfit("a", "date", "soon", 1),
    ),
    jsonl(
        "declared: a number that is too large",
        lines({"a": 1}, right=None),
        lines({"a": 2}, {"a": 3_000_000_000}, place="line 2", right=None),
        declared={"a": INT},
        refused=misfit("a", "int", "3000000000", 1),
    ),
    *(
        case
        for type_, value in [(pa.float32(), "16777217"), (pa.float32(), "1e300"), (DOUBLE, str(ODD)), (DOUBLE, "1e999")]
        for case in (
            csv(
                f"declared: {value} is no {type_}",
                File("a\n1.5\n", None),
                File(f"a\n\n{value}\n", None, "line 3"),
                declared={"a": type_},
                refused=misfit("a", type_name(type_), value, 1),
            ),
            jsonl(
                f"declared: {value} is no {type_}",
                File('{"a": 1.5}\n', None),
                File(f'{{"a": 2}}\n{{"a": {value}}}\n', None, "line 2"),
                declared={"a": type_},
                refused=misfit("a", type_name(type_), value, 1),
            ),
        )
    ),
    *columnar(
        "declared: a type that is too narrow",
        table({"a": 1}, right=None, a=INT),
        table({"a": 2}, right=None, place=SCHEMA),
        declared={"a": INT},
        refused=Refused("SchemaConflictError", "a", ("bigint", "int"), (1, 1)),
    ),
    jsonl(
        "declared: text, numbers and objects become text",
        File('{"a": 1.10}\n', [{"a": "1.10"}]),
        File(
            '{"a": "x"}\n{"a": {"b": [1, null]}}\n{"a": true}\n', [{"a": "x"}, {"a": '{"b":[1,null]}'}, {"a": "true"}]
        ),
        declared={"a": TEXT},
    ),
    *columnar(
        "declared: numbers become text",
        table({"a": 1}, right=[{"a": "1"}]),
        table({"a": "x"}),
        declared={"a": TEXT},
    ),
    jsonl(
        "declared: members become keys of a map",
        lines({"a": {"x": 1}}, right=[{"a": [("x", 1)]}]),
        lines({"a": {"y": 2}}, right=[{"a": [("y", 2)]}]),
        declared={"a": pa.map_(TEXT, BIGINT)},
    ),
    jsonl(
        "declared: a column that no file has, without one that they have",
        lines({"a": 1, "b": 2}, right=[{"a": 1}]),
        lines({"a": 2}),
        declared={"a": INT, "c": TEXT},
    ),
    Case(
        "declared: a column, of text without header",
        "csv",
        [File("a\n1\n", None), File("a\n2\n", None)],
        declared={"a": INT},
        refused=Refused("ScanOptionError", "", ("'schema'", "'columns'", "header"), (0, 1)),
    ),
    csv(
        "declared: what is no number becomes null by policy",
        File("a\n1.5\n", [{"a": 1.5}]),
        File("a\nx\n2\n", [{}, {"a": 2.0}]),
        options={"malformed": "null"},
        declared={"a": DOUBLE},
        warning="1 malformed values were set to null",
    ),
]
"""Cases with a declared schema."""

CHOSEN: Sequence[Case] = [
    jsonl(
        "policy error: int and double in a file",
        lines({"a": 1}, right=None),
        lines({"a": 1}, {"a": 1.5}, place="line 2", right=None),
        options={"on_type_conflict": "error"},
        refused=Refused("SchemaConflictError", "a", ("bigint", "double"), (1, 1)),
    ),
    jsonl(
        "policy widen: int and double in a file",
        lines({"a": 1}, right=[{"a": 1.0}]),
        lines({"a": 1}, {"a": 1.5}, right=[{"a": 1.0}, {"a": 1.5}]),
        options={"on_type_conflict": "widen"},
    ),
    jsonl(
        "policy text: int and text in a file",
        lines({"a": 1}, {"a": "x"}, right=[{"a": "1"}, {"a": "x"}]),
        lines({"a": [1]}, {"a": "y"}, right=[{"a": "[1]"}, {"a": "y"}]),
        options={"on_type_conflict": "text"},
        types={"a": TEXT},
    ),
    jsonl(
        "all text",
        File('{"a": 1.10}\n', [{"a": "1.10"}]),
        File('{"a": "x"}\n{"a": true}\n', [{"a": "x"}, {"a": "true"}]),
        options={"all_text": "true"},
    ),
    jsonl(
        "policy skip: a line that is no JSON",
        lines({"a": 1}),
        File('{"a": 2}\nnope\n', [{"a": 2}]),
        options={"malformed": "skip"},
        warning="1 malformed lines were skipped",
    ),
    csv(
        "policy null: a row too short",
        File("a,b\n1\n", [{"a": "1"}]),
        File("b\n2\n", [{"b": "2"}]),
        options={"ragged": "null"},
    ),
    csv(
        "policy truncate: a row too long",
        File("a,b\n1,2,3\n", [{"a": "1", "b": "2"}]),
        File("b\n2\n", [{"b": "2"}]),
        options={"ragged": "truncate"},
        warning="1 rows had more fields than the header",
    ),
    csv(
        "policy null: an empty field",
        File("a,b\n1,\n", [{"a": "1"}]),
        File("a\n2\n", [{"a": "2"}]),
        options={"empty_value": "null"},
    ),
    *(
        case
        for options in ({"discovery": "first"}, {"discovery": "sample", "sample_files": "1"})
        for name in [options["discovery"]]
        for case in (
            jsonl(
                f"discovery {name}: a later file has one column more",
                lines({"a": 1}),
                lines({"a": 2, "b": 3}, right=[{"a": 2}]),
                options=options,
                warning="'2.jsonl' in workspace 'dfs': column 'b' is ignored",
                has_order=True,
            ),
            csv(
                f"discovery {name}: a later file has one column more",
                File("a\n1\n", [{"a": "1"}]),
                File("b,a\n3,2\n", [{"a": "2"}]),
                options=options,
                warning="'2.csv' in workspace 'dfs': column 'b' is ignored",
                has_order=True,
            ),
            *columnar(
                f"discovery {name}: a later file has one column more",
                table({"a": 1}),
                table({"a": 2, "b": 3}, right=[{"a": 2}]),
                options=options,
                warning="column 'b' is ignored",
                has_order=True,
            ),
            jsonl(
                f"discovery {name}: a later struct has one member more",
                lines({"m": {"a": 1}}),
                lines({"m": {"a": 2, "b": 3}}, right=[{"m": {"a": 2}}]),
                options=options,
                warning="column 'm.b' is ignored",
                has_order=True,
            ),
            jsonl(
                f"discovery {name}: a later file has text for int",
                lines({"a": 1}),
                lines({"a": 2}, {"a": "x"}, place="line 2"),
                options=options,
                refused=Refused("SchemaConflictError", "a", ("bigint", "string"), (1, 1)),
                has_order=True,
            ),
            jsonl(
                f"discovery {name}: a later file has doubles for int",
                lines({"a": 1}),
                lines({"a": 2}, {"a": 2.5}, place="line 2"),
                options=options,
                refused=Refused("SchemaConflictError", "a", ("bigint", "double"), (1, 1)),
                has_order=True,
            ),
            *columnar(
                f"discovery {name}: a later file has text for int",
                table({"a": 1}),
                table({"a": "x"}, place=SCHEMA),
                options=options,
                refused=Refused("SchemaConflictError", "a", ("bigint", "string"), (1, 1)),
                has_order=True,
            ),
        )
    ),
    jsonl(
        "discovery first: a column that is null there",
        lines({"a": None}, right=[{}]),
        lines({"a": 2}, right=[{"a": "2"}]),
        options={"discovery": "first"},
        types={"a": TEXT},
        has_order=True,
    ),
]
"""Cases with a policy."""

CASES: Sequence[Case] = [*FOUND, *DECLARED, *CHOSEN]


def plain(value: Any) -> Any:
    """Return a value for comparison, with its type, without nulls in rows and structs, and with folded names."""
    if isinstance(value, Mapping):
        kept = {name.casefold(): plain(one) for name, one in value.items() if one is not None}
        return dict(sorted(kept.items()))
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, tuple):
        return tuple(plain(one) for one in value)
    return (type(value).__name__, value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value)


def in_any_order(rows: Sequence[Row]) -> list[str]:
    """Return rows for a comparison that ignores their order. A failed assertion shows them."""
    return sorted(repr(plain(row)) for row in rows)
