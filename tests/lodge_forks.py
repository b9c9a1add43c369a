"""Starts `lodge` as a fork of a process that has imported it.

Imports take three quarters of the processor time of a start, and the tests start hundreds of gateways. A fork runs the
same code with the same arguments, environment and directory as the command. Tests of the start itself, of the chart and
of chaos run the command.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path

from tests.forks import die_with_parent

_PRELOADED = "tests.imported_gateway"


class ForkedLodge:
    """A running `lodge`, with the interface of `subprocess.Popen`.

    Args:
        arguments: The arguments of `lodge`.
        directory: Its working directory.
        output: The file of its standard output.
        errors: The file of its standard error.
    """

    def __init__(self, arguments: Sequence[str], directory: Path, output: Path, errors: Path) -> None:
        self._process = _context().Process(
            target=_run, args=(list(arguments), dict(os.environ), directory, output, errors), daemon=True
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended.

        Raises:
            subprocess.TimeoutExpired: It still runs after ``timeout`` seconds.
        """
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("lodge", timeout or 0.0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # the fork server has noticed the end, and not told yet
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_PRELOADED])
    return context


def _run(arguments: Sequence[str], environment: Mapping[str, str], directory: Path, output: Path, errors: Path) -> None:
    """Become `lodge`. It dies with the process that forks, which dies with the test run."""
    die_with_parent()
    for number, path in ((1, output), (2, errors)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, number)
        os.close(file)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["lodge", *arguments]

    from lodge.cli import main  # imported before the fork

    sys.exit(main())
