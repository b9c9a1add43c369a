"""The test cluster in pytest: fixtures, and what happens where it cannot be had.

A test that needs a cluster or an S3 server, by whatever fixture, is marked ``cluster``. The programs that the selected
ones need are built before the first test, outside of every test's time limit. Where programs are missing and Go is too,
these tests are left out, and the run ends with one line that says so; under ``CI=true`` they fail instead.

A fixture that starts servers of its own asks for one of `PROGRAMS_OF_FIXTURES`, and so is known to need them.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.cluster.builds import MissingGoError, ProgramError, build, can_build, missing
from tests.cluster.cluster import PROGRAMS_OF_A_CLUSTER, Cluster
from tests.cluster.nodes import Node
from tests.cluster.s3 import S3Server

PROGRAMS_OF_FIXTURES: Mapping[str, Sequence[str]] = {
    "cluster_programs": PROGRAMS_OF_A_CLUSTER,
    "chart_programs": ("helm", "kubeconform"),
    "s3_programs": ("versitygw", "gofakes3"),
}

_problems = pytest.StashKey[dict[str, ProgramError]]()
_left_out = pytest.StashKey[str]()


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
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if _program_fixtures([item]):
            item.add_marker("cluster")
    if can_build() or os.environ.get("CI") == "true":
        return
    unable = [item for item in items if missing(_programs([item]))]
    if unable:
        items[:] = [item for item in items if item not in unable]
        config.hook.pytest_deselected(items=unable)
        problem = MissingGoError(missing(_programs(unable)))
        tests = f"{len(unable)} test{'s' * (len(unable) > 1)}"
        config.stash[_left_out] = f"LEFT OUT: {tests} with a real Kubernetes API or S3 server. {problem}"


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    if session.config.option.collectonly or session.testsfailed:
        return  # no test will run
    terminal = session.config.get_terminal_writer()
    for fixture in _program_fixtures(session.items):
        try:
            build(PROGRAMS_OF_FIXTURES[fixture], terminal.line)
        except ProgramError as problem:
            session.config.stash[_problems][fixture] = problem


def pytest_unconfigure(config: pytest.Config) -> None:
    if line := config.stash.get(_left_out, None):
        config.get_terminal_writer().line(line, red=True, bold=True)


def _program_fixtures(items: Sequence[pytest.Item]) -> Sequence[str]:
    """Which of the fixtures that need programs these tests ask for, by whatever way."""
    asked = {name for item in items for name in getattr(item, "fixturenames", ())}
    return [fixture for fixture in PROGRAMS_OF_FIXTURES if fixture in asked]


def _programs(items: Sequence[pytest.Item]) -> Sequence[str]:
    return [program for fixture in _program_fixtures(items) for program in PROGRAMS_OF_FIXTURES[fixture]]


def _require(fixture: str, config: pytest.Config) -> None:
    if problem := config.stash[_problems].get(fixture):
        pytest.fail(str(problem), pytrace=False)
