"""Processes whose death is part of a test."""

import signal
import subprocess
from contextlib import suppress

from tests.cluster.processes import Process

_STOP_SECONDS = 30.0


class Program(Process):
    """A process of the test cluster that reports whether it has ended."""

    @property
    def process_id(self) -> int:
        return self._running().pid

    def is_started(self) -> bool:
        return self._child is not None

    def stop(self, seconds: float = _STOP_SECONDS) -> int | None:
        """Terminate the process, and kill it if that takes too long.

        Does nothing if it does not run.

        Args:
            seconds: How long the process may take to end.

        Returns:
            The exit status. None if the process did not run, or had to be killed.
        """
        status = None
        if self._child is not None:
            self._child.send_signal(signal.SIGCONT)
            self._child.terminate()
            with suppress(subprocess.TimeoutExpired):
                status = self._child.wait(seconds)
            self.kill()
        return status
