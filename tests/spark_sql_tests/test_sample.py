"""A sample of Spark's SQL tests returns through Lodge what Spark returns. ``make soak`` runs all of them."""

import pytest
from pyspark.sql.connect.session import SparkSession

from tests.maven import MissingMavenError
from tests.skips import skip_missing
from tests.spark_sql_tests.documented import judge, read_documented_differences
from tests.spark_sql_tests.run import Runner
from tests.spark_sql_tests.sample import SAMPLE
from tests.spark_sql_tests.server_objects import ServerObjects
from tests.spark_sql_tests.sql_files import extract_test_data, read_files
from tests.spark_sql_tests.ways import TABLES, VIEWS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def files():
    try:
        return {file.name: file for file in read_files().files}
    except MissingMavenError as missing:
        skip_missing(str(missing))


@pytest.fixture(scope="module")
def runner(files, start_lodge, spark_server, tmp_path_factory):
    spark = SparkSession.builder.remote(spark_server).create()
    objects = ServerObjects(spark, extract_test_data(tmp_path_factory.mktemp("data")))
    yield Runner(spark_server, start_lodge(backend=spark_server).address, objects)
    objects.remove_test_tables()
    spark.stop()


def test_sample_has_only_documented_differences(files, runner):
    for name in dict.fromkeys(name for names in SAMPLE.values() for name in names):
        runner.run(files[name], [way for way, names in SAMPLE.items() if name in names])
    report = runner.report
    verdict = judge(report.differences, read_documented_differences(), report.runs)
    assert [str(each) for each in verdict.undocumented] == []
    assert [str(each) for each in verdict.outdated] == []
    assert report.runs == {(way, name) for way, names in SAMPLE.items() for name in names}
    assert report.rewritten[VIEWS] > 0
    assert report.rewritten[TABLES] > 0
