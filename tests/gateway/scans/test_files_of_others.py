"""Files that other programs wrote, beside Spark's own reader: those of the tests of Spark."""

import os
import zipfile

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from tests.golden.corpus import fetch_test_jar
from tests.maven import MissingMavenError

pytestmark = pytest.mark.slow

OFF = "with (spark_readers = false)"
OLD_TIMES = "times before 1900 of the Julian calendar, which only Spark converts, and not in milliseconds"

DIFFERENCES = {
    "before_1582_timestamp_millis_v2_4_6.snappy.parquet": OLD_TIMES,
    "before_1582_timestamp_millis_v3_2_0.snappy.parquet": OLD_TIMES,
    "before_1582_ts_v2_4.snappy.orc": "the time zone PST of its writer is unknown to Arrow: refused",
}
"""The files for which a scan does not return what Spark returns, and why."""

REFUSED_BY_ENGINE = frozenset(
    f"before_1582_timestamp_{kind}_{version}.snappy.parquet"
    for kind in ("int96_dict", "int96_plain", "micros", "millis")
    for version in ("v2_4_6", "v3_2_0")
)
"""The files that only Spark's reader reads."""


@pytest.fixture(scope="module")
def lodge(start_lodge, spark_server):
    gateway = start_lodge(backend=spark_server)
    yield gateway
    gateway.stop()


@pytest.fixture(scope="module")
def files(lodge):
    """The files, in the workspace ``dfs``."""
    try:
        jar = fetch_test_jar()
    except MissingMavenError:
        pytest.skip("Maven is not installed.")
    found = []
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.startswith("test-data/") and name.endswith((".parquet", ".orc")):
                path = lodge.files / name.rpartition("/")[2]
                path.write_bytes(archive.read(name))
                path.chmod(0o644)
                os.utime(path, (1e9, 1e9))  # the gateway does not trust recent files
                found.append(path)
    return found


def outcome(build):
    """Return the columns and rows of a DataFrame, or the condition of its error."""
    try:
        frame = build()
        return frame.schema.simpleString(), sorted(map(repr, frame.collect()))
    except PySparkException as error:
        return error.getCondition()


def test_files_of_sparks_tests_have_the_rows_of_sparks_reader(spark, spark_server, files):
    direct = SparkSession.builder.remote(spark_server).create()
    try:
        differing = set()
        for path in files:
            expected = outcome(lambda path=path: direct.read.format(path.suffix[1:]).load(str(path)))
            found = outcome(lambda path=path: spark.table(f"dfs.`{path.name}`"))
            is_same = found == expected or (isinstance(found, str) and isinstance(expected, str))
            if not is_same:
                differing.add(path.name)
        assert differing == set(DIFFERENCES)
    finally:
        direct.client.close()


def test_engine_reads_the_same_or_refuses(spark, files):
    """What Spark's reader does not read in its place, because another file drifts or is small."""
    refused = set()
    for path in files:
        if not path.name.startswith("before_1582"):
            continue
        expected = outcome(lambda path=path: spark.table(f"dfs.`{path.name}`"))
        found = outcome(lambda path=path: spark.sql(f"select * from dfs.`{path.name}` {OFF}"))
        if isinstance(found, str):
            refused.add(path.name)
        else:
            assert found == expected, path.name
    assert refused == REFUSED_BY_ENGINE | {"before_1582_ts_v2_4.snappy.orc"}


def test_types_of_spark_in_orc_are_those_of_spark(spark, spark_server, lodge):
    columns = (
        "timestamp_ntz'1985-02-03 04:05:06.789' ntz, array(timestamp_ntz'2001-02-03 04:05:06') many, "
        "named_struct('d', interval '1 02:03:04.5' day to second, 'n', 1) nested, "
        "'x' text, cast('y' as varchar(3)) short, date'1001-02-03' day, 1 number"
    )
    direct = SparkSession.builder.remote(spark_server).create()
    target = lodge.files / "types.orc"
    try:
        direct.sql(f"select {columns}, interval '1-2' year to month months").coalesce(1).write.orc(str(target))
        expected = outcome(lambda: direct.read.orc(str(target)).drop("months"))
    finally:
        direct.client.close()
    names = "ntz, many, nested, text, short, day, number"
    assert outcome(lambda: spark.sql(f"select {names} from dfs.`types.orc`")) == expected
    assert outcome(lambda: spark.table("dfs.`types.orc`")) == "LODGE_TYPE_NOT_SUPPORTED"
