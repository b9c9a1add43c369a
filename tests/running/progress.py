"""Shows the progress and the remaining time of a run on a terminal.

Without a terminal, pytest's own dots appear.
"""

import time
from collections import Counter
from typing import Any

import pytest

from tests.running.durations import Record
from tests.running.measuring import file_of
from tests.running.tiers import tier_of

_INTERVAL_SECONDS = 0.5
_TRUSTED_SHARE = 0.1
"""The share of the run after which its own speed replaces that of the last run."""

_SECONDS_OF_UNKNOWN_TEST = 0.05


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and reporter.isatty and reporter.verbosity == 0:
        config.pluginmanager.register(Progress(config, reporter), "lodge-progress")
        reporter.write_line("Collecting the tests ...")


class Estimate:
    """The remaining time of a run, from the record of the last one.

    Args:
        tests: The number of tests of each file.
        record: The last record.
    """

    def __init__(self, tests: Counter[str], record: Record) -> None:
        self._tests = tests
        self._record = record
        self._expected = sum(self._seconds_of_test(file) * count for file, count in tests.items())
        self._done = 0.0

    def add(self, file: str) -> None:
        """Count a test that has ended."""
        self._done += self._seconds_of_test(file)

    @property
    def share(self) -> float:
        """The share of the run that is done."""
        return min(1.0, self._done / self._expected) if self._expected else 1.0

    def remaining_seconds(self, elapsed_seconds: float) -> float | None:
        """Return the remaining time; None if it is not known yet."""
        if self.share > _TRUSTED_SHARE:
            return elapsed_seconds * (1 - self.share) / self.share
        if self._record.elapsed_seconds:
            return self._record.elapsed_seconds * (1 - self.share)
        return None

    def _seconds_of_test(self, file: str) -> float:
        cost = self._record.files.get(file)
        return cost.seconds / self._tests[file] if cost is not None else _SECONDS_OF_UNKNOWN_TEST


class Progress:
    """Replaces the dots of pytest by one line that changes."""

    def __init__(self, config: pytest.Config, reporter: Any) -> None:
        self._record = Record.expected(tier_of(config) or "")
        self._reporter = reporter
        self._begun = self._shown = time.monotonic()
        self._estimate: Estimate | None = None
        self._outcomes: Counter[str] = Counter()
        self._all = 0

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._begin(ids)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:
            self._begin([item.nodeid for item in session.items])

    def _begin(self, nodeids: list[str]) -> None:
        if self._estimate is None:
            self._all = len(nodeids)
            self._estimate = Estimate(Counter(map(file_of, nodeids)), self._record)
            self._begun = time.monotonic()

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> Any:
        category, letter, word = yield
        return category, "" if letter in {".", "s"} else letter, word

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed or report.when == "call" or (report.when == "setup" and report.skipped):
            self._outcomes[report.outcome] += 1
        if report.when != "teardown" or self._estimate is None:
            return
        self._estimate.add(file_of(report.nodeid))
        now = time.monotonic()
        if now - self._shown >= _INTERVAL_SECONDS:
            self._shown = now
            self._reporter.rewrite(self._line(now - self._begun), erase=True)

    def _line(self, elapsed_seconds: float) -> str:
        assert self._estimate is not None
        remaining = self._estimate.remaining_seconds(elapsed_seconds)
        done = sum(self._outcomes.values())
        parts = [f"[{self._estimate.share:4.0%}] {done} of {self._all} tests", f"{clock(elapsed_seconds)} elapsed"]
        if remaining is not None:
            parts.append(f"about {clock(remaining)} left")
        if failed := self._outcomes["failed"]:
            parts.append(f"{failed} failed")
        return ", ".join(parts)


def clock(seconds: float) -> str:
    """Return a duration as minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
