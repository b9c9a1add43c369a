"""Pytest fixtures for the test cluster and servers of storages.

Tests that use them get the marker ``cluster``. A run never builds programs: `make cluster-programs` does. Tests whose
programs are missing are skipped.

A fixture that starts a server of its own requests one of `PROGRAMS_OF_FIXTURES`. The fixtures import their servers
themselves, because the client of Kubernetes takes seconds to import, and every run of pytest imports this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.builds import (
    PROGRAMS_OF_A_CLUSTER,
    PROGRAMS_OF_MACHINES,
    MissingToolError,
    find_missing,
    find_missing_tool,
)
from tests.skips import skip_missing

pytest_plugins = ["tests.cluster.pauses"]

if TYPE_CHECKING:
    from tests.cluster.clouds import AzureServer, GcsServer
    from tests.cluster.cluster import Cluster
    from tests.cluster.hdfs import HdfsServer
    from tests.cluster.nodes import Node
    from tests.cluster.s3 import S3Server

PROGRAMS_OF_FIXTURES: Mapping[str, Sequence[str]] = {
    "cluster_programs": PROGRAMS_OF_A_CLUSTER,
    "machine_programs": (*PROGRAMS_OF_A_CLUSTER, *PROGRAMS_OF_MACHINES, "kubectl"),
    "chart_programs": ("helm", "kubeconform", "promtool"),
    "s3_programs": ("versitygw", "gofakes3"),
    "cloud_programs": ("fake-gcs-server", "azurite-blob"),
    "hdfs_programs": ("hdfs-jars", "libhdfs.so"),
}


@pytest.fixture(scope="session")
def cluster_programs() -> None:
    """Require the programs of a `Cluster`."""
    _require("cluster_programs")


@pytest.fixture(scope="session")
def machine_programs() -> None:
    """Require everything that a `Cluster` with real nodes needs."""
    from tests.cluster.machines.machines import install_tools

    _require("machine_programs")
    if problem := install_tools():
        skip_missing(problem)


@pytest.fixture(scope="session")
def chart_programs() -> None:
    """Require helm, kubeconform and promtool. ``builds.program(name)`` returns their paths."""
    _require("chart_programs")


@pytest.fixture(scope="session")
def s3_programs() -> None:
    """Require the programs of an `S3Server`."""
    _require("s3_programs")


@pytest.fixture(scope="session")
def cloud_programs() -> None:
    """Require the programs of a `GcsServer` and an `AzureServer`."""
    _require("cloud_programs")


@pytest.fixture(scope="session")
def hdfs_programs() -> None:
    """Require the programs of an `HdfsServer`."""
    _require("hdfs_programs")


@pytest.fixture(scope="module")
def hdfs_client(hdfs_programs: None) -> Iterator[None]:
    """Give this process, and the processes that a test starts, a client of HDFS."""
    from tests.cluster.hdfs import client_environment

    with pytest.MonkeyPatch.context() as patch:
        for name, value in client_environment().items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def cluster(cluster_programs: None) -> Iterator[Cluster]:
    """The shared cluster of all tests. A test that breaks it must repair it."""
    from tests.cluster.cluster import Cluster
    from tests.cluster.pauses import paused_between_directories

    with paused_between_directories("cluster", Cluster(scheduler=True)) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kubeconfig(cluster: Cluster) -> Path:
    """The administrator's kubeconfig."""
    return cluster.kubeconfig


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace for one test."""
    name = cluster.namespace()
    yield name
    cluster.delete_namespace(name)


@pytest.fixture
def node(cluster: Cluster) -> Iterator[Node]:
    """A node for one test."""
    node = cluster.node()
    yield node
    node.remove()


@pytest.fixture(scope="session")
def s3_server(s3_programs: None) -> Iterator[S3Server]:
    """The S3 server that all tests share."""
    from tests.cluster.s3 import S3Server

    with S3Server() as server:
        yield server


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    """A bucket for one test."""
    return s3_server.bucket()


@pytest.fixture(scope="session")
def gcs_server(cloud_programs: None) -> Iterator[GcsServer]:
    """The server with the interface of Google Cloud Storage that all tests share."""
    from tests.cluster.clouds import GcsServer

    with GcsServer() as server:
        yield server


@pytest.fixture(scope="session")
def azure_server(cloud_programs: None) -> Iterator[AzureServer]:
    """The server with the interface of Azure that all tests share."""
    from tests.cluster.clouds import AzureServer

    with AzureServer() as server:
        yield server


@pytest.fixture(scope="session")
def hdfs_server(hdfs_programs: None) -> Iterator[HdfsServer]:
    """The HDFS that all tests share."""
    from tests.cluster.hdfs import HdfsServer

    with HdfsServer() as server:
        yield server


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cluster: needs a Kubernetes API or an S3 server; set automatically")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if PROGRAMS_OF_FIXTURES.keys() & set(getattr(item, "fixturenames", ())):
            item.add_marker("cluster")


def _require(fixture: str) -> None:
    absent = find_missing(PROGRAMS_OF_FIXTURES[fixture])
    if not absent:
        return
    if tool := find_missing_tool(absent):
        skip_missing(str(MissingToolError(tool, absent)))
    skip_missing(f"{', '.join(absent)} are not built. Run `make cluster-programs` once; it takes minutes.")
