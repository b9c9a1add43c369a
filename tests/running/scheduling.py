"""Decides which worker runs which tests.

A worker runs the files of a directory one after the other, because they share servers. The workers of pytest-xdist have
two kinds. The first half computes. The second half runs directories whose tests mostly wait: for leases, probes, nodes
and timeouts. The two kinds of work use the machine at the same time. A worker for which no directory of its own kind is
left begins one of the other kind. When all directories have begun, it helps with the one that takes longest.

Each kind begins with the longest directory, so that no worker begins a long one at the end of the run. The recorded
durations decide what is long and what waits, see :mod:`tests.running.durations`.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.running.durations import Cost, Record
from tests.running.measuring import file_of
from tests.running.tiers import QUICK, tier_of

WAITING_SHARE = 0.5
"""A directory waits if it uses less than this share of a processor."""

TOGETHER = ("tests/images", "tests/installation", "tests/standalone")
"""Directories whose files share images, nodes or environments. One worker runs all of their files."""

_UNKNOWN = Cost(seconds=5.0, processor_seconds=5.0)
"""The assumed cost of a test file without a record."""


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return the number of workers for ``-n auto``.

    There are more workers than processors, because most tests wait at times. Slow tests wait more often.
    """
    return (os.cpu_count() or 1) + (1 if tier_of(config) == QUICK else 2)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> "DirectoryScheduling":
    config.option.loadscopereorder = False  # keep the order of the collection
    return DirectoryScheduling(config, log)


def directory_of(nodeid: str) -> str:
    """Return the directory of a test. Subdirectories of those in `TOGETHER` do not count."""
    directory = file_of(nodeid).rpartition("/")[0]
    return next((whole for whole in TOGETHER if f"{directory}/".startswith(f"{whole}/")), directory)


def unit_of(nodeid: str) -> str:
    """Return the name of the unit that one worker runs: the file of a test, or its directory."""
    directory = directory_of(nodeid)
    return directory if directory in TOGETHER else file_of(nodeid)


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
    """Gives each worker the files of a directory, and the next directory when none is left."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        self._record = Record.expected(tier_of(config) or "")
        self._directories: dict[WorkerController, str] = {}

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Move the unit that suits the worker to the front of the queue, from which the base class takes it."""
        remaining = directory_costs((test for unit in self.workqueue.values() for test in unit), self._record)
        others = {directory for other, directory in self._directories.items() if other is not node}
        directory = next_directory(remaining, self._directories.get(node), others, waits=self._runs_waiting_tests(node))
        self._directories[node] = directory
        unit = next(unit for unit, tests in self.workqueue.items() if directory_of(next(iter(tests))) == directory)
        self.workqueue.move_to_end(unit, last=False)
        super()._assign_work_unit(node)

    def _runs_waiting_tests(self, node: WorkerController) -> bool:
        return int(node.gateway.id.removeprefix("gw")) >= (self.numnodes + 1) // 2


def next_directory(remaining: Mapping[str, Cost], current: str | None, others: Set[str], *, waits: bool) -> str:
    """Return the directory from which a worker takes its next file.

    Args:
        remaining: The cost of the files that nobody has begun, by directory.
        current: The directory of the worker, if it has begun one.
        others: The directories of the other workers.
        waits: Whether the worker runs tests that wait.
    """
    if current in remaining:
        return current

    def preference(directory: str) -> tuple[bool, bool, float]:
        cost = remaining[directory]
        return directory in others, is_waiting(cost) != waits, -cost.seconds

    return min(remaining, key=preference)
