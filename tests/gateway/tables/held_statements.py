"""Statements that run in threads, and can be held until something else has happened."""

import threading
import time
from pathlib import Path


class Running:
    """A statement that runs in a thread."""

    def __init__(self, session, text):
        self.outcome = None
        self._thread = threading.Thread(target=self._run, args=(session, text), daemon=True)
        self._thread.start()

    def _run(self, session, text):
        try:
            self.outcome = [tuple(row) for row in session.sql(text).collect()]
        except Exception as error:  # noqa: BLE001 - a client without a server may raise anything
            self.outcome = error

    def join(self):
        self._thread.join(120)
        assert not self._thread.is_alive()
        return self.outcome


def held(started, ended):
    """Return a function that says when it has started, and then waits until it may end."""

    def wait(number):
        Path(started).touch()
        deadline = time.monotonic() + 60
        while not Path(ended).exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        return number

    return wait
