"""Client sessions for scans."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql.connect.session import SparkSession

from tests import python_environments as environments


@pytest.fixture(scope="module")
def spark(shared_spark: SparkSession) -> SparkSession:
    return shared_spark


@pytest.fixture(scope="module")
def direct(spark_server: str) -> Iterator[SparkSession]:
    """A session of Spark without Lodge."""
    session = SparkSession.builder.remote(spark_server).create()
    yield session
    session.stop()


@pytest.fixture
def own_spark(connect: Callable[[], SparkSession]) -> SparkSession:
    """A session that ends with the test. Most tests that change a session can use ``restored_spark``."""
    return connect()


@pytest.fixture(scope="session")
def python_environment() -> Callable[[Sequence[str]], Path]:
    return environments.python_environment
