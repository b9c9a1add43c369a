"""The expiry of many idle sessions, and what it costs a client that works.

One gateway serves idle sessions and a client that runs ``select 1`` again and again. After the idle timeout, all idle
sessions end. The benchmark measures how long this takes, and the latency of the client before and during that time.

The sessions are real: a ``Config`` request starts each of them, and each has a session record. The client's backend is
Spark. By default, the idle sessions have a backend of their own (:mod:`benchmarks.replicas.idle_backend`), so that the
result does not include the work of Spark for the end of a session.

    python -m benchmarks.replicas.expiry [--sessions N] [--kubernetes] [--spark]
"""

import argparse
import asyncio
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from grpc import aio
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

from benchmarks.pass_through import Gateway, connect, percentile, run_gateway
from benchmarks.replicas.clusters import start_cluster
from lodge.embedded_spark import embedded_spark
from lodge.logs import set_up_logs
from tests.cluster.cluster import Cluster
from tests.cluster.ports import free_port

IDLE_TIMEOUT_SECONDS = 60.0
BASELINE_SECONDS = 30.0
MAX_SECONDS = 60.0
MAX_RATIO = 2.0
DEADLINE_SECONDS = 500.0
SESSIONS_PER_PRINCIPAL = 100
CONCURRENT_REQUESTS = 32
LIMITS = {
    "max-sessions": 1_000_000,
    "new-sessions-per-minute": 10_000_000,
    "principal-new-sessions-per-minute": 10_000_000,
    "max-requests-in-flight": 10_000,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--kubernetes", action="store_true", help="records on an API server instead of files")
    parser.add_argument("--spark", action="store_true", help="idle sessions at Spark too")
    arguments = parser.parse_args()
    set_up_logs("warning")
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(start_cluster()) if arguments.kubernetes else None
        bench_expiry(arguments.sessions, cluster, at_spark=arguments.spark)


def bench_expiry(sessions: int, cluster: Cluster | None, *, at_spark: bool = False) -> None:
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory,
        embedded_spark("5g") as spark,
        run_idle_backend() as idle_backend,
    ):
        metrics = f"127.0.0.1:{free_port()}"
        options = {**LIMITS, "session-idle-timeout": f"{IDLE_TIMEOUT_SECONDS:.0f}s", "metrics-listen": metrics}
        if cluster is not None:
            options |= {"records": "kubernetes", "namespace": cluster.namespace("expiry")}
            options |= {"kubeconfig": str(cluster.kubeconfig)}
        flags = [f"--{key}={value}" for key, value in options.items()]
        client_principal = os.environ.get("USER") or "client"
        flags.append(f"--principal-backend={client_principal}={spark.address}")
        backend = spark.address if at_spark else idle_backend
        with run_gateway(backend, Path(directory), *flags) as gateway:
            load = _Load(gateway, metrics, sessions, client_principal)
            print(load.run("files" if cluster is None else "Kubernetes", at_spark=at_spark), flush=True)


@contextlib.contextmanager
def run_idle_backend() -> Iterator[str]:
    """Run :mod:`benchmarks.replicas.idle_backend`, and return its address."""
    command = [sys.executable, "-m", "benchmarks.replicas.idle_backend"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"sc://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


@dataclass(slots=True)
class _Latency:
    """The latency of one statement, in seconds, and the monotonic time at which it began."""

    begun: float
    seconds: float


class _Load:
    """The idle sessions of a gateway, and a client that works."""

    def __init__(self, gateway: Gateway, metrics: str, sessions: int, principal: str) -> None:
        self._gateway = gateway
        self._metrics = metrics
        self._ids = [str(uuid.uuid4()) for _ in range(sessions)]
        self._principal = principal
        self._latencies: list[_Latency] = []

    def run(self, storage: str, *, at_spark: bool) -> str:
        sessions = len(self._ids)
        memory_bytes = self._gateway.resident_bytes()
        opened_seconds = self._send_to_all()
        memory_bytes = self._gateway.resident_bytes() - memory_bytes
        touched_seconds = self._send_to_all()
        stop = threading.Event()
        client = threading.Thread(target=self._work, args=(stop,), daemon=True)
        client.start()
        self._wait_until(lambda: len(self._latencies) > 0, "the client has run a statement")
        begun = time.monotonic()
        first = self._wait_for_sessions(sessions, "the first session has ended")
        assert first - begun > BASELINE_SECONDS, f"The first session ended after {first - begun:.0f} s already"
        cpu_seconds = self._gateway.cpu_seconds()
        last = self._wait_for_sessions(1, "all idle sessions have ended")
        cpu_seconds = self._gateway.cpu_seconds() - cpu_seconds
        stop.set()
        client.join()
        before = [each.seconds for each in self._latencies if begun + 5.0 <= each.begun < first - 2.0]
        during = [each.seconds for each in self._latencies if first - 2.0 <= each.begun < last]
        p99 = percentile(before, 0.99), percentile(during, 0.99)
        p50 = percentile(before, 0.5), percentile(during, 0.5)
        return (
            f"expiry of {sessions} sessions, records on {storage}, idle sessions at "
            f"{'Spark' if at_spark else 'a server without work'}: started in {opened_seconds:.1f} s, touched in "
            f"{touched_seconds:.1f} s, ended in {last - first:.1f} s (aim: at most {MAX_SECONDS:.0f} s), "
            f"{cpu_seconds / sessions * 1e3:.2f} ms of processor time each; gateway memory "
            f"{memory_bytes / sessions:.0f} bytes each\n"
            f"  select 1 before and during: p50 {p50[0] * 1e3:.1f} / {p50[1] * 1e3:.1f} ms, "
            f"p99 {p99[0] * 1e3:.1f} / {p99[1] * 1e3:.1f} ms, ratio {p99[1] / p99[0]:.2f} (aim: at most {MAX_RATIO}); "
            f"longest {max(before) * 1e3:.0f} / {max(during) * 1e3:.0f} ms; "
            f"{len(before)} / {len(during)} statements"
        )

    def _send_to_all(self) -> float:
        """Send a request of each idle session, and return how long this took."""
        begun = time.monotonic()
        send_config_requests(self._gateway.target, self._ids)
        return time.monotonic() - begun

    def _work(self, stop: threading.Event) -> None:
        session = connect(f"{self._gateway.address}/;user_id={self._principal}")
        while not stop.is_set():
            begun = time.monotonic()
            session.sql("select 1").collect()
            self._latencies.append(_Latency(begun, time.monotonic() - begun))
        session.stop()

    def _wait_for_sessions(self, number: int, what: str) -> float:
        """Wait until the gateway serves at most this number of sessions, and return the monotonic time."""
        return self._wait_until(lambda: self._count_sessions() <= number, what)

    @staticmethod
    def _wait_until(condition: Callable[[], bool], what: str) -> float:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise SystemExit(f"Not within {DEADLINE_SECONDS} s: {what}")
            time.sleep(0.2)
        return time.monotonic()

    def _count_sessions(self) -> int:
        with urllib.request.urlopen(f"http://{self._metrics}/metrics", timeout=30) as answer:
            found = re.search(r"^lodge_gateway_sessions (\S+)$", answer.read().decode(), re.MULTILINE)
        assert found is not None
        return int(float(found[1]))


def send_config_requests(target: str, session_ids: Sequence[str]) -> None:
    """Send a request of each session, several at the same time. The first request starts a session."""
    asyncio.run(_send_config_requests(target, session_ids))


async def _send_config_requests(target: str, session_ids: Sequence[str]) -> None:
    waiting = iter(enumerate(session_ids))
    async with aio.insecure_channel(target) as channel:
        stub = base_pb2_grpc.SparkConnectServiceStub(channel)

        async def send() -> None:
            for index, session_id in waiting:
                request = base_pb2.ConfigRequest(session_id=session_id)
                request.user_context.user_id = f"user-{index // SESSIONS_PER_PRINCIPAL}@example.com"
                request.operation.get_option.keys.append("spark.sql.caseSensitive")
                await stub.Config(request)

        async with asyncio.TaskGroup() as group:
            for _ in range(CONCURRENT_REQUESTS):
                group.create_task(send())


if __name__ == "__main__":
    main()
