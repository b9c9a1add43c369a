"""Writes what failed, and the command that repeats it, for the end of ``.ci/run``.

The environment variable ``LODGE_FAILURES`` names the file. Without it, nothing is written.
"""

import os
import shlex
import sys
from pathlib import Path

import pytest

VARIABLE = "LODGE_FAILURES"
_LONGEST_LINE = 200


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _add(report.nodeid, _reason_of(report), f"{report.when}: ")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _add(report.nodeid, _reason_of(report), "collection: ")


def _reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the line of a failure that says most."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(crash.message if crash is not None else report.longrepr).strip()
    return text.splitlines()[0] if text else "no message"


def _add(nodeid: str, reason: str, phase: str) -> None:
    """Append three lines about a failed test."""
    name = os.environ.get(VARIABLE)
    if not name or "PYTEST_XDIST_WORKER" in os.environ:
        return  # the main process writes the reports of the workers
    program = Path(sys.executable)
    python = program.relative_to(Path.cwd()) if program.is_relative_to(Path.cwd()) else program
    with Path(name).open("a") as file:
        file.write(f"FAILED {nodeid[:_LONGEST_LINE]}\n")
        file.write(f"  {phase}{reason[:_LONGEST_LINE]}\n")
        file.write(f"  repeat: {python} -m pytest {shlex.quote(nodeid)}\n")
