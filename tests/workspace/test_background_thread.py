"""The threads that a process starts for itself (workspace.background_thread)."""

import subprocess
import sys
import threading

import pytest

from workspace.background_thread import BackgroundThread

SECONDS = 60.0


def test_block_ends_when_the_function_has_returned() -> None:
    done: list[str] = []

    def run() -> None:
        assert thread.stopping.wait(SECONDS)
        done.append(threading.current_thread().name)

    with (thread := BackgroundThread("test", run)):
        assert thread.is_alive()
        assert not done
    assert done == ["test"]
    assert not thread.is_alive()


def test_join_waits_only_for_the_timeout() -> None:
    thread = BackgroundThread("test", lambda: thread.stopping.wait(SECONDS))
    thread.start()
    thread.join(0.01)
    assert thread.is_alive()
    thread.stopping.set()
    thread.join(SECONDS)
    assert not thread.is_alive()


def test_thread_that_did_not_start_can_be_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    done = threading.Event()
    thread = BackgroundThread("test", done.set)
    with monkeypatch.context() as patch:
        patch.setattr(threading, "_start_new_thread", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            thread.start()
    thread.start()
    assert done.wait(SECONDS)


def test_hung_thread_does_not_prevent_the_end_of_the_process() -> None:
    script = (
        "import threading\n"
        "from workspace.background_thread import BackgroundThread\n"
        "BackgroundThread('test', threading.Event().wait).start()"
    )
    subprocess.run([sys.executable, "-c", script], timeout=SECONDS, check=True)
