"""The cost of Lodge compared with Spark Connect alone.

Each figure is a ratio of both, measured in one run. Clients use one local Spark Connect server directly and through a
gateway, in turn. The order changes from round to round. Everything shares this machine, so the figures include the
processor time of the gateway. The benchmark prints that time as well.

    python benchmarks/pass_through.py [--rounds N] [--seconds S] [--skip-bulk]
"""

import argparse
import contextlib
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
from pyspark.sql.connect.session import SparkSession

from lodge.embedded_spark import embedded_spark
from lodge.logs import set_up_logs

CLIENTS = (1, 8, 32)
RESULT_ROWS = 5_000_000
UPLOAD_BYTES = 100 * 1024 * 1024
READY = re.compile(r"Lodge is ready at (sc://\S+)")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Gateway:
    """A running ``lodge serve``.

    Attributes:
        address: The address for clients.
        pid: The id of its process.
    """

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        ready = READY.search(process.stdout.readline())
        assert ready is not None, "lodge serve did not start"
        self.address = ready.group(1)
        self.pid = process.pid

    @property
    def target(self) -> str:
        """The address for gRPC, without the scheme."""
        return self.address.removeprefix("sc://").rstrip("/")

    def cpu_seconds(self) -> float:
        """Return the processor time that the gateway has used."""
        return cpu_seconds(self.pid)

    def resident_bytes(self) -> int:
        """Return the resident memory of the gateway."""
        return resident_bytes(self.pid)

    def end(self, number: signal.Signals) -> None:
        """Send a signal that ends the gateway. Do not wait for its end."""
        os.kill(self.pid, number)


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def resident_bytes(pid: int | str = "self") -> int:
    """Return the resident memory of a process, by default of this process."""
    found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


@contextlib.contextmanager
def run_gateway(backend: str, directory: Path, *options: str) -> Iterator[Gateway]:
    """Run a gateway in front of a backend, with workspaces in a directory and further options."""
    workspaces = {"dfs": directory / "dfs", "dfs.tmp": directory / "tmp"}
    command = [sys.executable, "-m", "lodge", "serve", "--listen", "127.0.0.1:0", "--backend", backend, "--no-reaper"]
    command += ["--principal-requests-per-second", "1000000"]  # all clients are the same principal
    for name, path in workspaces.items():
        path.mkdir(exist_ok=True)
        command += ["--workspace", f"{name}={path.as_uri()}"]
    with subprocess.Popen([*command, *options, "--log-level", "warning"], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Gateway(process)
        finally:
            process.terminate()


def connect(address: str) -> SparkSession:
    """Return a new client session."""
    return SparkSession.builder.remote(address).create()


def seconds_of(work: Callable[[], object]) -> float:
    """Return how long a function takes, in seconds."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def percentile(values: list[float], share: float) -> float:
    """Return the value below which the given share of the values lies."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def run_in_turn(round_number: int, routes: Iterable[str], measure: Callable[[str], None]) -> None:
    """Measure each route once, in an order that alternates from round to round."""
    for name in list(routes) if round_number % 2 == 0 else reversed(list(routes)):
        measure(name)


def run_statements(sessions: list[SparkSession], seconds: float) -> list[float]:
    """Run ``select 1`` in all sessions at once for some time.

    Returns:
        The latencies in seconds.
    """
    return run_all([lambda session=session: session.sql("select 1").collect() for session in sessions], seconds)


def run_all(clients: Sequence[Callable[[], object]], seconds: float) -> list[float]:
    """Call the function of each client again and again, all clients at once, for some time.

    Returns:
        The latencies in seconds.
    """
    end = time.perf_counter() + seconds

    def work(client: Callable[[], object]) -> list[float]:
        latencies = []
        while (started := time.perf_counter()) < end:
            client()
            latencies.append(time.perf_counter() - started)
        return latencies

    with ThreadPoolExecutor(len(clients)) as pool:
        return [latency for each in pool.map(work, clients) for latency in each]


def bench_select_1(direct: str, lodge: Gateway, clients: int, rounds: int, seconds: float) -> None:
    """Compare the latency of a small statement for a number of clients."""
    sessions = {"direct": [connect(direct) for _ in range(clients)]}
    sessions["Lodge"] = [connect(lodge.address) for _ in range(clients)]
    latencies: dict[str, list[float]] = {name: [] for name in sessions}
    medians: dict[str, list[float]] = {name: [] for name in sessions}
    for each in sessions.values():
        run_statements(each, seconds)  # warm up
    cpu_seconds = 0.0

    def measure(name: str) -> None:
        nonlocal cpu_seconds
        started = lodge.cpu_seconds()
        found = run_statements(sessions[name], seconds)
        if name == "Lodge":
            cpu_seconds += lodge.cpu_seconds() - started
        latencies[name] += found
        medians[name].append(statistics.median(found))

    for number in range(rounds):
        run_in_turn(number, sessions, measure)
    p50 = {name: percentile(found, 0.5) for name, found in latencies.items()}
    p99 = {name: percentile(found, 0.99) for name, found in latencies.items()}
    ratios = [b / a for a, b in zip(medians["direct"], medians["Lodge"], strict=True)]
    rates = [len(latencies[name]) / (rounds * seconds) for name in ("direct", "Lodge")]
    print(
        f"{clients:3} clients         {p50['direct'] * 1e3:7.1f} ms  {p50['Lodge'] * 1e3:7.1f} ms"
        f"   {statistics.median(ratios):5.2f}   {p99['Lodge'] / p99['direct']:9.2f}"
        f"   {rates[0]:5.0f} / {rates[1]:4.0f}   {cpu_seconds / len(latencies['Lodge']) * 1e3:7.2f} ms",
        flush=True,
    )
    for each in sessions.values():
        for session in each:
            session.stop()


def bench_bulk(
    name: str, megabytes: float, work: Callable[[SparkSession], object], direct: str, lodge: Gateway, rounds: int
) -> None:
    """Compare the throughput of a large result or upload."""
    sessions = {"direct": connect(direct), "Lodge": connect(lodge.address)}
    times: dict[str, list[float]] = {each: [] for each in sessions}
    cpu_seconds = 0.0

    def measure(route: str) -> None:
        nonlocal cpu_seconds
        cpu_started, started = lodge.cpu_seconds(), time.perf_counter()
        work(sessions[route])
        times[route].append(time.perf_counter() - started)
        if route == "Lodge":
            cpu_seconds += lodge.cpu_seconds() - cpu_started

    for session in sessions.values():
        work(session)  # warm up
    for number in range(rounds):
        run_in_turn(number, sessions, measure)
    ratio = statistics.median(a / b for a, b in zip(times["direct"], times["Lodge"], strict=True))
    print(
        f"{name:32} {megabytes / min(times['direct']):6.0f} MB/s direct"
        f" {megabytes / min(times['Lodge']):6.0f} MB/s Lodge"
        f"   throughput ratio {ratio:4.2f}   gateway CPU {cpu_seconds / rounds / megabytes * 1e3:5.2f} ms/MB",
        flush=True,
    )
    for session in sessions.values():
        session.stop()


def bench_during_upload(frame: pd.DataFrame, direct: str, lodge: Gateway, rounds: int, seconds: float) -> None:
    """Compare the latency of a small statement during an upload.

    A stall of the gateway's event loop shows here.
    """
    addresses = {"direct": direct, "Lodge": lodge.address}
    medians: dict[str, list[float]] = {name: [] for name in addresses}

    def measure(name: str) -> None:
        small, large = connect(addresses[name]), connect(addresses[name])
        run_statements([small], 1.0)
        upload = threading.Thread(target=lambda: large.createDataFrame(frame).count())
        upload.start()
        medians[name].append(percentile(run_statements([small], seconds), 0.5))
        upload.join()
        small.stop()
        large.stop()

    for number in range(rounds):
        run_in_turn(number, addresses, measure)
    ratios = [b / a for a, b in zip(medians["direct"], medians["Lodge"], strict=True)]
    print(
        f"select 1 during the upload: p50 direct {statistics.median(medians['direct']) * 1e3:.1f} ms, "
        f"Lodge {statistics.median(medians['Lodge']) * 1e3:.1f} ms, ratio {statistics.median(ratios):.2f}"
    )


def main() -> None:
    """Run all benchmarks of the gateway."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each measurement")
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds of each measurement of small statements")
    parser.add_argument("--skip-bulk", action="store_true", help="skip large results and uploads")
    arguments = parser.parse_args()
    set_up_logs("warning")
    with (
        tempfile.TemporaryDirectory() as directory,
        embedded_spark("5g") as spark,
        run_gateway(spark.address, Path(directory)) as lodge,
    ):
        print("\nselect 1            p50 direct   p50 Lodge   ratio   p99 ratio   statements/s   gateway CPU/statement")
        for clients in CLIENTS:
            bench_select_1(spark.address, lodge, clients, arguments.rounds, arguments.seconds)
        if arguments.skip_bulk:
            return
        print()
        query = f"select id, id * 2 b, cast(id as double) c from range({RESULT_ROWS})"
        bench_bulk(
            "Arrow result, 5 million rows",
            RESULT_ROWS * 24 / 1e6,
            lambda session: session.sql(query).toArrow(),
            spark.address,
            lodge,
            arguments.rounds,
        )
        frame = pd.DataFrame({f"c{n}": np.random.default_rng(n).random(UPLOAD_BYTES // 32) for n in range(4)})
        bench_bulk(
            "createDataFrame upload, 100 MB",
            UPLOAD_BYTES / 1e6,
            lambda session: session.createDataFrame(frame).count(),
            spark.address,
            lodge,
            arguments.rounds,
        )
        bench_during_upload(frame, spark.address, lodge, min(arguments.rounds, 3), arguments.seconds)


if __name__ == "__main__":
    main()
