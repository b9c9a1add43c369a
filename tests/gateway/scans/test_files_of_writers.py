"""Files that other programs wrote, beside Spark's own reader: those of ``tests/foreign_files`` and of PyArrow's tests.

If Spark or Lodge cannot read a file as a whole, the test reads each of its columns alone.
"""

import json
import os
import shutil
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cache, partial
from pathlib import Path

import pyarrow
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.conversion import ArrowTableToRowsConversion
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from engine.errors import EngineError
from engine.file_scan.file_scan import FileScan
from engine.file_scan.partition_reading import read_partition
from engine.file_scan.partitions import plan_partitions
from engine.file_scan.schema_discovery import discover_schema, examine_file
from engine.readers.columnar.spark_marks import is_marked
from engine.scan_source import ScanSource, mentioned_form
from engine.spark_schema import to_scan_schema, to_spark_batch, to_spark_schema

pytestmark = pytest.mark.slow

SUFFIXES = (".parquet", ".orc", ".arrow", ".arrows")
FILES = Path(__file__).parents[2] / "foreign_files" / "files"
FILES_OF_PYARROW = Path(pyarrow.__file__).parent / "tests" / "data"
SOURCES = sorted(path for folder in (FILES, FILES_OF_PYARROW) for path in folder.rglob("*") if path.suffix in SUFFIXES)
FORMATS = {".parquet": "parquet", ".orc": "orc"}

SPARK_REFUSES = "Spark refuses it, Lodge reads it"
ARROW_REFUSES = "Arrow cannot read it, so that Lodge refuses it"

DIFFERENCES = {
    "*-brotli.parquet *": SPARK_REFUSES,
    "*.parquet half": SPARK_REFUSES,
    "* *_ns*": SPARK_REFUSES,
    "pyarrow-*-encodings_page_v?.parquet uint32": SPARK_REFUSES,  # BYTE_STREAM_SPLIT
    "parquet_java-*-decimals*.parquet binary_*": SPARK_REFUSES,
    "parquet_java-*-set.parquet without_values": SPARK_REFUSES,
    "hyparquet_writer-*-variants.parquet *": SPARK_REFUSES,
    "*-union.orc *": SPARK_REFUSES,  # also the columns that are no unions
    "*-durations.parquet *": "Arrow stores the type duration beside the schema of Parquet",
    "*nanoseconds*": "Lodge refuses nanoseconds, which Spark rounds",
    "*-names.orc with*": "Spark cuts the name off at the backtick",
    "pyarrow-0.17.1-primitives_page_v2.parquet boolean": "Spark returns wrong values",
    "pyorc-*-times_of_new_york.orc c0_timestamp": "Spark adds a second to fractions of the last second before 1970",
    "*wide*": ARROW_REFUSES,  # times of ORC before 1677 or after 2262
    "polars-*-large_integers.parquet *": ARROW_REFUSES,  # the whole file
    "duckdb-*-nested.parquet fixed": ARROW_REFUSES,
    "duckdb-*-primitives_v2.parquet *integer": ARROW_REFUSES,
    "arrow_go-*-encodings.parquet int32": ARROW_REFUSES,
    "arrow_rs-*-primitives_v2.parquet dictionary": ARROW_REFUSES,
    "parquet_java-*.parquet fixed_of_20_38_38": ARROW_REFUSES,
}
"""The columns that a scan reads differently from Spark, as patterns of the file and the column, and why."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The condition of an error. All refusals are equal, because readers fail for reasons of their own."""

    condition: str

    def __eq__(self, other):
        return isinstance(other, Refused)

    def __hash__(self):
        return hash(Refused)


@dataclass(frozen=True, slots=True)
class Column:
    """What a reader returns for a column.

    Attributes:
        type: Its type.
        values: The values of all rows.
        field: Its type in JSON.
    """

    type: str
    values: tuple[str, ...]
    field: str = field(compare=False)

    def __str__(self):
        return f"{self.type} {', '.join(self.values)}"


def writer_of(path):
    """Return the writer of a file and its version, or "tests_of_pyarrow"."""
    return path.name.rpartition("-")[0] if path.parent == FILES else "tests_of_pyarrow"


@pytest.fixture(scope="module")
def lodge(start_lodge, spark_server):
    gateway = start_lodge(backend=spark_server)
    yield gateway
    gateway.stop()


@pytest.fixture(scope="module")
def files(lodge):
    """The files of each writer, in the workspace ``dfs``."""
    by_writer = {}
    for source in SOURCES:
        path = Path(shutil.copyfile(source, lodge.files / source.name))
        os.utime(path, (1e9, 1e9))  # the gateway does not trust recent files
        by_writer.setdefault(writer_of(source), []).append(path)
    return by_writer


def only(read):
    """Return the only column that was read, or the error."""
    return read if isinstance(read, Refused) else next(iter(read.values()))


def columns_of(path):
    """Return the names of the columns of a file, or nothing if Arrow refuses the whole file."""
    try:
        if path.suffix == ".orc":
            return pyarrow.orc.ORCFile(path).schema.names
        schema = pyarrow.parquet.read_metadata(path).schema
    except (pyarrow.ArrowException, OSError):
        return []
    leaves = [schema.column(number) for number in range(len(schema))]
    names = [leaf.name if leaf.path == leaf.name else leaf.path.partition(".")[0] for leaf in leaves]
    return list(dict.fromkeys(names))


def to_columns(types, rows):
    """Return each column of rows.

    Args:
        types: The type of the rows.
        rows: The rows.
    """
    return {
        one.name: Column(one.dataType.simpleString(), tuple(repr(row[number]) for row in rows), one.json())
        for number, one in enumerate(types.fields)
    }


def read_frame(build):
    """Return each column of a DataFrame, or the error."""
    try:
        frame = build()
        return to_columns(frame.schema, frame.collect())
    except PySparkException as error:
        return Refused(f"{error.getCondition()}: {str(error)[:300]}")
    except (ValueError, OverflowError) as error:
        return Refused(f"client: {error}")


def read_by_engine(path, name):
    """Return a column of a file, or all if the name is None, as the engine returns it to Spark. Or return the error."""
    mentioned = None if name is None else frozenset({mentioned_form(name)})
    try:
        scan = FileScan.from_options(ScanSource("dfs", str(path.parent), path.name).to_options(mentioned=mentioned))
        types = to_spark_schema(discover_schema(scan))
        schema = to_scan_schema(types, "UTC")
        batches = [
            to_spark_batch(batch)
            for files in plan_partitions(scan, schema)
            for batch in read_partition(scan, files, schema, is_declared=False)
        ]
        table = pa.Table.from_batches(batches, to_arrow_schema(types, timezone="UTC"))
        return to_columns(types, ArrowTableToRowsConversion.convert(table, types))
    except EngineError as error:
        return Refused(f"{type(error).__name__}: {error}")
    except (ValueError, OverflowError) as error:
        return Refused(f"client: {error}")


def may_be_read_by_spark(path):
    """Return whether Lodge may let Spark's own reader read a file. Otherwise, the engine reads it."""
    scan = FileScan.from_options(ScanSource("dfs", str(path.parent), path.name).to_options())
    try:
        schema = examine_file(scan, scan.open_later(scan.list_files()[0]))
    except EngineError:
        return False
    return all(is_marked(column.metadata, FORMATS[path.suffix]) for column in schema)


def read_columns(names, read):
    """Return each column of a file, or its error. Each is read alone if the file cannot be read as a whole.

    Args:
        names: The columns of the file.
        read: A function that returns the column with a name, or all columns if the name is None, or an error.
    """
    found = read(None)
    if not isinstance(found, Refused):
        return found
    if len(names) < 2:
        return dict.fromkeys(names or "*", found)
    columns = {}
    for name in names:
        columns |= read_columns([name], lambda _, name=name: read(name))
    return columns


@pytest.fixture(scope="module")
def read_by_spark(direct):
    """A function that returns what Spark's reader returns for columns of a file.

    Spark refuses a whole file if it has no type for one of its columns. It then reads each column with the type that
    Lodge returns.
    """

    @cache
    def read_all(path):
        return read_frame(lambda: direct.read.format(FORMATS[path.suffix]).load(str(path)))

    @cache
    def read_inferred(path, name):
        column = f"`{name.replace('`', '``')}`"
        return only(read_frame(lambda: direct.read.format(FORMATS[path.suffix]).load(str(path)).selectExpr(column)))

    @cache
    def read_declared(path, declared):
        schema = StructType([StructField.fromJson(json.loads(declared))])
        return only(read_frame(lambda: direct.read.format(FORMATS[path.suffix]).schema(schema).load(str(path))))

    def read_one(path, name, found):
        read = Refused("all columns") if name == "*" else read_inferred(path, name)
        if isinstance(read, Column) or isinstance(found, Refused) or path.suffix == ".orc":
            return read
        return read_declared(path, found.field)

    def read(path, found):
        columns = read_all(path)
        if not isinstance(columns, Refused):
            return columns
        return {name: read_one(path, name, column) for name, column in found.items()}

    return read


def is_same(expected, found, name):
    """Return whether Lodge returns what Spark returns.

    ``TIMESTAMP`` of ORC has no time zone in Lodge. Spark refuses times of day, unless a setting says otherwise.
    """
    if isinstance(found, Column) and found.type.startswith("time(") and isinstance(expected, Refused):
        return True
    if name.endswith(".orc") and isinstance(found, Column):
        found = replace(found, type=found.type.replace("timestamp_ntz", "timestamp"))
    return found == expected


def describe_differences(file, expected, found):
    """Return a description of each column that differs and is not listed."""
    described = []
    for name in sorted(expected.keys() | found.keys()):
        column = f"{file} {name}"
        is_listed = any(fnmatch(column, pattern) for pattern in DIFFERENCES)
        if not is_listed and not is_same(expected.get(name), found.get(name), file):
            described.append(f"{column}\n  expected: {expected.get(name)}\n  found: {found.get(name)}")
    return described


@pytest.mark.parametrize("writer", sorted(set(map(writer_of, SOURCES))))
def test_columns_have_the_values_of_sparks_reader(spark, read_by_spark, files, writer):
    differing = []
    for path in files[writer]:
        if path.suffix not in FORMATS:
            continue

        def read_by_lodge(name, path=path):
            column = "*" if name is None else f"`{name.replace('`', '``')}`"
            return read_frame(lambda: spark.sql(f"select {column} from dfs.`{path.name}`"))

        readers = [partial(read_by_engine, path), *([read_by_lodge] if may_be_read_by_spark(path) else [])]
        for read in readers:
            found = read_columns(columns_of(path), read)
            differing += describe_differences(path.name, read_by_spark(path, found), found)
    assert not differing, "\n".join(differing)


@pytest.mark.parametrize("name", [path.name for path in SOURCES if path.suffix in (".arrow", ".arrows")])
def test_arrow_files_have_the_rows_of_the_parquet_file_of_the_same_name(files, name):
    paths = {path.name: path for path in files[name.rpartition("-")[0]]}
    parquet = paths[Path(name).stem + ".parquet"]
    found, expected = (
        read_columns(columns_of(parquet), partial(read_by_engine, one)) for one in (paths[name], parquet)
    )
    assert describe_differences(name, expected, found) == []


def test_each_difference_is_one_of_a_file():
    names = [path.name for path in SOURCES]
    files = {pattern.partition(" ")[0] for pattern in DIFFERENCES}
    assert [pattern for pattern in files if not any(fnmatch(name, pattern) for name in names)] == []
