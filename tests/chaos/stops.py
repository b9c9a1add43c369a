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
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Self

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from tests.chaos.clients import rows
from tests.chaos.connections import connect
from tests.chaos.leftovers import find_leftovers, find_tracebacks
from tests.chaos.replicas import Replica
from tests.chaos.site import Site, Timeouts
from tests.chaos.standalone import run_on_site
from tests.cluster.processes import wait_until
from tests.workspace.kubernetes.tcp_proxy import TcpProxy

TIMES = Timeouts(lease_seconds=6, grace_seconds=10, idle_seconds=600)
CLIENTS = 16
GATEWAYS = 3
_LONG_SHARE = 0.5
_LONGEST_SLEEP_SECONDS = 4.0
_LONGEST_THINK_SECONDS = 4.0
_UPLOAD_ROWS = 20_000
_HUNG_SECONDS = 120.0
_EMPTY_SECONDS = 60.0


class StopsError(Exception):
    """A run found a violation."""


class CheckingClient:
    """A client that compares each result with the expected one.

    Args:
        session: The session of the client, before its first request.
        name: The name of the client.

    Attributes:
        pauses: How long the client waited for each request, in seconds, without the time that the query sleeps.
        problem: The violation that the client found; None if there is none.
    """

    def __init__(self, session: SparkSession, name: str) -> None:
        self.name = name
        self.pauses: list[float] = []
        self.problem: str | None = None
        self._session = session
        self._random = Random(name)  # noqa: S311 - must be repeatable, not secret
        self._next_id = 0
        self._table = ""
        self._expected: list[int] = []
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._stop = threading.Event()
        self._doing = "nothing"

    def start(self) -> None:
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Let the client finish its current table, and release its session."""
        self._stop.set()

    def wait_until_stopped(self, deadline: float) -> None:
        """Wait until the given monotonic time. A client that still waits then has a problem."""
        self._thread.join(max(deadline - time.monotonic(), 0.0))
        if self._thread.is_alive():
            self.problem = f"still waits for: {self._doing}"

    def _run(self) -> None:
        try:
            self._session.conf.set("spark.sql.session.localRelationCacheThreshold", "1000")
            while not self._stop.is_set():
                self._use_table()
            self._session.client.release_session()
        except (PySparkException, AssertionError) as error:
            self.problem = f"{self._doing}: {type(error).__name__}: {' '.join(str(error).split())[:500]}"
        finally:
            self._session.client.close()

    def _use_table(self) -> None:
        """Create a table, change it, and drop it."""
        self._table = f"t{self._next_id}"
        if self._random.random() < 0.3:
            self._create_from_upload()
        else:
            self._create()
        self._check()
        for _ in range(self._random.randint(1, 3)):
            self._change()
            self._check()
        self._ask(f"drop table {self._table}")
        listed = [row.tableName for row in self._ask("show temporary tables")]
        assert not listed, f"after the drop, there are {listed}"

    def _create(self) -> None:
        ids = self._new_ids()
        self._expected = list(ids)
        self._check_written(self._write(f"create temporary table {self._table} as", ids), len(ids))

    def _create_from_upload(self) -> None:
        """Create a table of rows that the client uploads as an artifact."""
        ids = self._new_ids(_UPLOAD_ROWS)
        self._expected = list(ids)
        with self._waiting("an upload"):
            self._upload(ids)
        written = self._ask(f"create temporary table {self._table} as select * from uploaded")
        self._check_written(written, len(ids))

    def _upload(self, ids: range) -> None:
        rows = pa.table({"id": pa.array(ids), "slept": pa.nulls(len(ids), pa.string())})
        self._session.createDataFrame(rows).createOrReplaceTempView("uploaded")

    def _change(self) -> None:
        ids = self._new_ids()
        if self._random.random() < 0.7:
            self._expected += ids
            self._write(f"insert into {self._table}", ids)
        else:
            self._expected = list(ids)
            self._write(f"insert overwrite {self._table}", ids)

    def _check(self) -> None:
        found = sorted(row.id for row in self._ask(f"select id from {self._table}"))
        missing = sorted(set(self._expected) - set(found))
        wrong = sorted((Counter(found) - Counter(self._expected)).elements())
        assert not missing, f"rows of {self._table} are lost: {missing[:20]}"
        assert not wrong, f"{self._table} has rows twice, or rows that were replaced: {wrong[:20]}"

    def _check_written(self, answer: Sequence[object], count: int) -> None:
        written = [row["Number of records written"] for row in answer]
        assert written == [count], f"the answer reports {written} rows instead of {count}"

    def _write(self, statement: str, ids: range) -> Sequence[object]:
        """Run a statement that writes rows, and that sometimes takes some time."""
        is_long = self._random.random() < _LONG_SHARE
        seconds = self._random.uniform(0, _LONGEST_SLEEP_SECONDS) if is_long else 0.0
        query = rows(ids, milliseconds=round(1000 * seconds / len(ids)))
        return self._ask(f"{statement} {query}", seconds)

    def _new_ids(self, count: int = 0) -> range:
        count = count or self._random.randint(1, 20)
        self._next_id += count
        return range(self._next_id - count, self._next_id)

    def _ask(self, text: str, sleep_seconds: float = 0.0) -> Sequence[object]:
        self._stop.wait(self._random.uniform(0, _LONGEST_THINK_SECONDS))
        with self._waiting(text, sleep_seconds):
            return self._session.sql(text).collect()

    @contextmanager
    def _waiting(self, what: str, sleep_seconds: float = 0.0) -> Iterator[None]:
        begun, self._doing = time.monotonic(), what[:100]
        yield
        self.pauses.append(max(time.monotonic() - begun - sleep_seconds, 0.0))


class Stops:
    """Cycles on one site. Use it as a context manager; at its end, the clients leave.

    Args:
        site: The site, with at least three gateways.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
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
        names = [f"client-{number}" for number in range(CLIENTS)]
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
            time.sleep(0.2)
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
