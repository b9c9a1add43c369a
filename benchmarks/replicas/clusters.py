"""The Kubernetes API server for measurements."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.cluster.builds import build, find_missing
from tests.cluster.cluster import PROGRAMS_OF_A_CLUSTER, Cluster

CRD = Path(__file__).parents[2] / "helm" / "lodge" / "crds" / "connectsessions.yaml"


@contextlib.contextmanager
def start_cluster() -> Iterator[Cluster]:
    """Start an API server that knows ConnectSession objects."""
    build(find_missing(PROGRAMS_OF_A_CLUSTER), print)
    with Cluster() as cluster:
        cluster.apply([yaml.safe_load(CRD.read_text())])
        yield cluster
