"""The scans of ``tests/engine/test_spark_scan.py`` on two executors, without a gateway."""

from collections.abc import Iterator

import pytest
from pyspark.sql.connect.session import SparkSession

from tests.engine.conftest import workspace  # noqa: F401 - a fixture
from tests.engine.test_spark_scan import *  # noqa: F403 - all tests

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def spark(cluster) -> Iterator[SparkSession]:
    session = SparkSession.builder.remote(cluster.spark.address).create()
    yield session
    session.stop()
