"""The programs of ``benchmarks.lake`` that read a directory: Spark's own reader, Lodge, DuckDB and Polars."""

from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import polars as pl
from pyspark.sql import DataFrame
from pyspark.sql.connect.session import SparkSession

from benchmarks.lake.directories import Directory

Query = Sequence[str]
"""The columns to read. Empty for all columns."""

DUCKDB_SETTINGS = {"autoinstall_known_extensions": "false", "memory_limit": "8GB"}


def spark_frame(session: SparkSession, directory: Directory, folder: Path) -> DataFrame:
    return session.read.format(directory.format).options(**directory.spark_options).load(str(folder))


def lodge_frame(session: SparkSession, directory: Directory, folder: Path, query: Query) -> DataFrame:
    """Return the rows of a directory of the workspace ``dfs``."""
    options = ", ".join(f"{name} = '{value}'" for name, value in directory.lodge_options.items())
    text = f"select {', '.join(query) or '*'} from dfs.`{folder.name}`" + (f" with ({options})" if options else "")
    return session.sql(text)


def read_with_spark(session: SparkSession, directory: Directory, folder: Path, query: Query) -> None:
    frame = spark_frame(session, directory, folder)
    _drop(frame.select(*query) if query else frame)


def read_with_lodge(session: SparkSession, directory: Directory, folder: Path, query: Query) -> None:
    _drop(lodge_frame(session, directory, folder, query))


def _drop(frame: DataFrame) -> None:
    """Read all rows on the executors, and drop them there."""
    frame.write.format("noop").mode("overwrite").save()


def read_with_duckdb(directory: Directory, folder: Path, query: Query) -> None:
    pattern = folder / f"*.{directory.format}"
    function = {
        "csv": f"read_csv('{pattern}', header = true, union_by_name = true)",
        "json": f"read_json('{pattern}', format = 'newline_delimited', union_by_name = true)",
        "parquet": f"read_parquet('{pattern}', union_by_name = true)",
    }[directory.format]
    with duckdb.connect(config=DUCKDB_SETTINGS) as connection:
        for _ in connection.sql(f"select {', '.join(query) or '*'} from {function}").to_arrow_reader(65_536):
            pass


def read_with_polars(directory: Directory, folder: Path, query: Query) -> None:
    pattern = str(folder / f"*.{directory.format}")
    match directory.format:
        case "csv":
            frame = pl.scan_csv(pattern)
        case "json":
            frame = pl.scan_ndjson(pattern)
        case _:
            frame = pl.scan_parquet(pattern, missing_columns="insert", extra_columns="ignore")
    (frame.select(*query) if query else frame).collect()


PEERS: dict[str, Callable[[Directory, Path, Query], None]] = {"DuckDB": read_with_duckdb, "Polars": read_with_polars}
"""Programs in this process. They run for information."""

PEER_ERRORS = (duckdb.Error, pl.exceptions.PolarsError)

READABLE_BY_PEERS = ("csv", "json", "parquet")
