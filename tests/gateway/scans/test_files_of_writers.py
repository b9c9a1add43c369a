"""Files that other programs wrote, beside Spark's own reader: those of ``tests/foreign_files`` and of PyArrow's tests.

A file has one outcome if Spark can read all its columns together, and otherwise one for each column.
"""

import json
import os
import shutil
from dataclasses import dataclass
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

FILES = Path(__file__).parents[2] / "foreign_files" / "files"
FILES_OF_PYARROW = Path(pyarrow.__file__).parent / "tests" / "data"
FORMATS = {".parquet": "parquet", ".orc": "orc"}
ENGINE_ONLY = "with (spark_readers = false)"

DIFFERENCES = {}
"""The columns that a scan reads differently from Spark, as patterns of ``file column``, and why."""


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
    """What a reader returns for a column. Lodge does not convert ``TIMESTAMP`` of ORC, which has no time zone."""

    field: StructField
    values: tuple[str, ...]

    def __eq__(self, other):
        return isinstance(other, Column) and self._type() == other._type() and self.values == other.values

    def __hash__(self):
        return hash((self._type(), self.values))

    def __str__(self):
        return f"{self.field.dataType.simpleString()} {', '.join(self.values)}"

    def _type(self):
        return self.field.dataType.simpleString()


@pytest.fixture(scope="module")
def lodge(start_lodge, spark_server):
    gateway = start_lodge(backend=spark_server)
    yield gateway
    gateway.stop()


@pytest.fixture(scope="module")
def files(lodge):
    """The files, in the workspace ``dfs``."""
    sources = [*FILES.iterdir(), *FILES_OF_PYARROW.rglob("*.parquet"), *FILES_OF_PYARROW.rglob("*.orc")]
    found = []
    for source in sorted(sources):
        path = Path(shutil.copyfile(source, lodge.files / source.name))
        os.utime(path, (1e9, 1e9))  # the gateway does not trust recent files
        found.append(path)
    return found


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
            field.name: Column(field, tuple(repr(row[number]) for row in rows))
            for number, field in enumerate(frame.schema.fields)
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

    Spark refuses a whole file if it has no type for one of the columns. It then reads each column with the type of Lodge.
    """

    @cache
    def read_all(path):
        return read_frame(lambda: direct.read.format(FORMATS[path.suffix]).load(str(path)))

    @cache
    def read_inferred(path, name):
        column = f"`{name.replace('`', '``')}`"
        return only(read_frame(lambda: direct.read.format(FORMATS[path.suffix]).load(str(path)).selectExpr(column)))

    @cache
    def read_declared(path, field):
        schema = StructType([StructField.fromJson(json.loads(field))])
        return only(read_frame(lambda: direct.read.format(FORMATS[path.suffix]).schema(schema).load(str(path))))

    def read_one(path, name, found):
        read = Refused("all columns") if name == "*" else read_inferred(path, name)
        if isinstance(read, Column) or isinstance(found, Refused) or path.suffix == ".orc":
            return read
        return read_declared(path, found.field.json())

    def read(path, found):
        columns = read_all(path)
        if not isinstance(columns, Refused):
            return columns
        return {name: read_one(path, name, column) for name, column in found.items()}

    return read


@pytest.mark.parametrize("options", ["", ENGINE_ONLY], ids=["any_reader", "engine_only"])
def test_columns_have_the_values_of_sparks_reader(spark, read_by_spark, files, options):
    differing = {}
    out = open("/tmp/corpus/diffs" + ("-engine" if options else "") + ".txt", "w")
    for path in files:
        if path.suffix not in FORMATS:
            continue
        query = f"select %s from dfs.`{path.name}` {options}"
        found = read_columns(columns_of(path), lambda names, query=query: spark.sql(query % names))
        expected = read_by_spark(path, found)
        for name in expected.keys() | found.keys():
            outcomes = expected.get(name), found.get(name)
            if outcomes[0] != outcomes[1]:
                differing[f"{path.name} {name}"] = outcomes
                print(
                    f"{path.name} | {name}",
                    "\n   SPARK",
                    str(outcomes[0])[:1500],
                    "\n   LODGE",
                    str(outcomes[1])[:1500],
                    file=out,
                    flush=True,
                )
    unexpected = {name: each for name, each in differing.items() if not any(fnmatch(name, one) for one in DIFFERENCES)}
    assert not unexpected
