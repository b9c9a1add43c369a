"""Tests that cannot run on this machine, said loudly.

A skipped test is easily overlooked, so a run that left tests out ends with a line for each reason. Under ``CI=true``
they fail instead: there, everything must be had.
"""

import os
from collections import Counter
from typing import NoReturn

import pytest

_reasons = pytest.StashKey[Counter[str]]()


def leave_out(config: pytest.Config, reason: str) -> NoReturn:
    """Ends the test that asks for it, in itself or in a fixture.

    Args:
        config: Of the run.
        reason: What is missing, and what to do about it.
    """
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    config.stash[_reasons][reason] += 1
    pytest.skip(reason)


def require_root(config: pytest.Config) -> None:
    """Leaves the test out unless root runs it: only root may mount, and be other users."""
    if os.geteuid() != 0:
        leave_out(config, "Only root may mount file systems, and give files to other users. Run them as root.")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs_root: left out for other users")
    config.stash[_reasons] = Counter()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("needs_root") is not None:
        require_root(item.config)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for reason, tests in config.stash[_reasons].items():
        line = f"LEFT OUT: {tests} test{'s' * (tests > 1)}. {reason}"
        terminalreporter.write_line(line, red=True, bold=True)
