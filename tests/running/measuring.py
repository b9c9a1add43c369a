"""Measures how long each test file takes, and compares the run with the last recorded one.

Only runs of a whole tier are recorded, see :mod:`tests.running.tiers`: those that name no tests, keywords or markers
and run what they collect.
"""

import os
import time
from collections import defaultdict
from typing import Any

import pytest

from tests.running.durations import Cost, Record
from tests.running.processor_time import processor_seconds
from tests.running.tiers import tier_of

_SLOWEST = 10
_SENT = "lodge_processor_seconds"
_COMPLETE = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


def pytest_configure(config: pytest.Config) -> None:
    if tier_of(config) is None:
        return
    if not _is_worker(config):
        config.pluginmanager.register(Report(config), "lodge-durations")
    if _is_worker(config) or not config.getoption("numprocesses", 0):
        config.pluginmanager.register(Meter(config), "lodge-processor-time")


def file_of(nodeid: str) -> str:
    """Return the path of the file of a test."""
    return nodeid.partition("::")[0]


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


class Meter:
    """Measures the processor time of each file in the process that runs the tests."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seconds = defaultdict[str, float](float)
        self._last = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Any:
        if not self._last:
            self._last = processor_seconds(os.getpid())
        result = yield
        if nextitem is None or nextitem.path != item.path:
            now = processor_seconds(os.getpid())
            self._seconds[file_of(item.nodeid)] += max(0.0, now - self._last)
            self._last = now
        return result

    def pytest_sessionfinish(self) -> None:
        if _is_worker(self._config):
            self._config.workeroutput[_SENT] = dict(self._seconds)  # type: ignore[attr-defined]
        else:
            report = self._config.pluginmanager.get_plugin("lodge-durations")
            report.add_processor_time(self._seconds)


class Report:
    """Collects the durations of all workers, records them and prints them."""

    def __init__(self, config: pytest.Config) -> None:
        self._tier = tier_of(config) or ""
        self._is_whole = not (
            config.args_source is pytest.Config.ArgsSource.ARGS
            or config.getoption("keyword")
            or config.getoption("markexpr")
            or config.getoption("collectonly")
        )
        self._last = Record.read(self._tier)
        self._costs = defaultdict[str, Cost](Cost)
        self._begun = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._costs[file_of(report.nodeid)] += Cost(seconds=report.duration)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.add_processor_time(getattr(node, "workeroutput", {}).get(_SENT, {}))

    def add_processor_time(self, seconds: dict[str, float]) -> None:
        for file, amount in seconds.items():
            self._costs[file] += Cost(processor_seconds=amount)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any, exitstatus: int) -> None:
        files = {
            name: Cost(round(cost.seconds, 2), round(cost.processor_seconds, 2)) for name, cost in self._costs.items()
        }
        record = Record(round(time.monotonic() - self._begun, 1), files)
        terminalreporter.section(f"slowest files of the {self._tier} tier")
        for line in summary(record, self._last):
            terminalreporter.write_line(line)
        if exitstatus in _COMPLETE and self._is_whole and files:  # no test runs if workers collect different tests
            record.write(self._tier)


def summary(record: Record, last: Record) -> list[str]:
    """Return the lines of the report: the slowest files and the totals, each beside the last record."""
    lines = [f"{'seconds':>9} {'before':>9} {'processor':>9}"]
    by_seconds = sorted(record.files.items(), key=lambda item: -item[1].seconds)
    for name, cost in by_seconds[:_SLOWEST]:
        lines.append(_line(cost, last.files.get(name), name))
    lines.append(_line(record.total, last.total if last.files else None, "all files, one after the other"))
    elapsed = Cost(record.elapsed_seconds)
    lines.append(_line(elapsed, Cost(last.elapsed_seconds) if last.files else None, "the run"))
    return lines


def _line(cost: Cost, last: Cost | None, name: str) -> str:
    before = "new" if last is None else f"{last.seconds:.0f}"
    processor = f"{cost.processor_seconds:.0f}" if cost.processor_seconds else ""
    return f"{cost.seconds:9.0f} {before:>9} {processor:>9} {name}"
