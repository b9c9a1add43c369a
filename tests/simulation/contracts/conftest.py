"""The contract suites of records and leases, held by the model of the simulation."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from threading import Barrier
from typing import Any

import pytest

from tests.simulation.contracts.bridge import BridgedLeases, BridgedRecords, Model
from tests.workspace.conftest import a_record, records
from workspace.leases import Leases
from workspace.record_store import SessionRecords

__all__ = ["a_record", "records"]


@pytest.fixture(params=[False, True], ids=["objects", "files"])
def model(request: pytest.FixtureRequest) -> Iterator[Model]:
    """Records as objects of an API server, or as files, of which a list is no instant."""
    with Model(lists_one_by_one=request.param) as model:
        yield model


@pytest.fixture
def open_records(model: Model) -> Callable[[], SessionRecords]:
    return partial(BridgedRecords, model)


@pytest.fixture
def open_leases(model: Model) -> Callable[[], Leases]:
    return partial(BridgedLeases, model)


@pytest.fixture
def outage(model: Model) -> Callable[[], AbstractContextManager[None]]:
    """Makes the storage of records and leases unreachable for a while."""

    @contextmanager
    def outage() -> Iterator[None]:
        model.set_unreachable(True)
        try:
            yield
        finally:
            model.set_unreachable(False)

    return outage


@pytest.fixture
def in_processes() -> Callable[[Sequence[Callable[[], Any]]], list[Any]]:
    """Runs each task in a thread of its own, all at once; the results, of an exception its text."""

    def run(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
        barrier = Barrier(len(tasks))

        def one(task: Callable[[], Any]) -> Any:
            barrier.wait()
            try:
                return task()
            except Exception as error:  # noqa: BLE001 - the test judges it
                return f"{type(error).__name__}: {error}"

        with ThreadPoolExecutor(len(tasks)) as threads:
            return list(threads.map(one, tasks))

    return run
