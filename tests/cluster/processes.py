"""A program of the test cluster as a process, which a test can stop, pause and start again.

Guarantees:

1. The kernel kills it when this process ends, also when that is by SIGKILL (Linux). The kernel watches the thread that
   started it, so there is one thread for that, which lives as long as this process; any thread may call `Process`.
2. It has a session of its own: Ctrl-C at a terminal reaches only the test run, which ends things in its order.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

DIES_WITH_PARENT = (shutil.which("setpriv") or "setpriv", "--pdeathsig", "KILL", "--")
"""Before a command: what it becomes is killed when the thread that started it ends. No code runs between fork and exec,
where gRPC, if a test uses it, must not be met."""

_launcher = ThreadPoolExecutor(max_workers=1, thread_name_prefix="launcher")

START_SECONDS = 120.0


class ClusterError(Exception):
    """The test cluster is in an unexpected state. The message says what a person needs to know."""


def wait_until(condition: Callable[[], object], what: str, seconds: float) -> None:
    """Waits until the condition holds.

    Raises:
        ClusterError: It did not in time; says what was waited for.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ClusterError(f"Not within {seconds:g} s: {what}")
        time.sleep(0.05)


class Process:
    """One program with its command line; what it writes goes to one file, over all its starts.

    Args:
        is_ready: Tells whether it has started; without it, a program that runs has.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        *,
        is_ready: Callable[[], bool] = lambda: True,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = log.stem
        self.log = log
        self._command = command
        self._is_ready = is_ready
        self._environment = os.environ | (environment or {})
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it and waits until it is ready.

        Raises:
            ClusterError: It ended, or took too long; with what it wrote last.
        """
        if self._child is not None:
            raise ClusterError(f"{self.name} runs already.")
        self._child = _launcher.submit(self._launch).result()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait until the process is ready; raises as `start` does."""
        child = self._running()
        try:
            wait_until(lambda: child.poll() is not None or self._is_ready(), f"{self.name} is ready", START_SECONDS)
            if child.poll() is not None:
                raise ClusterError(f"{self.name} ended with status {child.returncode}")
        except ClusterError as error:
            raise ClusterError(f"{error}; its log ends:\n{self.log.read_text(errors='replace')[-4000:]}") from None

    def kill(self) -> None:
        """End the process at once, like a crash. Does nothing if it does not run."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None

    def pause(self) -> None:
        """Pause the process: its connections stay open, and nothing answers."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the process for the duration of the context. It is ready again afterwards."""
        self.kill()
        try:
            yield
        finally:
            self.start()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the process for the duration of the context. It is ready again afterwards."""
        self.pause()
        try:
            yield
        finally:
            self.resume()
            self.wait_until_ready()

    def _launch(self) -> "subprocess.Popen[bytes]":
        with self.log.open("ab") as output:
            return subprocess.Popen(
                [*DIES_WITH_PARENT, *self._command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.log.parent,
                env=self._environment,
                start_new_session=True,
            )

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._child is None:
            raise ClusterError(f"{self.name} does not run.")
        return self._child
