"""A cluster with two real nodes that have Lodge's images."""

from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

import pytest

from images.archives import build_archives
from tests.cluster.cluster import Cluster
from tests.helm.audit import AuditLog, audited_programs
from tests.images.tools import require_image_tools
from tests.installation.installation import Installation

TEST_SECONDS = 900
"""How long a test may take, with an installation and the images that it may need first."""


@pytest.fixture(scope="session")
def image_archives() -> Mapping[str, Path]:
    """The built images as files, by target."""
    require_image_tools()
    return {archive.target: archive.path for archive in build_archives()}


@pytest.fixture(scope="session")
def audited_cluster(
    machine_programs: None,
    chart_programs: None,
    image_archives: Mapping[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Cluster, AuditLog]]:
    with audited_programs(tmp_path_factory.mktemp("audit")) as log, Cluster(machines=2) as cluster:
        for machine in cluster.machines:
            for archive in image_archives.values():
                machine.load_image(archive)
        yield cluster, log


@pytest.fixture(scope="session")
def real_cluster(audited_cluster: tuple[Cluster, AuditLog]) -> Cluster:
    return audited_cluster[0]


@pytest.fixture(scope="session")
def audit(audited_cluster: tuple[Cluster, AuditLog]) -> AuditLog:
    return audited_cluster[1]


@pytest.fixture(scope="module")
def installation(real_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A namespace for the tests of a module. They install the chart themselves."""
    installation = Installation(real_cluster, tmp_path_factory.mktemp("helm"))
    yield installation
    real_cluster.delete_namespace(installation.namespace)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.installation)
            item.add_marker(pytest.mark.timeout(TEST_SECONDS))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the logs of all pods to the report of a failed test."""
    report = yield
    installation = getattr(item, "funcargs", {}).get("installation")
    if report.when == "call" and report.failed and isinstance(installation, Installation):
        report.sections.append(("Pods", installation.logs()))
    return report
