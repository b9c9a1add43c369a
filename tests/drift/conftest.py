"""A gateway, and one client session for the cases of a module."""

from collections.abc import Iterator

import pytest
from pyspark.sql.connect.session import SparkSession


@pytest.fixture(scope="session")
def lodge(start_shared_lodge, spark_server):
    return start_shared_lodge(backend=spark_server)


@pytest.fixture(scope="module")  # at the end of a module, the Python processes of its sessions end
def spark(lodge) -> Iterator[SparkSession]:
    session = SparkSession.builder.remote(lodge.address).create()
    yield session
    session.stop()
