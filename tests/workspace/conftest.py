"""Fixtures for the storage of records, leases and locations.

Another implementation joins a contract suite by a folder that imports the tests of the suite. The ``conftest.py`` of
the folder defines its own ``open_records``, ``open_leases`` and ``outage`` (:mod:`tests.workspace.kubernetes`).
"""

import multiprocessing
import os
import signal
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.forks import create_fork
from workspace.files.leases import FileLeases
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.leases import Leases
from workspace.record_store import SessionRecords

DEADLINE_SECONDS = 180
POLL_SECONDS = 0.05
CHANGING_STEPS = ("open", "mkdir", "link", "rename", "replace", "unlink", "rmdir", "chown", "fchown", "fchmod")
ALL_STEPS = (*CHANGING_STEPS, "fsync", "fdopen", "scandir", "listdir", "stat", "lstat")


@pytest.fixture(autouse=True)
def without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave files in the memory of the kernel. Tests kill processes, but no machine."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return an initialised workspace root."""
    return _initialised(tmp_path / "workspace")


@pytest.fixture
def new_root(tmp_path: Path) -> Callable[[], Path]:
    """Return a function that creates another initialised root."""
    return lambda: _initialised(tmp_path / uuid.uuid4().hex)


@pytest.fixture
def locations(root: Path) -> FileSessionLocations:
    return FileSessionLocations(root)


@pytest.fixture
def open_records(root: Path) -> Callable[[], SessionRecords]:
    """Return a function that opens the same storage of records, in this process or another."""
    return partial(FileSessionRecords, root, poll_seconds=POLL_SECONDS)


@pytest.fixture
def outage(root: Path) -> Callable[[], AbstractContextManager[None]]:
    """Return a context manager that makes records and leases unreachable."""
    return partial(_moved_away, root / ".lodge")


@pytest.fixture
def records(open_records: Callable[[], SessionRecords]) -> SessionRecords:
    return open_records()


@pytest.fixture
def open_leases(root: Path) -> Callable[[], Leases]:
    """Return a function that opens the same storage of leases."""
    return partial(FileLeases, root)


@pytest.fixture
def in_processes() -> Callable[[Sequence[Callable[[], Any]]], list[Any]]:
    """Return a function that runs each task in its own process, all concurrently.

    It returns the results; for an exception, its text.
    """
    return _in_processes


@pytest.fixture
def killed_at() -> Callable[[int, Callable[[], Any]], bool]:
    """Return a function that kills a task before its n-th changing step.

    The task runs in its own process. The function returns False if the task ended first. Files are the same before and
    after an ``fsync`` or an ``open`` that creates nothing, so neither is a step.
    """
    return _killed_at


@pytest.fixture
def interrupted_at() -> Callable[[int, Callable[[], Any], Callable[[], Any]], tuple[bool, Any]]:
    """Return a function that runs an intruder before the n-th step of a task.

    It returns whether the task had that many steps, and the result of the task.
    """
    return _interrupted_at


def _initialised(root: Path) -> Path:
    FileSessionLocations(root).initialise()
    return root


@contextmanager
def _moved_away(directory: Path) -> Iterator[None]:
    away = directory.rename(directory.with_suffix(".away"))
    try:
        yield
    finally:
        away.rename(directory)


def _in_processes(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(len(tasks))

    def child(task: Callable[[], Any], connection: Any) -> None:
        barrier.wait(DEADLINE_SECONDS)
        try:
            result = task()
        except Exception as error:  # noqa: BLE001 - the test judges it
            result = f"{type(error).__name__}: {error}"
        connection.send(result)

    pipes = [context.Pipe(duplex=False) for _ in tasks]
    processes = [create_fork(child, task, pipe[1]) for task, pipe in zip(tasks, pipes, strict=True)]
    for process in processes:
        process.start()
    try:
        return [_received(receiving) for receiving, _ in pipes]
    finally:
        for process in processes:
            process.kill()
            process.join()


def _received(connection: Any) -> Any:
    assert connection.poll(DEADLINE_SECONDS), "a process did not finish in time"
    return connection.recv()


def _killed_at(step: int, task: Callable[[], Any]) -> bool:
    def child() -> None:
        with _counted(CHANGING_STEPS, step, lambda: os.kill(os.getpid(), signal.SIGKILL), _is_change):
            task()

    process = create_fork(child)
    process.start()
    try:
        process.join(DEADLINE_SECONDS)
        assert process.exitcode in {0, -signal.SIGKILL}, f"the task failed: exit code {process.exitcode}"
        return bool(process.exitcode)
    finally:
        process.kill()


def _interrupted_at(step: int, task: Callable[[], Any], intruder: Callable[[], Any]) -> tuple[bool, Any]:
    intruding = mock.Mock(side_effect=intruder)
    with mock.patch("os.fsync"), _counted(ALL_STEPS, step, intruding):
        result = task()
    return intruding.called, result


def _is_change(name: str, arguments: Sequence[Any]) -> bool:
    return name != "open" or bool(arguments[1] & os.O_CREAT)


@contextmanager
def _counted(
    names: Sequence[str],
    step: int,
    at_step: Callable[[], Any],
    counts: Callable[[str, Sequence[Any]], bool] = lambda name, arguments: True,
) -> Iterator[None]:
    """Call a function once, just before the step-th call of any of these functions of ``os`` that counts."""
    count = 0

    def counting(name: str) -> Callable[..., Any]:
        original = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            if counts(name, args):
                count += 1
                if count == step:
                    at_step()
            return original(*args, **kwargs)

        return call

    with mock.patch.multiple("os", **{name: counting(name) for name in names}):
        yield
