"""The test cluster in pytest: fixtures, and what happens where it cannot be had.

A test that needs a cluster or an S3 server, by whatever fixture, is marked ``cluster``. The programs that the selected
ones need are built before the first test, outside of every test's time limit. Where programs are missing and Go is too,
these tests are left out.

A fixture that starts servers of its own asks for one of `PROGRAMS_OF_FIXTURES`, and so is known to need them.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.cluster.builds import MissingGoError, ProgramError, build, can_build, missing
from tests.cluster.cluster import PROGRAMS_OF_A_CLUSTER, Cluster
from tests.cluster.nodes import Node
from tests.cluster.s3 import S3Server
from tests.left_out import leave_out

PROGRAMS_OF_FIXTURES: Mapping[str, Sequence[str]] = {
    "cluster_programs": PROGRAMS_OF_A_CLUSTER,
    "chart_programs": ("helm", "kubeconform"),
    "s3_programs": ("versitygw", "gofakes3"),
}

_problems = pytest.StashKey[dict[str, ProgramError]]()


@pytest.fixture(scope="session")
def cluster_programs(pytestconfig: pytest.Config) -> None:
    """For fixtures that start a `Cluster` of their own."""
    _require("cluster_programs", pytestconfig)


@pytest.fixture(scope="session")
def chart_programs(pytestconfig: pytest.Config) -> None:
    """For tests that call helm and kubeconform, at ``builds.program(name)``."""
    _require("chart_programs", pytestconfig)


@pytest.fixture(scope="session")
def s3_programs(pytestconfig: pytest.Config) -> None:
    """For fixtures that start an `S3Server` of their own."""
    _require("s3_programs", pytestconfig)


@pytest.fixture(scope="session")
def cluster(cluster_programs: None) -> Iterator[Cluster]:
    """The cluster that all tests share; who breaks something of it must put it right again."""
    with Cluster(scheduler=True) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kubeconfig(cluster: Cluster) -> Path:
    """The administrator's."""
    return cluster.kubeconfig


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of the test's own."""
    name = cluster.namespace()
    yield name
    cluster.delete_namespace(name)


@pytest.fixture
def node(cluster: Cluster) -> Iterator[Node]:
    """A node of the test's own."""
    node = cluster.node()
    yield node
    node.remove()


@pytest.fixture(scope="session")
def s3_server(s3_programs: None) -> Iterator[S3Server]:
    """The S3 server that all tests share."""
    with S3Server() as server:
        yield server


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    """A bucket of the test's own."""
    return s3_server.bucket()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cluster: needs a Kubernetes API or an S3 server; set by what a test asks for")
    config.stash[_problems] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _program_fixtures([item]):
            item.add_marker("cluster")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    if session.config.option.collectonly or session.testsfailed:
        return  # no test will run
    problems = session.config.stash[_problems]
    fixtures = [fixture for fixture in _program_fixtures(session.items) if missing(PROGRAMS_OF_FIXTURES[fixture])]
    if not can_build():
        absent = [program for fixture in fixtures for program in missing(PROGRAMS_OF_FIXTURES[fixture])]
        problems.update(dict.fromkeys(fixtures, MissingGoError(absent)))
        return
    for fixture in fixtures:
        try:
            build(PROGRAMS_OF_FIXTURES[fixture], session.config.get_terminal_writer().line)
        except ProgramError as problem:
            problems[fixture] = problem


def _program_fixtures(items: Sequence[pytest.Item]) -> Sequence[str]:
    """Which of the fixtures that need programs these tests ask for, by whatever way."""
    asked = {name for item in items for name in getattr(item, "fixturenames", ())}
    return [fixture for fixture in PROGRAMS_OF_FIXTURES if fixture in asked]


def _require(fixture: str, config: pytest.Config) -> None:
    problem = config.stash[_problems].get(fixture)
    if isinstance(problem, MissingGoError):
        leave_out(str(problem))
    if problem is not None:
        pytest.fail(str(problem), pytrace=False)
