"""Clients work without pause while Lodge is rolled back, upgraded, and moved between nodes."""

from collections.abc import Iterator

import pytest

from tests.installation.clients import Clients
from tests.installation.installation import Installation
from tests.installation.older_version import COMMIT, OlderVersion
from tests.installation.own_spark import OWN_SPARK

SECONDS = 120.0
COMPONENTS = ("gateway", "reaper")


@pytest.fixture(scope="module")
def clients(installation: Installation, older_version: OlderVersion | None) -> Iterator[Clients]:
    """Clients that work during all tests of this module."""
    if older_version is None:
        pytest.skip(f"This clone does not contain the commit {COMMIT}. Run git fetch --unshallow.")
    installation.open_entrance()
    with Clients(installation) as clients:
        yield clients
        print(clients.summary())


def images(installation: Installation) -> set[str]:
    return {pod.spec.containers[0].image for component in COMPONENTS for pod in installation.pods(component)}


def test_rollback_to_an_older_version_and_upgrade(installation: Installation, clients: Clients) -> None:
    """The release began as the older version."""
    new = images(installation)
    installation.rollback()
    clients.check_progress()
    assert images(installation).isdisjoint(new)
    session = installation.connect("older")
    session.sql("create temporary table t as select 1 as one").collect()
    installation.upgrade(OWN_SPARK)
    clients.check_progress()
    assert images(installation) == new
    assert session.table("t").collect() == [(1,)], "a session that the older version created continues"
    session.stop()


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
