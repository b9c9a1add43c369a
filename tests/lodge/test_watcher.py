"""Processes that are started again."""

import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from lodge import children, watcher
from lodge.children import ForkedChild, start_child
from lodge.pulse import ProcessState
from lodge.settings import ServeSettings
from lodge.watcher import KeptProcess, Watcher
from tests.conftest import wait_until
from tests.hung_file_system import HungFileSystem


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


def start_watcher(workspace: Path) -> ForkedChild:
    """Start a watcher whose drain timeout is short."""
    workspace.mkdir()
    settings = ServeSettings(
        workspace={"dfs.tmp": workspace.as_uri()}, backend=("sc://127.0.0.1:1",), drain_timeout=timedelta(seconds=0.5)
    )
    return ForkedChild(Watcher(settings, lambda: settings).run, "lodge-test")


def test_guarantee_7_gateway_that_does_not_stop_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its event loop responds, but a thread waits for storage that hangs."""
    started = tmp_path / "started"

    def run_gateway(self: Watcher) -> None:
        started.touch()
        while True:
            self._signs.beat()
            time.sleep(0.05)

    monkeypatch.setattr(Watcher, "_run_gateway", run_gateway)
    monkeypatch.setattr(watcher, "STOP_MARGIN_SECONDS", 0.5)
    lodge = start_watcher(tmp_path / "workspace")
    try:
        wait_until(started.exists, "the gateway runs")
        for _ in range(2):
            lodge.send_signal(signal.SIGTERM)
        wait_until(lambda: lodge.poll() is not None, "the watcher has stopped")
    finally:
        lodge.send_signal(signal.SIGKILL)
    assert lodge.poll() == 1
    assert '"gateway_not_stopped"' in capfd.readouterr().err


@pytest.mark.needs_root
def test_guarantee_7_watcher_ends_before_a_gateway_that_the_kernel_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal does not end a process that waits for a file for which another process already waits."""
    hung, started = tmp_path / "hung", tmp_path / "started"
    hung.mkdir()

    def look_up() -> int:
        (hung / "file").exists()
        return 0

    def run_gateway(self: Watcher) -> None:
        started.write_text(str(os.getpid()))
        look_up()

    monkeypatch.setattr(Watcher, "_run_gateway", run_gateway)
    monkeypatch.setattr(watcher, "STOP_MARGIN_SECONDS", 0.5)
    monkeypatch.setattr(children, "KILL_SECONDS", 0.5)
    with HungFileSystem(hung):
        first = ForkedChild(look_up, "lodge-test")
        wait_until(lambda: is_uninterruptible(first.pid), "the first process waits for the storage")
        lodge = start_watcher(tmp_path / "workspace")
        try:
            wait_until(lambda: started.exists() and started.read_text(), "the gateway runs")
            wait_until(lambda: is_uninterruptible(int(started.read_text())), "the gateway waits for the storage")
            lodge.send_signal(signal.SIGTERM)
            wait_until(lambda: lodge.poll() is not None, "the watcher has stopped")
            assert is_uninterruptible(int(started.read_text()))
        finally:
            lodge.send_signal(signal.SIGKILL)
            first.send_signal(signal.SIGKILL)
    wait_until(lambda: first.poll() is not None, "the first process has ended")
    assert lodge.poll() == 1


def is_uninterruptible(pid: int) -> bool:
    return "D" in ProcessState.read(pid).threads
