"""The speed of scans, in one process and through Spark.

In one process, the engine competes with other readers; through Spark, with Spark's readers.

    python benchmarks/scans.py [--rows N] [--rounds N] [--only PART ...]

All routes of a part read the same files alternately, in an order that changes with each round. The fastest round of
each route counts. Only ratios are meaningful, because other processes of the machine affect the times.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import bare_source
import duckdb
import polars as pl
import pyarrow as pa
import row_writer
from pyarrow import csv, dataset, json, parquet
from pyspark import cloudpickle
from pyspark.sql.connect.session import SparkSession
from scan_files import DDL, SCHEMA, WRITERS, write_drifting, write_formats
from scan_files import rows as rows_of

from engine.file_scan.file_scan import FileScan
from engine.file_scan.partition_reading import read_partition
from engine.file_scan.partitions import plan_partitions
from engine.file_scan.schema_discovery import discover_schema
from engine.scan_signature import WITHOUT_GATEWAY
from engine.scan_source import ScanSource
from engine.schema import TupleSchema
from lodge.embedded_spark import embedded_spark

TWO_COLUMNS = ["quantity", "city"]
TWO_DDL = "quantity int, city string"
POLARS_TYPES = {name: pl.from_arrow(SCHEMA.empty_table())[name].dtype for name in SCHEMA.names}

Route = Callable[[], int]


def measure(routes: dict[str, Route], rounds: int) -> dict[str, float]:
    """Return the fastest time of each route in seconds.

    All routes must read the same number of rows.
    """
    fastest = dict.fromkeys(routes, float("inf"))
    counts = set()
    for number in range(rounds):
        for name in list(routes) if number % 2 == 0 else reversed(list(routes)):
            start = time.perf_counter()
            counts.add(routes[name]())
            fastest[name] = min(fastest[name], time.perf_counter() - start)
    assert len(counts) == 1, f"the routes read different numbers of rows: {counts}"
    return fastest


def show(title: str, times: dict[str, float], base: str) -> None:
    print(f"\n{title}")
    for name, seconds in times.items():
        print(f"  {name:34} {seconds:8.2f} s   {seconds / times[base]:6.2f} x the time of {base}", flush=True)


def count(batches: Iterable[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


def file_scan(directory: Path, **options: str) -> FileScan:
    source = ScanSource("bench", str(directory.parent), directory.name)
    return FileScan.from_options(source.to_options(reader=options))


def engine_route(directory: Path, columns: Sequence[str] | None = None, **options: str) -> Route:
    """Read all partitions with the engine and a declared schema, as Spark's tasks do."""
    schema = TupleSchema(SCHEMA.field(name) for name in columns or SCHEMA.names)

    def run() -> int:
        scan = file_scan(directory, **options)
        return sum(count(read_partition(scan, files, schema, is_declared=True)) for files in plan_partitions(scan))

    return run


def discovering_engine_route(directory: Path) -> Route:
    """Read all partitions with the engine and a discovered schema."""

    def run() -> int:
        scan = file_scan(directory)
        schema = discover_schema(scan)
        return sum(count(read_partition(scan, files, schema, is_declared=False)) for files in plan_partitions(scan))

    return run


def pyarrow_reader(format_: str, path: Path) -> Iterable[pa.RecordBatch]:
    """Read a file with the reader of pyarrow that the engine uses for this format."""
    if format_ == "csv":
        types = dict(zip(SCHEMA.names, SCHEMA.types, strict=True))
        return csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=types)).to_batches()
    if format_ == "json":
        options = json.ParseOptions(explicit_schema=SCHEMA, unexpected_field_behavior="error")
        return json.read_json(path, json.ReadOptions(block_size=1 << 20), options).to_batches()
    return parquet.ParquetFile(path, pre_buffer=True).iter_batches(65_536)


def peers(format_: str, directory: Path) -> dict[str, Route]:
    """Return other readers of the same files, with declared types if possible."""
    files = sorted(directory.iterdir())
    pattern = str(directory / f"*.{format_}")
    duck = {
        "csv": f"read_csv('{pattern}', header = true)",
        "json": f"read_json('{pattern}', format = 'newline_delimited')",
        "parquet": f"read_parquet('{pattern}')",
    }[format_]
    polars: Callable[[], pl.LazyFrame] = {
        "csv": lambda: pl.scan_csv(pattern, schema=POLARS_TYPES),
        "json": lambda: pl.scan_ndjson(pattern, schema=POLARS_TYPES),
        "parquet": lambda: pl.scan_parquet(pattern),
    }[format_]
    return {
        "pyarrow reader": lambda: sum(count(pyarrow_reader(format_, path)) for path in files),
        "pyarrow.dataset": lambda: count(dataset.dataset(files, format=format_, schema=SCHEMA).to_batches()),
        "DuckDB": lambda: count(duckdb.sql(f"from {duck}").to_arrow_reader(65_536)),
        "Polars": lambda: polars().collect().height,
    }


def options_of(format_: str) -> dict[str, str]:
    return {"header": "true"} if format_ == "csv" else {}


def in_process_options(format_: str) -> dict[str, str]:
    """Return options that put each file into one partition for a single process."""
    return {**options_of(format_), "partition_bytes": "1 GiB"}


def bench_in_process(directory: Path, rounds: int) -> None:
    for format_ in WRITERS:
        folder, options = directory / format_, in_process_options(format_)
        routes = {"engine": engine_route(folder, **options), **peers(format_, folder)}
        times = measure(routes, rounds)
        show(f"{format_}, in process, all columns", times, "pyarrow reader")
        print(f"  the engine has {times['pyarrow reader'] / times['engine']:.2f} x the speed of the pyarrow reader")
        two = measure({"all": routes["engine"], "two": engine_route(folder, TWO_COLUMNS, **options)}, rounds)
        print(f"  2 of 10 columns are {two['all'] / two['two']:.2f} x as fast as all of them")


def bench_drift(directory: Path, rounds: int) -> None:
    routes = {name: discovering_engine_route(directory / name) for name in ("steady", "drifting")}
    show("200 files of JSON, discovered and read by the engine", measure(routes, rounds), "steady")


def bench_through_spark(directory: Path, rounds: int, spark: SparkSession) -> None:
    cloudpickle.register_pickle_by_value(bare_source)
    spark.dataSource.register(bare_source.BareSource)

    def to_noop(frame: "Callable[[], object]") -> Route:
        def run() -> int:
            frame().write.format("noop").mode("overwrite").save()  # type: ignore[attr-defined]
            return 0

        return run

    for format_ in WRITERS:
        options = options_of(format_)
        folder = str(directory / format_)

        def lodge(ddl: str, options: dict[str, str] = options, format_: str = format_) -> Route:
            source = {"workspace": "bench", "root": str(directory), "path": format_, **options}
            return to_noop(lambda: spark.read.format("lodge").options(**source).schema(ddl).load())

        def native(ddl: str, options: dict[str, str] = options, format_: str = format_, at: str = folder) -> Route:
            return to_noop(lambda: spark.read.format(format_).options(**options).schema(ddl).load(at))

        def bare(ddl: str, format_: str = format_, at: str = folder) -> Route:
            source = {"directory": at, "format": format_}
            return to_noop(lambda: spark.read.format("bare").options(**source).schema(ddl).load())

        times = measure({"Spark": native(DDL), "Lodge": lodge(DDL), "bare pyarrow": bare(DDL)}, rounds)
        show(f"{format_}, through Spark, all columns", times, "Spark")
        times = measure({"Spark": native(TWO_DDL), "Lodge": lodge(TWO_DDL), "bare pyarrow": bare(TWO_DDL)}, rounds)
        show(f"{format_}, through Spark, 2 of 10 columns", times, "Spark")


def peak_mb(directory: Path, format_: str) -> float:
    """Return the peak memory of a new process that scans a directory with the engine."""
    command = [sys.executable, __file__, "--peak-of", str(directory), format_]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def bench_memory(directory: Path, rows: int) -> None:
    print("\npeak memory of a process that scans one file")
    for format_, write in WRITERS.items():
        peaks = []
        for share in (4, 1):
            folder = directory / f"{format_}-1-of-{share}"
            folder.mkdir()
            write(rows_of(rows // 2 // share), folder / f"0.{format_}")
            peaks.append(peak_mb(folder, format_))
        print(f"  {format_:8} {peaks[0]:7.0f} MB, of a file four times as large {peaks[1]:7.0f} MB", flush=True)


@contextlib.contextmanager
def spark_session() -> Iterator[SparkSession]:
    os.environ[WITHOUT_GATEWAY] = "true"
    with embedded_spark("4g") as spark:
        session = SparkSession.builder.remote(spark.address).create()
        try:
            yield session
        finally:
            session.client.close()


def main() -> None:
    parts = ("in-process", "drift", "memory", "spark", "row-writer")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of each format")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each part")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts, help="the parts to run")
    parser.add_argument("--peak-of", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak_of:
        directory, format_ = arguments.peak_of
        engine_route(Path(directory), **in_process_options(format_))()
        status = Path("/proc/self/status").read_text()
        print(int(status.partition("VmHWM:")[2].split()[0]) / 1024)
        return
    with tempfile.TemporaryDirectory(prefix="lodge-bench-") as temporary:
        directory = Path(temporary)
        print(f"Writing files of {arguments.rows:,} rows ...", flush=True)
        if {"in-process", "spark"} & set(arguments.only):
            write_formats(directory, arguments.rows)
        if "in-process" in arguments.only:
            bench_in_process(directory, arguments.rounds)
        if "drift" in arguments.only:
            write_drifting(directory, arguments.rows)
            bench_drift(directory, arguments.rounds)
        if "memory" in arguments.only:
            bench_memory(directory, arguments.rows)
        if "spark" in arguments.only:
            with spark_session() as spark:
                bench_through_spark(directory, arguments.rounds, spark)
    if "row-writer" in arguments.only:
        print("\nrow writer")
        row_writer.main([])


if __name__ == "__main__":
    main()
