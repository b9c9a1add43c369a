"""Ports of loopback for servers that must come back at the same one."""

import random
import socket

_FIRST, _LAST = 20_000, 32_000
"""Below the ports that Linux gives to clients: while a server is down, no client's connection can take its port, nor
reach itself there."""

_choice = random.SystemRandom()
_given: set[int] = set()


def free_port() -> int:
    """A port that nothing listens on, and that this process has not been given before."""
    while True:
        port = _choice.randrange(_FIRST, _LAST)
        with socket.socket() as candidate:
            try:
                candidate.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in _given:
            _given.add(port)
            return port
