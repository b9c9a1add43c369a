"""Clients work without pause while Lodge is upgraded, rolled back, and moved between nodes.

The release begins as an older version, which knows nothing of bundled Spark. Spark is therefore a pod of its own.
"""

from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster
from tests.helm.chart import with_values
from tests.installation.clients import Clients
from tests.installation.installation import NAME, Installation
from tests.installation.older_version import OlderVersion, build_older_version
from tests.installation.spark import SPARK_ADDRESS, start_spark

SECONDS = 120.0
CLAIM = "files"
VALUES = {"backend": {"addresses": [SPARK_ADDRESS]}, "volume": {"existingClaim": CLAIM, "create": False}}
ENTRANCE = {
    "metadata": {"name": "entrance"},
    "spec": {
        "type": "NodePort",
        "selector": {"app.kubernetes.io/instance": NAME, "app.kubernetes.io/component": "gateway"},
        "ports": [{"port": 15002}],
    },
}
"""The older version has only Services for clients in the cluster."""

COMPONENTS = ("gateway", "reaper")


@pytest.fixture(scope="module")
def older_version(real_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> OlderVersion:
    """The older version, whose image the nodes have."""
    older = build_older_version(tmp_path_factory.mktemp("older"))
    for machine in real_cluster.machines:
        machine.load_image(older.archive)
    older.archive.unlink()
    return older


@pytest.fixture(scope="module")
def clients(installation: Installation, older_version: OlderVersion) -> Iterator[Clients]:
    """Install the older version, and let clients work."""
    start_spark(installation, CLAIM)
    installation.core.create_namespaced_service(installation.namespace, ENTRANCE)
    installation.entrance = "entrance"
    values = with_values(VALUES, older_version.values)
    installation.helm("install", NAME, older_version.chart, "--wait", values=values)
    installation.wait_until_ready()
    with Clients(installation) as clients:
        yield clients
        print(clients.summary())


def images(installation: Installation) -> set[str]:
    return {pod.spec.containers[0].image for component in COMPONENTS for pod in installation.pods(component)}


def test_upgrade_from_an_older_version_and_back(
    installation: Installation, clients: Clients, older_version: OlderVersion
) -> None:
    old = images(installation)
    installation.upgrade(VALUES)
    clients.check_progress()
    assert images(installation).isdisjoint(old)
    installation.rollback()
    clients.check_progress()
    assert images(installation) == old
    installation.upgrade(VALUES)
    clients.check_progress()


def test_a_pod_of_each_component_is_deleted(installation: Installation, clients: Clients) -> None:
    for component in COMPONENTS:
        name = min(pod.metadata.name for pod in installation.pods(component))
        installation.kubectl("delete", "pod", name, "--wait=true", seconds=SECONDS)
        installation.wait_until_ready()
        clients.check_progress()


def test_node_is_drained(installation: Installation, clients: Clients) -> None:
    """Spark is on the other node: its sessions end with it."""
    spark = installation.core.read_namespaced_pod("spark", installation.namespace).spec.node_name
    (drained,) = (machine.name for machine in installation.cluster.machines if machine.name != spark)
    try:
        installation.kubectl("drain", drained, "--ignore-daemonsets", "--delete-emptydir-data", seconds=SECONDS)
        assert {pod.spec.node_name for component in COMPONENTS for pod in installation.pods(component)} == {spark}
        installation.wait_until_ready()
        clients.check_progress()
    finally:
        installation.kubectl("uncordon", drained)
