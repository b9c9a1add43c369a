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
    by_file = {
        name: [way for way, names in SAMPLE.items() if name in names] for names in SAMPLE.values() for name in names
    }
    for name, ways in by_file.items():
        runner.run(files[name], ways)
    runs = {(way, name) for name, ways in by_file.items() for way in ways}
    verdict = judge(runner.report.differences, read_documented_differences(), runs)
    assert [str(each) for each in verdict.undocumented] == []
    assert [str(each) for each in verdict.outdated] == []
    assert all(runner.report.compared[way] > 100 for way in SAMPLE)
    assert all(runner.report.rewritten[way] > 0 for way in SAMPLE if way != "as-is")
