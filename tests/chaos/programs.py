"""A process that a test may lose: it says whether it lives, and can be asked to end."""

import signal
import subprocess
from contextlib import suppress

from tests.cluster.processes import Process

_STOP_SECONDS = 30.0


class Program(Process):
    """As the test cluster's own, for programs whose death is an event."""

    @property
    def process_id(self) -> int:
        return self._running().pid

    def has_ended(self) -> bool:
        """Whether it was started, and is gone although nobody killed it here."""
        return self._child is not None and self._child.poll() is not None

    def is_started(self) -> bool:
        return self._child is not None

    def stop(self) -> None:
        """Asks it to end, and kills it if that takes too long; does nothing if it does not run."""
        if self._child is not None:
            self._child.send_signal(signal.SIGCONT)
            self._child.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(_STOP_SECONDS)
            self.kill()
