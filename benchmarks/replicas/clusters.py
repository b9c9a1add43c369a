"""The Kubernetes API server for measurements."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.cluster.builds import build, find_missing
from tests.cluster.cluster import PROGRAMS_OF_A_CLUSTER, Cluster

CRD = Path(__file__).parents[2] / "helm" / "lodge" / "crds" / "connectsessions.yaml"


@contextlib.contextmanager
def start_cluster(*, gogc: str | None = None) -> Iterator[Cluster]:
    """Start an API server that knows ConnectSession objects.

    Args:
        gogc: The environment variable ``GOGC`` of its processes. None for Go's default.
    """
    build(find_missing(PROGRAMS_OF_A_CLUSTER), print)
    if gogc is not None:
        os.environ["GOGC"] = gogc
    with Cluster() as cluster:
        cluster.apply([yaml.safe_load(CRD.read_text())])
        yield cluster
