"""The directories of ``benchmarks.lake``: their files, and the way in which each program reads them."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, orc

from benchmarks.scan_files import rows, write_json, write_parquet

ROWS_OF_SMALL_FILE = 10
LARGE_FILES = 8
COLUMNAR_FILES = 4
CSV_ROW_BYTES = 150
JSON_ROW_BYTES = 225
EXTRA = pa.field("extra", pa.string())


@dataclass(frozen=True, slots=True)
class Goal:
    """The time of Lodge relative to Spark that is to be reached at the first and at the second query."""

    first: float
    second: float


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory to measure.

    Attributes:
        name: The name of the directory.
        format: The format for Spark's reader, and the suffix of the files.
        title: A description for the table.
        rows: The number of rows of all files.
        goal: What is to be reached.
        write: Writes the files into an empty directory.
        spark_options: The options of Spark's reader.
        lodge_options: The options of the scan.
    """

    name: str
    format: str
    title: str
    rows: int
    goal: Goal
    write: Callable[[Path], None]
    spark_options: Mapping[str, str] = field(default_factory=dict)
    lodge_options: Mapping[str, str] = field(default_factory=dict)


def directories(*, small_files: list[int], text_mb: int, columnar_rows: int) -> Iterator[Directory]:
    """Return the directories of a run.

    Args:
        small_files: The number of files of the directories with many small files.
        text_mb: The approximate size of the JSON and of the CSV directory.
        columnar_rows: The number of rows of the Parquet and ORC directories.
    """
    for files in small_files:
        for format_, write in (("json", write_json), ("parquet", write_parquet)):
            yield Directory(
                f"{format_}_{files}",
                format_,
                f"{files:,} {format_} files of {ROWS_OF_SMALL_FILE} rows",
                files * ROWS_OF_SMALL_FILE,
                Goal(1.0, 0.6),
                _small_files(files, format_, write),
            )
    rows_of_json, rows_of_csv = (text_mb * 1_000_000 // LARGE_FILES // size for size in (JSON_ROW_BYTES, CSV_ROW_BYTES))
    yield Directory(
        "json_large",
        "json",
        f"json, {text_mb:,} MB in {LARGE_FILES} files",
        rows_of_json * LARGE_FILES,
        Goal(0.8, 0.6),
        _copies(rows_of_json, "json", write_json),
    )
    yield Directory(
        "csv_large",
        "csv",
        f"quoted csv with header, {text_mb:,} MB in {LARGE_FILES} files, against inferSchema",
        rows_of_csv * LARGE_FILES,
        Goal(0.2, 0.2),
        _copies(rows_of_csv, "csv", csv.write_csv),
        {"header": "true", "inferSchema": "true"},
        {"header": "true"},
    )
    yield Directory(
        "csv_lines",
        "csv",
        f"the same with line breaks in quoted text, {text_mb:,} MB in {LARGE_FILES} files, against multiLine",
        rows_of_csv * LARGE_FILES,
        Goal(0.2, 0.2),
        _copies(rows_of_csv, "csv", _write_csv_with_line_breaks),
        {"header": "true", "inferSchema": "true", "multiLine": "true"},
        {"header": "true"},
    )
    for format_, write_one in (("parquet", write_parquet), ("orc", orc.write_table)):
        for drifts in (False, True):
            yield Directory(
                f"{format_}{'_added' * drifts}",
                format_,
                f"{format_}, {columnar_rows:,} rows, "
                + ("a column added in half of the files, against mergeSchema" if drifts else "no drift"),
                columnar_rows // COLUMNAR_FILES * COLUMNAR_FILES,
                Goal(1.05, 1.05),
                _columnar_files(columnar_rows // COLUMNAR_FILES, format_, write_one, drifts=drifts),
                {"mergeSchema": "true"} if drifts else {},
            )


def _write_csv_with_line_breaks(table: pa.Table, path: Path) -> None:
    notes = pc.replace_substring(table["note"], "order ", "order\n")
    csv.write_csv(table.set_column(table.schema.get_field_index("note"), "note", notes), path)


def _small_files(count: int, format_: str, write: Callable[[pa.Table, Path], None]) -> Callable[[Path], None]:
    def write_all(folder: Path) -> None:
        table = rows(count * ROWS_OF_SMALL_FILE)
        for number in range(count):
            part = table.slice(number * ROWS_OF_SMALL_FILE, ROWS_OF_SMALL_FILE)
            write(part, folder / f"{number:06}.{format_}")

    return write_all


def _copies(rows_of_file: int, format_: str, write: Callable[[pa.Table, Path], None]) -> Callable[[Path], None]:
    """Write one file, and copy it, because writing text takes longer than all queries."""

    def write_all(folder: Path) -> None:
        first = folder / f"0.{format_}"
        write(rows(rows_of_file), first)
        for number in range(1, LARGE_FILES):
            shutil.copyfile(first, folder / f"{number}.{format_}")

    return write_all


def _columnar_files(
    rows_of_file: int, format_: str, write: Callable[[pa.Table, Path], None], *, drifts: bool
) -> Callable[[Path], None]:
    def write_all(folder: Path) -> None:
        for number in range(COLUMNAR_FILES):
            table = rows(rows_of_file, number * rows_of_file)
            if drifts and number % 2:
                table = table.append_column(EXTRA, table["city"])
            write(table, folder / f"{number}.{format_}")

    return write_all
