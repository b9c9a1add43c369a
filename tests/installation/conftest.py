"""A cluster with two real nodes that have Lodge's images."""

import shutil
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

import pytest

from images.archives import build_archives
from tests.cluster.cluster import Cluster
from tests.helm.audit import AuditLog, audited_programs
from tests.helm.chart import with_values
from tests.images.tools import require_image_tools
from tests.installation.installation import NAME, Installation
from tests.installation.older_version import OlderVersion, build_older_version
from tests.installation.own_spark import CLAIM, NODE_LOSS, OWN_SPARK, start_spark

DEFINITION = "connectsessions.sparklodge.io"
TEST_SECONDS = 900
"""How long a test may take, with an installation and the images that it may need first."""


@pytest.fixture(scope="session")
def image_archives() -> Mapping[str, Path]:
    """The built images as files, by target."""
    require_image_tools()
    return {archive.target: archive.path for archive in build_archives()}


@pytest.fixture(scope="session")
def older_version(
    image_archives: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OlderVersion | None]:
    """The version from which a release is upgraded; None if the clone has no history."""
    directory = tmp_path_factory.mktemp("older")
    yield build_older_version(directory)
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def audited_cluster(
    machine_programs: None,
    chart_programs: None,
    image_archives: Mapping[str, Path],
    older_version: OlderVersion | None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Cluster, AuditLog]]:
    images = [*image_archives.values(), *([older_version.archive] if older_version else [])]
    with audited_programs(tmp_path_factory.mktemp("audit")) as log, Cluster(machines=2, images=images) as cluster:
        yield cluster, log


@pytest.fixture(scope="session")
def real_cluster(audited_cluster: tuple[Cluster, AuditLog]) -> Cluster:
    return audited_cluster[0]


@pytest.fixture(scope="session")
def audit(audited_cluster: tuple[Cluster, AuditLog]) -> AuditLog:
    return audited_cluster[1]


@pytest.fixture(scope="session")
def installation(
    real_cluster: Cluster, older_version: OlderVersion | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """A release that began as an older version, which knows nothing of bundled Spark. Spark is a pod of its own."""
    installation = Installation(real_cluster, tmp_path_factory.mktemp("helm"))
    installation.workspace_claim = CLAIM
    start_spark(installation, node=real_cluster.machines[-1].name)
    if older_version is not None:
        values = with_values(OWN_SPARK, older_version.values)
        found = installation.kubectl(
            "get", "customresourcedefinitions", DEFINITION, "--ignore-not-found", "--output=name"
        )
        options = ["--skip-crds"] if found else []  # of another test, and newer, so Helm may not replace it
        installation.helm("install", NAME, older_version.chart, "--wait", *options, values=values)
        installation.wait_until_ready()
    installation.upgrade(OWN_SPARK, NODE_LOSS)
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
