"""Stops and starts of gateways under load: ``python -m tests.chaos.stops --cycles N``.

Three gateways are behind one address. A cycle stops one of them as Kubernetes does, while the one that was stopped
before starts again. In all that time, clients run statements and uploads, and check each result.

Guarantees of a run:

1. Each statement takes effect, and takes effect once. No client sees an error.
2. A gateway that stops ends in time and reports success.
3. After the clients have left, nothing remains.
"""

import argparse
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from random import Random
from typing import Self

from tests.chaos.checking_clients import CheckingClient
from tests.chaos.connections import connect
from tests.chaos.leftovers import find_leftovers, find_tracebacks
from tests.chaos.replicas import Replica
from tests.chaos.site import POLL_SECONDS, Site, Timeouts
from tests.chaos.standalone import run_on_site
from tests.cluster.processes import wait_until
from tests.workspace.kubernetes.tcp_proxy import TcpProxy

TIMES = Timeouts(lease_seconds=6, grace_seconds=10, idle_seconds=600)
CLIENTS = 16
GATEWAYS = 3
_HUNG_SECONDS = 300.0
_EMPTY_SECONDS = 120.0


class StopsError(Exception):
    """A run found a violation."""


class Stops:
    """Cycles on one site. Use it as a context manager; at its end, the clients leave.

    Args:
        site: The site, with at least three gateways.
        clients: The number of clients.
    """

    def __init__(self, site: Site, clients: int = CLIENTS) -> None:
        self._site = site
        self._client_count = clients
        self._stack = ExitStack()
        self._stop_seconds: list[float] = []
        self._cycles = 0
        self._stopped: Replica | None = None

    def __enter__(self) -> Self:
        random = Random(1)  # noqa: S311 - chooses a gateway

        def choose() -> int | None:
            ports = [gateway.port for gateway in self._site.gateways if gateway.is_endpoint]
            return random.choice(ports) if ports else None

        balancer = self._stack.enter_context(TcpProxy(choose))
        names = [f"client-{number}" for number in range(self._client_count)]
        gateways = self._site.gateways
        self._clients = [CheckingClient(connect(gateways, user=each, balancer=balancer), each) for each in names]
        for client in self._clients:
            client.start()
        wait_until(
            lambda: all(each.pauses or each.problem for each in self._clients), "the clients work", _HUNG_SECONDS
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._end_clients()
        self._stack.close()

    def cycle(self) -> None:
        """Stop a gateway, and start the gateway that was stopped before.

        Raises:
            StopsError: If a client found a violation.
            ClusterError: If the gateway does not stop or start.
        """
        gateway = self._site.gateways[self._cycles % len(self._site.gateways)]
        self._cycles += 1
        stopped, self._stopped = self._stopped, gateway
        with ThreadPoolExecutor(1) as thread:
            starting = thread.submit(stopped.start) if stopped is not None else None
            begun = time.monotonic()
            gateway.stop()
            self._stop_seconds.append(time.monotonic() - begun)
            if starting is not None:
                starting.result()
        self._raise_problems()

    def finish(self) -> str:
        """Let the clients leave, check that nothing remains, and return a summary for people.

        Raises:
            StopsError: If there is a violation.
        """
        if self._stopped is not None:
            self._stopped.start()
        self._end_clients()
        self._raise_problems()
        deadline = time.monotonic() + _EMPTY_SECONDS
        while remains := find_leftovers(self._site, frozenset()):
            if time.monotonic() > deadline:
                raise StopsError("After all clients have left, these remain:\n" + "\n".join(remains))
            time.sleep(POLL_SECONDS)
        if tracebacks := find_tracebacks(self._site):
            raise StopsError("\n".join(tracebacks))
        return self.summary()

    def summary(self) -> str:
        pauses = [pause for client in self._clients for pause in client.pauses]
        if not pauses or not self._stop_seconds:
            return "nothing happened"
        return (
            f"{self._cycles} stops, {len(self._clients)} clients, {len(pauses)} requests; none lost or done twice; "
            f"longest pause of a client {max(pauses):.1f} s, median {statistics.median(pauses):.2f} s; "
            f"longest stop {max(self._stop_seconds):.1f} s, median {statistics.median(self._stop_seconds):.1f} s"
        )

    def _end_clients(self) -> None:
        for client in self._clients:
            client.ask_to_stop()
        deadline = time.monotonic() + _HUNG_SECONDS
        for client in self._clients:
            client.wait_until_stopped(deadline)

    def _raise_problems(self) -> None:
        problems = [f"{client.name}: {client.problem}" for client in self._clients if client.problem is not None]
        if problems:
            raise StopsError(f"After {self._cycles} stops:\n" + "\n".join(problems))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.stops", description=__doc__)
    parser.add_argument("--cycles", type=int, default=30, help="number of stops; default: 30")
    cycles = parser.parse_args().cycles
    return run_on_site(lambda site: _play(site, cycles), TIMES, StopsError, gateways=GATEWAYS, reapers=1)


def _play(site: Site, cycles: int) -> None:
    with Stops(site) as stops:
        for number in range(1, cycles + 1):
            stops.cycle()
            if number % 10 == 0:
                print(stops.summary(), flush=True)
        print(stops.finish())


if __name__ == "__main__":
    sys.exit(main())
