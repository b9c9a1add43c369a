"""A ground for all tests of this folder, and what they do where it cannot be had."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql.connect.session import SparkSession

from tests.chaos.connections import connect
from tests.chaos.ground import Ground
from tests.chaos.logs import kept
from tests.chaos.replicas import Replica
from tests.chaos.site import Site, Times
from tests.chaos.wall_clock import MissingCompilerError, compiled
from tests.cluster.directories import owned_directory
from tests.skips import require_root, skip_missing

_failed = pytest.StashKey[bool]()
_numbers = count(1)


@pytest.fixture(scope="session")
def ground(cluster, chart_programs) -> Iterator[Ground]:
    """What all sites stand on; who breaks something of it for a while must put it right again."""
    require_root()
    with owned_directory() as directory, Ground(cluster, directory) as ground:
        yield ground


@pytest.fixture
def clock_library(tmp_path) -> Path:
    """What gives processes wall clocks of their own."""
    try:
        return compiled(tmp_path)
    except MissingCompilerError as error:
        skip_missing(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item) -> Iterator[None]:
    report = yield
    item.stash[_failed] = item.stash.get(_failed, False) or report.failed
    return report


@pytest.fixture
def start_site(ground, request) -> Iterator[Callable[..., Site]]:
    """Starts Lodges that end with the test; if it fails, their logs are kept."""
    with ExitStack() as stack:

        def start(times: Times | None = None, **options: int) -> Site:
            return stack.enter_context(Site(ground, f"site-{next(_numbers)}", times, **options))

        yield start
        if request.node.stash.get(_failed, False):
            print(f"Logs: {kept(ground.directory)}")


@pytest.fixture
def open_session() -> Iterator[Callable[..., SparkSession]]:
    """Opens client sessions, whose connections end with the test."""
    sessions = []

    def open_session(*gateways: Replica, user: str = "ada", session_id: str | None = None) -> SparkSession:
        sessions.append(connect(gateways, user=user, session_id=session_id))
        return sessions[-1]

    yield open_session
    for session in sessions:
        session.client.close()
