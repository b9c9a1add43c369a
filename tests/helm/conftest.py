"""Fixtures for the chart: a cluster with two nodes and an audit log, and helm."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.pauses import paused_between_directories
from tests.helm.audit import AuditLog, audited_programs
from tests.helm.chart import Helm
from tests.helm.definitions import MissingDefinitionsError, install_definitions
from tests.helm.releases import Releases
from tests.helm.schemas import write_schemas
from tests.skips import skip_missing


@pytest.fixture(scope="session")
def helm(chart_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm for commands that need no cluster."""
    return Helm(tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def audited_cluster(
    cluster_programs: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cluster, AuditLog]]:
    with (
        audited_programs(tmp_path_factory.mktemp("audit")) as log,
        paused_between_directories("audited_cluster", Cluster(scheduler=True)) as cluster,
    ):
        cluster.node("node-1")
        cluster.node("node-2")
        yield cluster, log


@pytest.fixture(scope="session")
def chart_cluster(audited_cluster: tuple[Cluster, AuditLog]) -> Cluster:
    return audited_cluster[0]


@pytest.fixture(scope="session")
def audit_log(audited_cluster: tuple[Cluster, AuditLog]) -> AuditLog:
    """The audit log of the cluster's service accounts."""
    return audited_cluster[1]


@pytest.fixture(scope="session")
def definitions(chart_cluster: Cluster) -> None:
    """The kinds of other projects that the chart can create."""
    try:
        install_definitions(chart_cluster)
    except MissingDefinitionsError as error:
        skip_missing(str(error))


@pytest.fixture(scope="session")
def schemas(chart_cluster: Cluster, definitions: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """JSON schemas of all kinds in the cluster, for kubeconform."""
    directory = tmp_path_factory.mktemp("schemas")
    write_schemas(chart_cluster.client, directory)
    return directory


@pytest.fixture
def releases(chart_cluster: Cluster, chart_programs: None, tmp_path: Path) -> Releases:
    """A namespace for one test."""
    return Releases(chart_cluster, tmp_path)
