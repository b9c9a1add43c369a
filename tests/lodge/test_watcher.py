"""Processes that are started again."""

import os
import sys
from pathlib import Path

import pytest

from lodge.children import ForkedChild, start_child
from lodge.watcher import KeptProcess
from tests.conftest import wait_until


def test_process_that_ends_at_once_is_started_again_after_growing_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("lodge.watcher.time.monotonic", lambda: now)
    kept = KeptProcess(lambda: start_child(["/bin/false"], environment={}))
    pauses = []
    for _ in range(9):
        started = now
        while (process := kept.start_if_due()) is None:
            now += 0.25
        pauses.append(now - started)
        while (ended := kept.take_end()) is None:
            pass
        assert ended == (process.pid, 1)
    assert pauses == [0, 0, 0.5, 1, 2, 4, 8, 10, 10]
    while kept.start_if_due() is None:
        now += 0.25
    now += 60
    while kept.take_end() is None:
        pass
    assert kept.start_if_due() is not None, "it lived for a minute, so its next start is not delayed"
    while kept.take_end() is None:
        pass


def test_process_that_cannot_be_started_is_tried_again_after_a_pause() -> None:
    kept = KeptProcess(lambda: start_child([str(Path("/no/such/program"))], environment={}))
    with pytest.raises(FileNotFoundError):
        kept.start_if_due()
    with pytest.raises(FileNotFoundError):
        kept.start_if_due()
    assert kept.start_if_due() is None


@pytest.mark.parametrize(
    ("run", "status"),
    [
        (lambda: 3, 3),
        (lambda: 1 // 0, 1),
        (lambda: os.kill(os.getpid(), 9), -9),
        (lambda: sys.stdout.close() or 3, 3),
        (lambda: sys.stdout.close() or 0, 1),
    ],
)
def test_fork_ends_with_the_status_of_its_function(run, status) -> None:  # type: ignore[no-untyped-def]
    child = ForkedChild(run, "lodge-test")
    wait_until(lambda: child.poll() is not None, "the fork has ended")
    assert child.poll() == status
    child.send_signal(9)
