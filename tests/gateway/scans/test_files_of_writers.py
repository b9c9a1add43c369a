"""Files that other programs wrote, beside Spark's own reader: those of ``tests/foreign_files`` and of PyArrow's tests.

If Spark or Lodge cannot read a file as a whole, the test reads each of its columns alone.
"""

import json
import os
import shutil
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pyarrow
import pyarrow.orc
import pyarrow.parquet
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.types import StructField, StructType

pytestmark = pytest.mark.slow

SUFFIXES = (".parquet", ".orc", ".arrow", ".arrows")
FILES = Path(__file__).parents[2] / "foreign_files" / "files"
FILES_OF_PYARROW = Path(pyarrow.__file__).parent / "tests" / "data"
SOURCES = sorted(path for folder in (FILES, FILES_OF_PYARROW) for path in folder.rglob("*") if path.suffix in SUFFIXES)
FORMATS = {".parquet": "parquet", ".orc": "orc"}
ENGINE_ONLY = "with (spark_readers = false)"

SPARK_REFUSES = "Spark refuses it, Lodge reads it"
NOT_SUPPORTED = "TODO: the type is not supported"

DIFFERENCES = {
    "*-brotli.parquet *": SPARK_REFUSES,
    "*.parquet half": SPARK_REFUSES,
    "* *_ns*": SPARK_REFUSES,
    "pyarrow-*-encodings_page_v?.parquet uint32": SPARK_REFUSES,  # BYTE_STREAM_SPLIT
    "parquet_java-*-decimals*.parquet binary_*": SPARK_REFUSES,
    "parquet_java-*-set.parquet without_values": SPARK_REFUSES,
    "*-union.orc *": SPARK_REFUSES,  # also the columns that are no unions
    "*-durations.parquet *": "Arrow stores the type duration beside the schema of Parquet",
    "*nanoseconds*": "Lodge refuses nanoseconds, which Spark rounds",
    "*-names.orc with*": "Spark cuts the name off at the backtick",
    "pyarrow-0.17.1-primitives_page_v2.parquet boolean": "Spark returns wrong values",
    "*-nothing.parquet *": "TODO: columns of nulls are text",
    "*variants.parquet *": NOT_SUPPORTED,
    "*.parquet geo*": NOT_SUPPORTED,
    "hive-*.orc char": "TODO: the engine pads CHAR of ORC by bytes, not by characters",
    "*wide*": "TODO: times before 1677 or after 2262 in ORC are refused",
    "pyorc-*-times_of_new_york.orc c0_timestamp": "TODO: fractions of the last second before 1970 in ORC",
    "p*-int96.parquet *": "TODO: INT96 of Arrow before 1970, and of the year -4713, has wrong values",
    "parquet_java-*-optional_keys.parquet *": "TODO: maps with optional keys are refused, and so is the whole file",
    "polars-*-large_integers.parquet *": "TODO: integers of 128 bits are refused, and so is the whole file",
    "duckdb-*-nested.parquet fixed": "TODO: lists of a fixed size with nulls are refused",
    "duckdb-*-primitives_v2.parquet *integer": "TODO: deltas of more than 32 bits are refused",
    "arrow_go-*-encodings.parquet int32": "TODO: deltas of more than 32 bits are refused",
    "arrow_rs-*-primitives_v2.parquet dictionary": "TODO: dictionaries of Arrow in DELTA_BYTE_ARRAY are refused",
    "parquet_java-*.parquet fixed_of_20_38_38": "TODO: decimals of more than 16 bytes are refused",
    "polars-*.arrow [ce]*": "TODO: dictionaries of string views in Arrow IPC are refused",
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
    """Return the writer of a file, or "tests_of_pyarrow"."""
    return path.name.partition("-")[0] if path.parent == FILES else "tests_of_pyarrow"


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


@pytest.fixture(scope="module")
def direct(spark_server):
    session = SparkSession.builder.remote(spark_server).create()
    yield session
    session.client.close()


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


def read_frame(build):
    """Return the field and the values of each column of a DataFrame, or the error."""
    try:
        frame = build()
        rows = frame.collect()
        return {
            one.name: Column(one.dataType.simpleString(), tuple(repr(row[number]) for row in rows), one.json())
            for number, one in enumerate(frame.schema.fields)
        }
    except PySparkException as error:
        return Refused(f"{error.getCondition()}: {str(error)[:300]}")
    except (ValueError, OverflowError) as error:
        return Refused(f"client: {error}")


def read_columns(names, select):
    """Return each column of a file, or its error. Each is read alone if the file cannot be read as a whole.

    Args:
        names: The columns of the file.
        select: A function that returns a DataFrame with the given columns.
    """
    read = read_frame(lambda: select("*"))
    if not isinstance(read, Refused):
        return read
    if len(names) < 2:
        return dict.fromkeys(names or "*", read)
    columns = {}
    for name in names:
        column = f"`{name.replace('`', '``')}`"
        columns |= read_columns([name], lambda _, column=column: select(column))
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
    """Return whether Lodge returns what Spark returns, except that ``TIMESTAMP`` of ORC has no time zone in Lodge."""
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


@pytest.mark.parametrize("options", ["", ENGINE_ONLY], ids=["any_reader", "engine_only"])
@pytest.mark.parametrize("writer", sorted(set(map(writer_of, SOURCES))))
def test_columns_have_the_values_of_sparks_reader(spark, read_by_spark, files, writer, options):
    differing = []
    for path in files[writer]:
        if path.suffix not in FORMATS:
            continue
        query = f"select %s from dfs.`{path.name}` {options}"
        found = read_columns(columns_of(path), lambda names, query=query: spark.sql(query % names))
        expected = read_by_spark(path, found)
        differing += describe_differences(path.name, expected, found)
    assert not differing, "\n".join(differing)


@pytest.mark.parametrize("name", [path.name for path in SOURCES if path.suffix in (".arrow", ".arrows")])
def test_arrow_files_have_the_rows_of_the_parquet_file_of_the_same_name(spark, files, name):
    parquet = next(path for path in files[name.partition("-")[0]] if path.name == Path(name).stem + ".parquet")
    found, expected = (
        read_columns(
            columns_of(parquet), lambda names, one=one: spark.sql(f"select {names} from dfs.`{one}` {ENGINE_ONLY}")
        )
        for one in (name, parquet.name)
    )
    assert describe_differences(name, expected, found) == []
