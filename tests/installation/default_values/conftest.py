"""The release that the tutorial installs, with options of Java. It sets nothing else but its images and raw files."""

from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster
from tests.installation.installation import Installation, wait_until
from tests.installation.tutorial import NAMESPACE, Tutorial

SECONDS = 120.0


@pytest.fixture(scope="package")
def tutorial(real_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tutorial]:
    """The tutorial, which is done except for its last step. The last test of this folder uninstalls the release."""
    with Tutorial(real_cluster, tmp_path_factory.mktemp("tutorial")) as tutorial:
        tutorial.run_until("## 7. Uninstall")
        yield tutorial


@pytest.fixture(scope="package")
def installation(real_cluster: Cluster, tutorial: Tutorial, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The release, without the session of the tutorial."""
    installation = Installation(real_cluster, tmp_path_factory.mktemp("helm"), NAMESPACE)
    installation.open_entrance()
    (session,) = installation.sessions()
    installation.connect("ada", session["spec"]["clientSessionId"]).stop()
    wait_until(lambda: not (installation.sessions() or installation.session_locations()), "no session is left", SECONDS)
    return installation
