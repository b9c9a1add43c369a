"""Fixtures that run the contract tests of records and leases against the model."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from threading import Barrier
from typing import Any

import pytest

from tests.simulation.contracts.bridge import BridgedLeases, BridgedRecords, Model
from tests.workspace.conftest import records
from workspace.leases import Leases
from workspace.record_store import SessionRecords

__all__ = ["records"]


@pytest.fixture(params=[False, True], ids=["objects", "files"])
def model(request: pytest.FixtureRequest) -> Iterator[Model]:
    """A model that stores records as objects, or as files, whose list is not atomic."""
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
    """Make the store of records and leases unreachable within a block."""

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
    """Run all tasks at the same time, each in a thread; an exception becomes its text."""

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
