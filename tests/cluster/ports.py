"""Loopback ports for servers that must return at the same port."""

import os
import random
import socket

_FIRST, _LAST = 20_000, 32_000
"""The range lies below the ports that Linux gives to clients. While a server is down, no connection of a client can
take its port, or connect to itself there."""

_choice = random.SystemRandom()
_given: set[int] = set()


def free_port() -> int:
    """Return a port that nobody uses and that was not returned before.

    Each process of a parallel test run has ports of its own, because a server of another process may be down for a
    moment.
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
