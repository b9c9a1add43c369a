"""Writes the table of docs/explanation/schema-drift.md.

The table compares how different systems read files whose schemas drift.

    python -m scripts.drift_table [--show-wrong]

The cases are the cases of ``tests/drift/cases.py`` that do not need an option. Each system is run with its best
options. If several sets of options are useful, the best outcome of each case is used. Each case is run with both orders
of the files, and the worse outcome is used.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
from pyspark.sql import SparkSession

from engine.errors import EngineError
from engine.file_scan.file_scan import FileScan
from engine.file_scan.partition_reading import read_partition
from engine.file_scan.partitions import plan_partitions
from engine.file_scan.schema_discovery import discover_schema
from engine.scan_source import ScanSource
from scripts.drift_outcomes import is_right
from tests.drift.cases import FOUND, Case

DOCUMENT = Path(__file__).parents[1] / "docs" / "explanation" / "schema-drift.md"
BEGIN, END = "<!-- The table begins. `make drift-table` writes it. -->", "<!-- The table ends. -->"

RIGHT, ERROR, WRONG, NONE = "R", "E", "**W**", "-"
WORST_TO_BEST = (WRONG, ERROR, RIGHT, NONE)
FORMATS = {"csv": "CSV", "jsonl": "JSON", "json": "JSON", "parquet": "Parquet", "orc": "ORC", "arrow": "Arrow"}

Read = Callable[[Case, Sequence[str]], pa.Table | None]
"""Reads files with a system. Returns None if the system does not have a reader for the files."""


def read_with_lodge(case: Case, files: Sequence[str]) -> pa.Table:
    source = ScanSource("dfs", str(Path(files[0]).parent), ".")
    scan = FileScan.from_options(source.to_options(reader=case.options))
    schema = discover_schema(scan)
    batches = [
        batch for files_ in plan_partitions(scan) for batch in read_partition(scan, files_, schema, is_declared=False)
    ]
    return pa.Table.from_batches(batches, schema.to_arrow())


def spark_reader(session: SparkSession, **csv_options: Any) -> Read:
    def read(case: Case, files: Sequence[str]) -> pa.Table | None:
        reader = session.read.option("mergeSchema", True)
        match case.format:
            case "csv":
                frame = reader.csv(list(files), header=bool(case.options), inferSchema=True, **csv_options)
            case "jsonl":
                frame = reader.json(list(files), mode="FAILFAST")
            case "json":
                frame = reader.json(list(files), mode="FAILFAST", multiLine=True)
            case "parquet":
                frame = reader.parquet(*files)
            case "orc":
                frame = reader.orc(list(files))
            case _:
                return None
        return frame.toArrow()

    return read


def read_with_duckdb(case: Case, files: Sequence[str], *, null_padding: bool) -> pa.Table | None:
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        match case.format:
            case "csv":
                found = connection.read_csv(
                    list(files), header=bool(case.options), union_by_name=True, null_padding=null_padding
                )
            case "jsonl" | "json":
                found = connection.read_json(list(files), union_by_name=True)
            case "parquet":
                found = connection.read_parquet(list(files), union_by_name=True)
            case _:
                return None
        return found.to_arrow_table()


def read_with_polars(case: Case, files: Sequence[str]) -> pa.Table | None:
    lenient: Mapping[str, Any] = {"missing_columns": "insert", "extra_columns": "ignore"}
    match case.format:
        case "csv":
            lazy = pl.scan_csv(list(files), has_header=bool(case.options), infer_schema_length=None, **lenient)
        case "jsonl":
            lazy = pl.scan_ndjson(list(files), infer_schema_length=None)
        case "parquet":
            lazy = pl.scan_parquet(list(files), **lenient)
        case "arrow":
            lazy = pl.scan_ipc(list(files))
        case _:
            return None
    return lazy.collect().to_arrow()


def read_with_pyarrow(case: Case, files: Sequence[str], *, has_line_ends: bool) -> pa.Table | None:
    match case.format:
        case "csv":
            options = pa.csv.ReadOptions(autogenerate_column_names=not case.options)
            parsing = pa.csv.ParseOptions(newlines_in_values=has_line_ends)
            format_: Any = pa.dataset.CsvFileFormat(parse_options=parsing, read_options=options)
        case "jsonl":
            format_ = "json"
        case "json":
            return None
        case other:
            format_ = other
    return pa.dataset.dataset(list(files), format=format_).to_table()


def best(reads: Sequence[Read], case: Case, directory: Path, *, is_shown: bool) -> str:
    """Return the best outcome among several sets of options."""
    found = [outcome(read, case, directory, is_shown=is_shown) for read in reads]
    return max(found, key=WORST_TO_BEST.index)


def outcome(read: Read, case: Case, directory: Path, *, is_shown: bool) -> str:
    """Return the worse outcome of the two orders of the files."""
    found = []
    for is_reversed in (False, True):
        folder = directory / f"{is_reversed}"
        files = sorted(str(path) for path in folder.iterdir())
        found.append(_outcome(read, case, files, is_shown=is_shown))
    return min(found, key=WORST_TO_BEST.index)


def _outcome(read: Read, case: Case, files: Sequence[str], *, is_shown: bool) -> str:
    is_mixed = len({Path(file).suffix for file in files}) > 1
    if is_mixed and read is not read_with_lodge:
        return NONE
    try:
        table = read(case, files)
        if table is None:
            return NONE
        rows = table.to_pylist()
    except EngineError:
        return ERROR
    except (
        BaseException
    ) as error:  # Polars raises a BaseException when it panics, and every exception of a system is an outcome
        if isinstance(error, KeyboardInterrupt) or read is read_with_lodge:
            raise
        if is_shown:
            print(f"{read}: {case}: {type(error).__name__}: {str(error).splitlines()[:1]}")
        return ERROR
    if is_right(table, case):
        return RIGHT
    if is_shown:
        print(f"{read}: {case}: {rows}")
    return WRONG


def outcomes(systems: Mapping[str, Sequence[Read]], *, is_shown: bool) -> Iterator[tuple[Case, dict[str, str]]]:
    with tempfile.TemporaryDirectory(prefix="drift-") as scratch:
        for number, case in enumerate(FOUND):
            directory = Path(scratch) / str(number)
            for is_reversed in (False, True):
                folder = directory / f"{is_reversed}"
                folder.mkdir(parents=True)
                case.write(folder, is_reversed=is_reversed)
            yield case, {name: best(reads, case, directory, is_shown=is_shown) for name, reads in systems.items()}


def table_of(found: Sequence[tuple[Case, Mapping[str, str]]], systems: Sequence[str]) -> str:
    """Return the table in Markdown. Formats with the same outcomes are combined in one row."""
    lines: dict[tuple[str, bool, tuple[str, ...]], list[str]] = {}
    for case, by_system in found:
        key = case.drift, case.rows is None, tuple(by_system[name] for name in systems)
        lines.setdefault(key, []).append(format_of(case))
    text = [f"| drift | formats | {' | '.join(systems)} |", "| --- " * (len(systems) + 2) + "|"]
    before = ""
    for (drift, has_no_answer, outcomes_), formats in lines.items():
        shown = "" if drift == before else drift + " †" * has_no_answer
        text.append(f"| {shown} | {', '.join(formats)} | {' | '.join(outcomes_)} |")
        before = drift
    for sign, what in ((RIGHT, "right"), (ERROR, "error"), (WRONG, "silently wrong")):
        counts = Counter(name for _, by_system in found for name in systems if by_system[name] == sign)
        text.append(f"| {what}, of {len(found)} | | {' | '.join(str(counts[name]) for name in systems)} |")
    return "\n".join(text)


def format_of(case: Case) -> str:
    names = [FORMATS.get(one.suffix or case.format, (one.suffix or case.format).upper()) for one in case.files]
    return " and ".join(dict.fromkeys(names))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show-wrong", action="store_true", help="print wrong results and errors")
    arguments = parser.parse_args()
    os.environ["TZ"] = "UTC"
    time.tzset()
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.session.timeZone", "UTC").config("spark.log.level", "OFF").getOrCreate()
    systems: dict[str, Sequence[Read]] = {
        "Lodge": [read_with_lodge],
        "Spark": [spark_reader(session), spark_reader(session, multiLine=True, escape='"')],
        "DuckDB": [partial(read_with_duckdb, null_padding=is_padded) for is_padded in (False, True)],
        "Polars": [read_with_polars],
        "pyarrow": [partial(read_with_pyarrow, has_line_ends=has_them) for has_them in (False, True)],
    }
    try:
        found = list(outcomes(systems, is_shown=arguments.show_wrong))
    finally:
        session.stop()
    versions = ", ".join(f"{name} {version(name.lower())}" for name in ("DuckDB", "Polars", "pyarrow"))
    head = f"Spark {version('pyspark')}, {versions}."
    before, rest = DOCUMENT.read_text().split(BEGIN)
    after = rest.split(END)[1]
    DOCUMENT.write_text(f"{before}{BEGIN}\n\n{head}\n\n{table_of(found, list(systems))}\n\n{END}{after}")
    if any(by_system["Lodge"] == WRONG for _, by_system in found):
        sys.exit("Lodge is silently wrong: see the table.")


if __name__ == "__main__":
    main()
