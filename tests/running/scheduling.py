"""Decides which worker runs which tests.

All tests of a directory run in one worker, because they share servers. The workers of pytest-xdist have two kinds. The
first half computes. The second half runs directories whose tests mostly wait: for leases, probes, nodes and timeouts.
The two kinds of work use the machine at the same time. A worker that has no work of its own kind left helps with the
other. There is one worker more than the machine has processors, because most tests wait at times.

Each kind begins with the longest directory, so that no worker begins a long one at the end of the run. The recorded
durations decide what is long and what waits, see :mod:`tests.running.durations`.
"""

import os
from collections import defaultdict
from collections.abc import Iterable

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.running.durations import Cost, Record
from tests.running.measuring import file_of
from tests.running.tiers import tier_of

WAITING_SHARE = 0.5
"""A directory waits if it uses less than this share of a processor."""

SHARING = "tests/installation"
"""A directory whose subdirectories share its nodes."""

_UNKNOWN = Cost(seconds=5.0, processor_seconds=5.0)
"""The assumed cost of a test file without a record."""


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return the number of workers for ``-n auto``."""
    return (os.cpu_count() or 1) + 1


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> "DirectoryScheduling":
    config.option.loadscopereorder = False  # keep the order of the collection
    return DirectoryScheduling(config, log)


def directory_of(nodeid: str) -> str:
    """Return the directory of a test. Those below `SHARING` count as one."""
    directory = file_of(nodeid).rpartition("/")[0]
    return SHARING if directory.startswith(f"{SHARING}/") else directory


def directory_costs(nodeids: Iterable[str], record: Record) -> dict[str, Cost]:
    """Return the expected cost of each directory with one of the tests.

    All workers must find the same sums, to the last bit, because they sort by them. So the order of the additions must
    not depend on the hashes of a process.
    """
    costs = defaultdict[str, Cost](Cost)
    for file in sorted({file_of(nodeid) for nodeid in nodeids}):
        costs[directory_of(file)] += record.files.get(file, _UNKNOWN)
    return costs


def is_waiting(cost: Cost) -> bool:
    """Return whether the tests of a directory mostly wait."""
    return cost.processor_seconds < WAITING_SHARE * cost.seconds


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the directories by their expected duration. The order inside a directory stays."""
    costs = directory_costs((item.nodeid for item in items), Record.expected(tier_of(config) or ""))
    items.sort(key=lambda item: (-costs[directory_of(item.nodeid)].seconds, directory_of(item.nodeid)))


class DirectoryScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives each worker the longest directory of its kind, or of the other kind if none is left."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        self._record = Record.expected(tier_of(config) or "")

    def _split_scope(self, nodeid: str) -> str:
        return directory_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Move the directory that suits the worker to the front of the queue, from which the base class takes it."""
        waits = self._runs_waiting_tests(node)
        costs = directory_costs((test for unit in self.workqueue.values() for test in unit), self._record)
        suitable = next((directory for directory in self.workqueue if is_waiting(costs[directory]) == waits), None)
        if suitable is not None:
            self.workqueue.move_to_end(suitable, last=False)
        super()._assign_work_unit(node)

    def _runs_waiting_tests(self, node: WorkerController) -> bool:
        return int(node.gateway.id.removeprefix("gw")) >= (self.numnodes + 1) // 2
