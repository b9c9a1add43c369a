"""Scans of directories as large as those of a lake, through ``lodge serve`` and by Spark's own readers.

    python -m benchmarks.lake [--files N ...] [--text-mb N] [--rows N] [--rounds N] [--only WORD ...]

Both use the same Spark server, alternately, in an order that changes with each round. In each round they read a new
copy of the directory twice. The first query is cold for Lodge and for Spark: neither has seen the paths. The files are
in the page cache of the operating system. A ratio is the median of the ratios of all rounds. Only ratios are
meaningful, because other processes of the machine affect the times.

DuckDB and Polars read the same files in this process, for information. The data is removed at the end.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pyspark.sql.connect.session import SparkSession

from benchmarks.lake.directories import COLUMNAR_FILES, Directory, directories
from benchmarks.lake.routes import (
    PEER_ERRORS,
    PEERS,
    READABLE_BY_PEERS,
    Query,
    lodge_frame,
    read_with_lodge,
    read_with_spark,
    spark_frame,
)
from benchmarks.pass_through import connect, run_gateway, run_in_turn, seconds_of
from lodge.embedded_spark import embedded_spark
from lodge.logs import set_up_logs

TWO_COLUMNS = ("quantity", "city")
QUERIES: dict[str, Query] = {"all columns": (), "2 of 10 columns": TWO_COLUMNS}
MOST_FILES = 100_000
MOST_TEXT_MB = 10_000
MOST_ROWS = 100_000_000
SPACE_FACTOR = 6
"""The free space that a run needs, in multiples of the text of one directory."""

HEADER = (
    "| directory | query | Spark, first / second | Lodge, first / second | ratio (goal), first | second | "
    + " | ".join(PEERS)
    + " |"
)


@dataclass(slots=True)
class Times:
    """The times of one program in seconds, one of each round."""

    first: list[float] = field(default_factory=list)
    second: list[float] = field(default_factory=list)


class Lake:
    """The directories of a run, and the sessions that read them.

    Args:
        workspace: The directory of the workspace ``dfs``.
        spark: A session of the Spark server.
        lodge: A session of the gateway in front of it.
    """

    def __init__(self, workspace: Path, spark: SparkSession, lodge: SparkSession) -> None:
        self._workspace = workspace
        self._readers = {"Spark": partial(read_with_spark, spark), "Lodge": partial(read_with_lodge, lodge)}
        self._spark = spark
        self._lodge = lodge
        self._copies = 0

    def measure(self, directory: Directory, rounds: int) -> None:
        """Write a directory, print a row of the table for each query, and remove the directory."""
        original = self._workspace / directory.name
        original.mkdir()
        directory.write(original)
        for name, query in QUERIES.items():
            times = {reader: Times() for reader in self._readers}
            self._run("Spark", directory, original, query)  # the classes of Spark and its compiler are warm
            self._run("Lodge", directory, original, query)
            for number in range(rounds):
                run_in_turn(number, times, partial(self._measure_reader, directory, original, query, times))
            show(directory, name, times, self._peers(directory, original, query))
        self._check(directory, original)
        shutil.rmtree(original)

    def _measure_reader(
        self, directory: Directory, original: Path, query: Query, times: dict[str, Times], reader: str
    ) -> None:
        folder = self._copy(original)
        times[reader].first.append(seconds_of(lambda: self._run(reader, directory, folder, query)))
        times[reader].second.append(seconds_of(lambda: self._run(reader, directory, folder, query)))
        shutil.rmtree(folder)

    def _run(self, reader: str, directory: Directory, folder: Path, query: Query) -> None:
        self._readers[reader](directory, folder, query)

    def _copy(self, original: Path) -> Path:
        """Return a copy of a directory with hard links, which no program has read."""
        self._copies += 1
        folder = self._workspace / f"{original.name}_{self._copies}"
        shutil.copytree(original, folder, copy_function=os.link)
        return folder

    def _peers(self, directory: Directory, folder: Path, query: Query) -> dict[str, str]:
        """Return the time of each peer, or its error. For 10,000 JSON files, DuckDB needs more than 18 GB."""
        if directory.format not in READABLE_BY_PEERS:
            return {}
        found = {}
        for name, read in PEERS.items():
            try:
                found[name] = f"{seconds_of(partial(read, directory, folder, query)):.1f} s"
            except PEER_ERRORS as error:
                found[name] = type(error).__name__
        return found

    def _check(self, directory: Directory, folder: Path) -> None:
        """Check that Spark and Lodge read the same columns and all rows."""
        spark = spark_frame(self._spark, directory, folder)
        lodge = lodge_frame(self._lodge, directory, folder, ())
        assert sorted(spark.columns) == sorted(lodge.columns), f"{directory.name}: {spark.columns} != {lodge.columns}"
        counts = spark.count(), lodge.count()
        assert set(counts) == {directory.rows}, f"{directory.name} has {directory.rows} rows, not {counts}"


def show(directory: Directory, query: str, times: dict[str, Times], peers: dict[str, str]) -> None:
    spark, lodge = times["Spark"], times["Lodge"]
    first, second = (
        statistics.median(b / a for a, b in zip(ours, theirs, strict=True))
        for ours, theirs in ((spark.first, lodge.first), (spark.second, lodge.second))
    )
    seconds = (f"{statistics.median(one.first):.1f} / {statistics.median(one.second):.1f} s" for one in (spark, lodge))
    others = (peers.get(name, "-") for name in PEERS)
    cells = [directory.title, query, *seconds]
    cells += [f"{first:.2f} ({directory.goal.first:g})", f"{second:.2f} ({directory.goal.second:g})", *others]
    print(f"| {' | '.join(cells)} |", flush=True)


def parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lake", description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, nargs="*", default=[1000, 10_000], help="the numbers of small files")
    parser.add_argument("--text-mb", type=int, default=250, help="the size of the JSON and CSV directories")
    parser.add_argument("--rows", type=int, default=2_000_000, help="the rows of the Parquet and ORC directories")
    parser.add_argument("--rounds", type=int, default=3, help="the rounds of each query")
    parser.add_argument("--only", nargs="+", help="measure only directories whose names contain one of these words")
    arguments = parser.parse_args()
    if not all(1 <= count <= MOST_FILES for count in arguments.files):
        parser.error(f"--files must be between 1 and {MOST_FILES:,}.")
    if not 1 <= arguments.text_mb <= MOST_TEXT_MB:
        parser.error(f"--text-mb must be between 1 and {MOST_TEXT_MB:,}.")
    if not COLUMNAR_FILES <= arguments.rows <= MOST_ROWS:
        parser.error(f"--rows must be between {COLUMNAR_FILES} and {MOST_ROWS:,}.")
    if shutil.disk_usage(tempfile.gettempdir()).free < arguments.text_mb * 1_000_000 * SPACE_FACTOR:
        parser.error(f"{tempfile.gettempdir()} has too little space for --text-mb {arguments.text_mb}.")
    return arguments


def main() -> None:
    arguments = parsed_arguments()
    set_up_logs("error")
    lake = directories(small_files=arguments.files, text_mb=arguments.text_mb, columnar_rows=arguments.rows)
    chosen = [one for one in lake if any(word in one.name for word in arguments.only or [""])]
    if not chosen:
        sys.exit(f"No directory has a name with any of these words: {', '.join(arguments.only)}.")
    with tempfile.TemporaryDirectory(prefix="lodge-bench-") as temporary:
        directory = Path(temporary)
        with embedded_spark("4g") as spark, run_gateway(spark.address, directory) as gateway:
            sessions = connect(spark.address), connect(gateway.address)
            print(HEADER, "|---" * HEADER.count(" |") + "|", sep="\n", flush=True)
            for one in chosen:
                Lake(directory / "dfs", *sessions).measure(one, arguments.rounds)
            for session in sessions:
                session.stop()


if __name__ == "__main__":
    main()
