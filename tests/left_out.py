"""Tests that cannot run on this machine, said loudly.

A skipped test is easily overlooked, so a run that left tests out ends with a line for each reason. Under ``CI=true``
they fail instead: there, everything must be had.
"""

import os
from collections import Counter
from typing import NoReturn

import pytest

_LEFT_OUT = "Skipped: LEFT OUT: "


def leave_out(reason: str) -> NoReturn:
    """Ends the test that asks for it, in itself or in a fixture.

    Args:
        reason: What is missing, and what to do about it.
    """
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(f"LEFT OUT: {reason}")


def require_root() -> None:
    """Leaves the test out unless root runs it: only root may mount, and be other users."""
    if os.geteuid() != 0:
        leave_out("Only root may mount file systems, and give files to other users. Run them as root.")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs_root: left out for other users")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("needs_root") is not None:
        require_root()


def pytest_unconfigure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None:
        return  # a process that runs tests for another, which hears of them
    told = [report.longrepr[2] for report in terminal.stats.get("skipped", [])]
    reasons = Counter(reason.removeprefix(_LEFT_OUT) for reason in told if reason.startswith(_LEFT_OUT))
    for reason, tests in reasons.items():
        terminal.write_line(f"LEFT OUT: {tests} test{'s' * (tests > 1)}. {reason}", red=True, bold=True)
