"""A standalone cluster with a gateway in front of it, for all tests of this folder."""

from collections.abc import Generator, Iterator

import pytest
from pyspark.sql.connect.session import SparkSession

from tests.standalone.cluster import StandaloneCluster, standalone_cluster
from tests.standalone.gate import Gate


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with standalone_cluster(tmp_path_factory.mktemp("standalone")) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def lodge(start_shared_lodge, cluster):
    gateway = start_shared_lodge(backend=cluster.spark.address)
    yield gateway
    gateway.stop()


@pytest.fixture(scope="package")
def spark(lodge) -> Iterator[SparkSession]:
    session = SparkSession.builder.remote(lodge.address).create()
    yield session
    session.stop()


@pytest.fixture
def gate(tmp_path) -> Iterator[Gate]:
    """A gate for the tasks of the test. It opens at the end of the test, so that no task waits forever."""
    gate = Gate(tmp_path)
    yield gate
    gate.open()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the directory of the logs to the report of a failed test. Pytest keeps the directories of three runs."""
    report = yield
    cluster = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and cluster is not None:
        report.sections.append(("Logs of the cluster", str(cluster.directory)))
    return report
