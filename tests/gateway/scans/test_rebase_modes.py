"""Old dates and times in Parquet files that do not name the version of Spark that wrote them, beside Spark's reader."""

import datetime
import os

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.errors import PySparkException

pytestmark = pytest.mark.slow

OF_DATES = "spark.sql.parquet.datetimeRebaseModeInRead"
OF_INT96 = "spark.sql.parquet.int96RebaseModeInRead"
OLD, NEW = datetime.datetime(1001, 1, 1), datetime.datetime(2001, 1, 1)
OFF = "with (spark_readers = false)"


@pytest.fixture(scope="module")
def lodge(start_lodge, spark_server):
    gateway = start_lodge(backend=spark_server)
    yield gateway
    gateway.stop()


@pytest.fixture(scope="module")
def files(lodge):
    """The paths of files: old and new dates, times and times of 96 bits."""
    columns = {
        "date": pa.array([OLD.date(), None]),
        "member": pa.array([{"d": OLD.date()}, {"d": None}]),
        "time": pa.array([OLD, None], pa.timestamp("us", "UTC")),
        "int96": pa.array([OLD, None], pa.timestamp("us")),
        "new": pa.array([NEW, None], pa.timestamp("us", "UTC")),
    }
    paths = {}
    for name, values in columns.items():
        path = paths[name] = lodge.files / f"{name}.parquet"
        is_int96 = name == "int96"
        parquet.write_table(pa.table({"c": values}), path, use_deprecated_int96_timestamps=is_int96, store_schema=False)
        os.utime(path, (1e9, 1e9))  # the gateway does not trust recent files
    return paths


@pytest.fixture
def set_modes(restored_spark, spark_server):
    """Return a function that sets both modes in a session of Lodge and in one of Spark, and returns the sessions."""
    from pyspark.sql.connect.session import SparkSession

    direct = SparkSession.builder.remote(spark_server).create()

    def to(mode):
        for session in (restored_spark, direct):
            for setting in (OF_DATES, OF_INT96):
                session.conf.set(setting, mode)
        return restored_spark, direct

    yield to
    direct.client.close()


def read(build):
    try:
        return list(map(repr, build().collect()))
    except PySparkException:
        return "refused"


@pytest.mark.parametrize("mode", ["CORRECTED", "LEGACY", "EXCEPTION"])
def test_modes_of_the_session_are_those_of_spark(files, set_modes, mode):
    spark, direct = set_modes(mode)
    for name, path in files.items():
        expected = read(lambda path=path: direct.read.parquet(str(path)))
        assert read(lambda path=path: spark.table(f"dfs.`{path.name}`")) == expected, name
        found = read(lambda path=path: spark.sql(f"select * from dfs.`{path.name}` {OFF}"))
        is_converted_by_spark_only = mode == "LEGACY" and name in ("time", "int96")
        assert found == ("refused" if is_converted_by_spark_only else expected), name


def test_option_of_the_scan_wins(files, set_modes):
    spark, _ = set_modes("EXCEPTION")
    query = "select * from dfs.`date.parquet` with (datetime_rebase = 'corrected')"
    assert spark.sql(query).collect() == [(OLD.date(),), (None,)]
    with pytest.raises(PySparkException, match="datetimeRebaseModeInRead to CORRECTED, or to LEGACY"):
        spark.sql(f"select * from dfs.`date.parquet` {OFF}").collect()
