"""The files of ``benchmarks/scans.py``.

They contain the same rows in three formats, and a set of files whose schemas drift.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

FILES = 4
DRIFTING_FILES = 200

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("quantity", pa.int32()),
        ("price", pa.float64()),
        ("discount", pa.float64()),
        ("customer", pa.string()),
        ("city", pa.string()),
        ("is_paid", pa.bool_()),
        ("at", pa.timestamp("us")),
        ("note", pa.string()),
        ("rating", pa.int64()),
    ]
)
DDL = (
    "id bigint, quantity int, price double, discount double, customer string, city string, is_paid boolean, "
    "at timestamp_ntz, note string, rating bigint"
)
CITIES = np.array(["Berlin", "Lyon", "Porto", "Graz", "Oslo", "Gent", "Brno", "Turku"])


def rows(count: int, first: int = 0) -> pa.Table:
    """Return ten columns of numbers, strings, booleans and timestamps, with nulls."""
    random = np.random.default_rng(first)
    ids = np.arange(first, first + count)
    at = np.datetime64("2026-01-01T00:00:00", "us") + ids * np.timedelta64(1_500_000, "us")
    columns = [
        pa.array(ids),
        pa.array(random.integers(1, 100, count), pa.int32()),
        pa.array(random.uniform(1, 1000, count).round(2)),
        pa.array(random.uniform(0, 0.5, count).round(3), mask=random.random(count) < 0.2),
        _join("customer.", random.integers(0, 100_000, count), "@example.org"),
        pa.array(CITIES[random.integers(0, len(CITIES), count)]),
        pa.array(random.random(count) < 0.7),
        pa.array(at),
        pc.if_else(
            pa.array(random.random(count) < 0.2),
            pa.scalar(None, pa.string()),
            _join("order ", random.integers(0, 10**9, count), " was left at the door of the neighbours"),
        ),
        pa.array(random.integers(1, 6, count), mask=random.random(count) < 0.3),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _join(before: str, numbers: np.ndarray, after: str) -> pa.Array:
    return pc.binary_join_element_wise(before, pa.array(numbers).cast(pa.string()), after, "")


def write_csv(table: pa.Table, path: Path) -> None:
    csv.write_csv(table, path, csv.WriteOptions(quoting_style="none"))


def write_json(table: pa.Table, path: Path) -> None:
    """Write JSON lines, with timestamps as ISO 8601 text and without nulls."""
    table = table.set_column(7, "at", pc.strftime(table["at"], "%Y-%m-%dT%H:%M:%S"))
    with path.open("w") as file:
        for batch in table.to_batches(max_chunksize=10_000):
            lines = ({name: value for name, value in row.items() if value is not None} for row in batch.to_pylist())
            file.writelines(json.dumps(line) + "\n" for line in lines)


def write_parquet(table: pa.Table, path: Path) -> None:
    parquet.write_table(table, path, row_group_size=131_072)


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "csv": write_csv,
    "json": write_json,
    "parquet": write_parquet,
}


def write_formats(directory: Path, count: int) -> None:
    """Write the same rows into one directory for each format."""
    for name, write in WRITERS.items():
        (directory / name).mkdir()
        for number in range(FILES):
            share = count // FILES
            write(rows(share, number * share), directory / name / f"{number}.{name}")


def write_drifting(directory: Path, count: int) -> None:
    """Write JSON lines into the directories ``steady`` and ``drifting``.

    The schemas in the second one drift.
    """
    share = count // DRIFTING_FILES
    for name in ("steady", "drifting"):
        (directory / name).mkdir()
    for number in range(DRIFTING_FILES):
        table = rows(share, number * share)
        write_json(table, directory / "steady" / f"{number:03}.json")
        write_json(_drift(table, number), directory / "drifting" / f"{number:03}.json")


def _drift(table: pa.Table, number: int) -> pa.Table:
    """Change types and names in some files without changing the amount of text."""
    if number % 3 == 1:
        table = table.set_column(2, "price", pc.round(table["price"]).cast(pa.int64()))
    if number % 4 == 2:
        table = table.rename_columns([f"note{number % 5}" if name == "note" else name for name in table.column_names])
    if number % 5 == 3:
        table = table.rename_columns(["Rating" if name == "rating" else name for name in table.column_names])
    return table
