"""Random directories in which nothing drifts: Lodge returns what Spark's own reader returns.

``python -m tests.drift.beside_spark --count 2000`` (``make soak``) starts Spark and a gateway, and compares the
columns, types and rows of each directory: with the engine and with any reader, as a whole, and with a projection and a
condition. A directory has a number, which generates it again (``--first``).

Expected differences, as ``docs/reference/formats.md`` documents them:

- ``TIMESTAMP`` of ORC has no time zone in Lodge.
- The engine refuses Parquet files with times before 1900 of the Julian calendar.
- A column of nulls, also one of a directory, is text in Lodge, and ``void`` in Spark.
"""

import argparse
import logging
import operator
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.session import SparkSession

from tests.drift.steady_directories import SteadyDirectory, SteadyFile
from tests.foreign_files.plain_columns import plain_columns
from tests.running.servers import start_spark_and_lodge

SAME = "equal"
SPARK_REFUSES = "refused by Spark"
NOT_WRITTEN = "not written by Spark"
ENGINE_ONLY = "with (spark_readers = false)"
_OLD = 1_000_000_000
"""A modification time. The gateway does not trust recent files."""
_EPOCH = datetime(1970, 1, 1)
_ORDERED = ("tinyint", "smallint", "int", "bigint", "decimal", "date", "timestamp", "timestamp_ntz")
_COMPARED = (*_ORDERED, "boolean", "string", "binary")
"""The types for which equal values have equal texts."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What a reader returns.

    Attributes:
        types: The type of each column by its name.
        values: The texts of the values of each row, in the order of the names.
    """

    types: Mapping[str, str]
    values: Sequence[tuple[str, ...]]

    @classmethod
    def of(cls, frame: DataFrame, *, is_orc: bool) -> "Rows":
        """Return the rows of a DataFrame, without the columns ``dir0``, ``dir1`` and so on."""
        types = {one.name: one.dataType.simpleString() for one in frame.schema.fields}
        columns = plain_columns(frame.toArrow(), types)
        names = sorted(name for name in types if name not in ("dir0", "dir1"))
        known = [("void", "string"), *([("timestamp_ntz", "timestamp")] if is_orc else [])]
        found = {name: reduce(lambda type_, pair: type_.replace(*pair), known, types[name]) for name in names}
        return cls(found, sorted(zip(*(columns[name].values for name in names), strict=True)))

    def select(self, names: Sequence[str]) -> "Rows":
        """Return some columns."""
        places = [list(self.types).index(name) for name in sorted(names)]
        types = {name: self.types[name] for name in sorted(names)}
        return Rows(types, sorted(tuple(row[place] for place in places) for row in self.values))

    def where(self, name: str, condition: Callable[[str], bool]) -> "Rows":
        """Return the rows in which the text of a column meets a condition."""
        place = list(self.types).index(name)
        return Rows(self.types, [row for row in self.values if condition(row[place])])


class Comparison:
    """Compares directories.

    Args:
        direct: The address of Spark.
        lodge: The address of the gateway.
        files: The directory of the workspace ``dfs``.
    """

    def __init__(self, direct: str, lodge: str, files: Path) -> None:
        self._direct = SparkSession.builder.remote(direct).create()
        self._lodge = SparkSession.builder.remote(lodge).create()
        self._files = files

    def close(self) -> None:
        """End the sessions."""
        self._direct.stop()
        self._lodge.stop()

    def check(self, number: int) -> tuple[str, Sequence[str]]:
        """Compare the directory with a number. Return the outcome, and descriptions of the differences."""
        directory = SteadyDirectory.generate(number)
        place = self._files / f"d{number}"
        place.mkdir()
        try:
            return self._check(directory, place)
        finally:
            shutil.rmtree(place)

    def _check(self, directory: SteadyDirectory, place: Path) -> tuple[str, Sequence[str]]:
        try:
            directory.write(place, self._write)
        except PySparkException as error:
            return NOT_WRITTEN, [f"{NOT_WRITTEN}: {error.getCondition()}: {_shorten(error)}"]
        for path in place.rglob("*"):
            os.utime(path, (_OLD, _OLD))
        for session in (self._direct, self._lodge):
            session.conf.set("spark.sql.session.timeZone", directory.time_zone)
        is_orc = directory.format == "orc"
        try:
            frame = self._direct.read.format(directory.format).load(str(place))
            expected = Rows.of(frame, is_orc=is_orc)
        except PySparkException as error:
            return SPARK_REFUSES, [f"{SPARK_REFUSES}: {error.getCondition()}: {_shorten(error)}"]
        differences = []
        for reader, query, wanted in _queries(directory, place.name, expected):
            try:
                found = Rows.of(self._lodge.sql(query), is_orc=is_orc)
            except PySparkException as error:
                is_documented = directory.is_legacy and "calendar" in str(error)
                if not is_documented:
                    differences.append(f"{query}\n  Lodge ({reader}): {error.getCondition()}: {_shorten(error)}")
                continue
            if found != wanted:
                differences.append(f"{query}\n  {_describe(wanted, found)}")
        return ("different" if differences else SAME), differences

    def _write(self, file: SteadyFile, format_: str, path: Path) -> None:
        """Write a file with Spark."""
        settings = {**(file.settings or {}), "spark.sql.session.timeZone": "UTC"}
        for key, value in settings.items():
            self._direct.conf.set(key, value)
        place = path.with_name(f".{path.name}.d")
        frame = self._direct.createDataFrame(file.table).coalesce(1)
        frame.write.format(format_).options(**file.options).save(str(place))
        for part in place.glob("part-*"):
            part.rename(path)
        shutil.rmtree(place)
        checksum = path.with_name(f".{path.name}.crc")
        checksum.unlink(missing_ok=True)


def _queries(directory: SteadyDirectory, name: str, expected: Rows) -> Iterator[tuple[str, str, Rows]]:
    """Yield the reader, a query, and its rows."""
    chosen = random.Random(directory.number)  # noqa: S311 - must be repeatable
    names = list(expected.types)
    for reader, options in (("any reader", ""), ("engine", ENGINE_ONLY)):
        table = f"dfs.`{name}` {options}"
        yield reader, f"select * from {table}", expected
        some = chosen.sample(names, chosen.randint(1, len(names)))
        column = chosen.choice(names)
        found = [row[names.index(column)] for row in expected.values]
        text = chosen.choice(found) if found else "None"
        symbol, literal, condition = _condition(chosen, expected.types[column], text, is_orc=directory.format == "orc")
        query = f"select {', '.join(map(_quote, some))} from {table} where {_quote(column)} {symbol} {literal}"
        yield reader, query, expected.where(column, condition).select(some)


def _condition(chosen: random.Random, type_: str, text: str, *, is_orc: bool) -> tuple[str, str, Callable[[str], bool]]:
    """Return an operator, a literal, and what they mean for the text of a value."""
    literal = _literal(type_, text, is_orc=is_orc)
    if literal is None:
        return "is", "null", lambda other: other == "None"
    symbol = chosen.choice(("=", "<=", ">", "=")) if type_.partition("(")[0] in _ORDERED else "="
    if symbol == "=":
        return symbol, literal, lambda other: other == text
    value = _value(text)
    is_met = {"<=": operator.le, ">": operator.gt}[symbol]
    return symbol, literal, lambda other: other != "None" and is_met(_value(other), value)


def _value(text: str) -> Any:
    return eval(text, {"Decimal": Decimal})  # noqa: S307 - the text comes from repr


def _literal(type_: str, text: str, *, is_orc: bool) -> str | None:
    """Return a literal for a value, or None if the condition must be ``is null``."""
    kind = type_.partition("(")[0]
    if text == "None" or kind not in _COMPARED or (is_orc and kind.startswith("timestamp")):
        return None  # a literal would need the type that the column has in Lodge
    value = _value(text)
    match kind:
        case "string":
            literal = f"cast(unhex('{value.hex()}') as string)"
        case "binary":
            literal = f"X'{value.hex()}'"
        case "date":
            literal = f"date_from_unix_date({value})"
        case "timestamp_ntz":
            literal = f"timestamp_ntz'{_EPOCH + timedelta(microseconds=value)}'"
        case "timestamp":
            literal = f"timestamp_micros({value})"
        case _:
            literal = f"cast('{value}' as {type_})"
    return literal


def _shorten(error: PySparkException) -> str:
    text = str(error)
    causes = [line.strip() for line in text.splitlines() if line.startswith("Caused by:")]
    return " ".join([text.partition("JVM stacktrace")[0].strip()[:500], *causes[-1:]])


def _quote(name: str) -> str:
    return f"`{name}`"


def _describe(wanted: Rows, found: Rows) -> str:
    if wanted.types != found.types:
        names = [name for name in {**wanted.types, **found.types} if wanted.types.get(name) != found.types.get(name)]
        return "; ".join(f"{name}: Spark {wanted.types.get(name)}, Lodge {found.types.get(name)}" for name in names)
    missing = list((Counter(wanted.values) - Counter(found.values)).elements())
    more = list((Counter(found.values) - Counter(wanted.values)).elements())
    described = [f"{len(wanted.values)} rows of Spark, {len(found.values)} of Lodge"]
    for place, (name, type_) in enumerate(wanted.types.items()):
        one, other = sorted(row[place] for row in missing), sorted(row[place] for row in more)
        if one != other:
            pair = next(((a, b) for a, b in zip(one, other, strict=False) if a != b), (one[:1], other[:1]))
            described.append(f"{name} {type_}: Spark {str(pair[0])[:200]}, Lodge {str(pair[1])[:200]}")
    return "\n  ".join(described)


def compare(
    numbers: Sequence[int], start: Callable[[], Comparison], at_once: int = 2
) -> Iterator[tuple[int, str, Sequence[str]]]:
    """Compare directories in several sessions. Yield the number, the outcome and the differences of each."""
    comparisons = [start() for _ in range(at_once)]

    def check_all(place: int) -> list[tuple[int, str, Sequence[str]]]:
        return [(number, *comparisons[place].check(number)) for number in block[place::at_once]]

    try:
        with ThreadPoolExecutor(at_once) as executor:
            for first in range(0, len(numbers), 20):
                block = numbers[first : first + 20]
                for results in executor.map(check_all, range(at_once)):
                    yield from results
    finally:
        for each in comparisons:
            each.close()


def main() -> int:
    """Compare many directories."""
    parser = argparse.ArgumentParser(prog="python -m tests.drift.beside_spark", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the number of the first directory")
    parser.add_argument("--count", type=int, default=2000, help="how many directories are compared")
    arguments = parser.parse_args()
    numbers = range(arguments.first, arguments.first + arguments.count)
    outcomes: Counter[str] = Counter()
    started = time.monotonic()
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    with (
        tempfile.TemporaryDirectory(prefix="lodge-beside-") as place,
        start_spark_and_lodge(Path(place)) as (direct, lodge),
    ):
        for number, outcome, differences in compare(numbers, lambda: Comparison(direct, lodge, Path(place, "files"))):
            outcomes[outcome] += 1
            for each in differences:
                print(f"Directory {number}: {each}", flush=True)
    for outcome, count in outcomes.most_common():
        print(f"{count:>7,} {outcome}")
    print(f"{len(numbers):,} directories, {time.monotonic() - started:.0f} s.")
    return 1 if outcomes["different"] else 0


if __name__ == "__main__":
    sys.exit(main())
