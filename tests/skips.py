"""Skips tests that need what this machine lacks, and lists every skip.

The list appears at the end of the run. Under ``CI=true`` such tests fail instead: CI must have everything.
"""

import os
from collections import Counter
from typing import NoReturn

import pytest

_PREFIX = "Skipped: "


def skip_missing(reason: str) -> NoReturn:
    """Skip the calling test or fixture.

    Args:
        reason: What is missing, and how to get it.
    """
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def require_root() -> None:
    """Skip the test unless root runs it.

    Only root can mount file systems and act as other users.
    """
    if os.geteuid() != 0:
        skip_missing("Only root can mount file systems and act as other users. Run the tests as root.")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs_root: skipped unless root runs the tests")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("needs_root") is not None:
        require_root()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Print one line for each reason for which tests were skipped."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None:
        return  # a worker of pytest-xdist, whose reports reach the main process
    skipped = [report.longrepr[2].removeprefix(_PREFIX) for report in terminal.stats.get("skipped", [])]
    for reason, tests in Counter(skipped).items():
        terminal.write_line(f"SKIPPED: {tests} test{'s' * (tests > 1)}. {reason}", yellow=True, bold=True)
