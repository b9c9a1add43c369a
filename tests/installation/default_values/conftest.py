"""A release that sets nothing but its images, the way in from outside the cluster, and a volume of raw files."""

from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster
from tests.helm.chart import Values
from tests.installation.installation import OUTSIDE, Installation

RAW: Values = {
    "workspaces": {"dfs": "file:///raw"},
    "extraVolumes": [{"name": "raw", "persistentVolumeClaim": {"claimName": "raw"}}],
    "extraVolumeMounts": [{"name": "raw", "mountPath": "/raw"}],
}


@pytest.fixture(scope="package")
def installation(real_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """The release, for all tests of this folder. The last of them uninstalls it."""
    installation = Installation(real_cluster, tmp_path_factory.mktemp("helm"))
    installation.claim("raw")
    installation.install(OUTSIDE, RAW)
    yield installation
    real_cluster.delete_namespace(installation.namespace)
