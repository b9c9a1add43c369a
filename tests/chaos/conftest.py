"""Fixtures for tests with faults."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from tests.chaos.connections import connect
from tests.chaos.logs import save_logs
from tests.chaos.replicas import Replica
from tests.chaos.site import Site, Timeouts
from tests.chaos.testbed import Testbed
from tests.chaos.wall_clock import MissingCompilerError, compile_library
from tests.cluster.directories import owned_directory
from tests.skips import require_root, skip_missing

_failed = pytest.StashKey[bool]()
_numbers = count(1)


@pytest.fixture(scope="session")
def testbed(cluster, chart_programs) -> Iterator[Testbed]:
    """The testbed of all sites. A test that breaks a part of it must repair it."""
    require_root()
    with owned_directory() as directory, Testbed(cluster, directory) as testbed:
        yield testbed


@pytest.fixture
def clock_library(tmp_path) -> Path:
    """The library that gives a process a wall clock of its own."""
    try:
        return compile_library(tmp_path)
    except MissingCompilerError as error:
        skip_missing(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item) -> Iterator[None]:
    report = yield
    item.stash[_failed] = item.stash.get(_failed, False) or report.failed
    return report


@pytest.fixture
def start_site(testbed, request) -> Iterator[Callable[..., Site]]:
    """Start a Lodge that ends with the test. If the test fails, its logs are kept."""
    with ExitStack() as stack:

        def start(times: Timeouts | None = None, **options: int) -> Site:
            return stack.enter_context(Site(testbed, f"site-{next(_numbers)}", times, **options))

        yield start
        if request.node.stash.get(_failed, False):
            print(f"Logs: {save_logs(testbed.directory)}")


@pytest.fixture
def open_session() -> Iterator[Callable[..., SparkSession]]:
    """Open client sessions that end with the test."""
    sessions = []

    def open_session(*gateways: Replica, user: str = "ada", **options: Any) -> SparkSession:
        sessions.append(connect(gateways, user=user, **options))
        return sessions[-1]

    yield open_session
    for session in sessions:
        with suppress(PySparkException):  # the session is over
            session.client.release_session()
        session.client.close()
