"""Pauses the clusters of a test run between the directories that use them, because idle ones need processor time.

A cluster of a fixture continues before the setup of a test that requests the fixture, and whenever its client is used.
All clusters run while the last test ends, because fixtures of the session may need them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster

_clusters: dict[str, "Cluster"] = {}


@contextmanager
def paused_between_directories(fixture: str, cluster: "Cluster") -> Iterator["Cluster"]:
    """Run the cluster of a fixture of the session."""
    with cluster:
        _clusters[fixture] = cluster
        try:
            yield cluster
        finally:
            del _clusters[fixture]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for fixture, cluster in _clusters.items():
        if fixture in getattr(item, "fixturenames", ()):
            cluster.resume()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    if nextitem is None:
        for cluster in _clusters.values():
            cluster.resume()
    yield
    if nextitem is not None and nextitem.path.parent != item.path.parent:
        for cluster in _clusters.values():
            cluster.pause()
