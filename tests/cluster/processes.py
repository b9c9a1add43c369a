"""Programs as processes that a test can stop, pause and start again.

Guarantees:

1. The kernel kills the process when the test run ends, even by SIGKILL (Linux). The kernel watches the thread that
   started the process. One thread therefore starts all processes, and lives as long as the test run. Any thread may
   call `Process`.
2. The process has a session of its own. Ctrl-C in a terminal reaches only the test run, which ends the processes in
   order.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

DIES_WITH_PARENT = (shutil.which("setpriv") or "setpriv", "--pdeathsig", "KILL", "--")
"""A prefix of a command: the command is killed when the thread that started it ends. No Python code runs between fork
and exec, because gRPC does not support forks."""

_launcher = ThreadPoolExecutor(max_workers=1, thread_name_prefix="launcher")

START_SECONDS = 240.0
_OTHERS_SECONDS = 5.0
REQUEST_SECONDS = 0.2
"""How long to wait between two questions that are requests. They cost processor time."""


class ClusterError(Exception):
    """The test cluster is in an unexpected state, which the message describes."""


def wait_until(condition: Callable[[], object], what: str, seconds: float, every_seconds: float = 0.05) -> None:
    """Wait until a condition holds.

    Args:
        condition: The condition.
        what: A description of the condition, for the error.
        seconds: The longest time to wait.
        every_seconds: The time between two questions.

    Raises:
        ClusterError: The condition did not hold in time. The message contains ``what``.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ClusterError(f"Not within {seconds:g} s: {what}")
        time.sleep(every_seconds)


class Process:
    """A program with its command line.

    Args:
        command: The command line.
        log: The file for the output of all its starts.
        is_ready: Returns whether the program is ready. By default, it is ready as soon as it runs.
        environment: Further environment variables.
        output: The pipe that receives the output, if another process writes the log. None for the log itself.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        *,
        is_ready: Callable[[], bool] = lambda: True,
        environment: Mapping[str, str] | None = None,
        output: Path | None = None,
    ) -> None:
        self.name = log.stem
        self.log = log
        self._output = output or log
        self._command = command
        self._is_ready = is_ready
        self._environment = os.environ | (environment or {})
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The id of the process.

        Raises:
            ClusterError: The program does not run.
        """
        return self._running().pid

    def start(self) -> None:
        """Start the program and wait until it is ready.

        Raises:
            ClusterError: The program ended or was not ready in time. The message contains the end of its log.
        """
        if self._child is not None:
            raise ClusterError(f"{self.name} is already running.")
        self._child = _launcher.submit(self._launch).result()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait until the process is ready, or raise the errors of `start`."""
        child = self._running()
        try:
            wait_until(
                lambda: child.poll() is not None or self._is_ready(),
                f"{self.name} is ready",
                START_SECONDS,
                REQUEST_SECONDS,
            )
            if child.poll() is not None:
                raise ClusterError(f"{self.name} ended with status {child.returncode}")
        except ClusterError as error:
            raise ClusterError(f"{error}; its log ends:\n{self.log.read_text(errors='replace')[-4000:]}") from None

    def kill(self) -> None:
        """End the process at once, like a crash, and all that die with it. Does nothing if it does not run."""
        if self._child is not None:
            others = self._tree()[1:]
            self._child.kill()
            self._child.wait()
            self._child = None
            with suppress(ClusterError):  # not all processes die with the one that started them
                wait_until(lambda: not any(map(is_running, others)), "the others have ended", _OTHERS_SECONDS, 0.01)

    def is_running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def has_ended(self) -> bool:
        """Return whether the process ended without being killed by a test."""
        return self._child is not None and self._child.poll() is not None

    def pause(self) -> None:
        """Pause the process and all that it started: its connections stay open, and nothing answers."""
        self._signal_tree(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal_tree(signal.SIGCONT)

    def _signal_tree(self, number: int) -> None:
        for process in self._tree():
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def _tree(self) -> Sequence[int]:
        """Return the ids of the process and of all that it started, each after the one that started it."""
        processes = [self._running().pid]
        for process in processes:
            processes += children_of(process)
        return processes

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
        with self._output.open("ab") as output:
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
            raise ClusterError(f"{self.name} is not running.")
        return self._child


def is_running(pid: int) -> bool:
    """Return whether a thread of a process runs. The first thread may end before others, which keep files open.

    A process whose end its parent has not noticed has ended.
    """
    states = set()
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):  # the thread has ended
            states.add(thread.read_text().rpartition(")")[2].split()[0])
    return not states <= {"Z", "X"}


def children_of(pid: int) -> set[int]:
    """Return the children that any thread of a process has started."""
    children: set[int] = set()
    for of_thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            children.update(map(int, of_thread.read_text().split()))
    return children
