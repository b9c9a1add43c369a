"""Loopback ports for servers that must return at the same port."""

import os
import random
import socket

_FIRST, _LAST = 20_000, 32_000
"""Below the ports that Linux gives to clients: while a server is down, no client's connection can take its port, nor
reach itself there."""

_choice = random.SystemRandom()
_given: set[int] = set()


def free_port() -> int:
    """A port that nothing listens on, and that this process has not been given before.

    Each process of a test run has ports of its own: the servers of another may be down just now.
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    while True:
        port = _choice.randrange(_FIRST + process, _LAST, processes)
        with socket.socket() as candidate:
            try:
                candidate.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in _given:
            _given.add(port)
            return port
