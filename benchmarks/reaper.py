"""The cost of the reaper, and the time that it needs.

The benchmark compares them with the reaper's settings and with peers in the same run. The run uses a real API server,
controller manager and simulated nodes, and a real ``lodge reap``. This program renews the leases of the gateways, so it
measures the reaper alone.

- *Node failure*: the time from the failure of a node and its gateway until the last of its session locations is gone,
  compared with lease duration plus grace period.
- *Reconcile*: one pass over everything, compared with one plain list of the same records from the API server.
- *API requests* in the steady state, with one hundred and ten thousand sessions.
- *Memory* of the process, with no records and with ten thousand.
- *Removal*: see ``benchmarks/removal.py``.

    python -m benchmarks.reaper [--sessions N] [--records N]
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml
from kubernetes.client import CustomObjectsApi, V1Pod

from benchmarks.removal import bench_removal
from tests.cluster.builds import build, find_missing
from tests.cluster.cluster import PROGRAMS_OF_A_CLUSTER, Cluster
from tests.cluster.ports import free_port
from workspace.files.session_locations import FileSessionLocations
from workspace.identifiers import ClientSessionId, Principal, ReplicaId, SessionUuid, TableUuid
from workspace.kubernetes.api_server import PAGE_OBJECTS
from workspace.kubernetes.connect_session_objects import API_VERSION, GROUP, PLURAL
from workspace.kubernetes.connection import Connection, connect
from workspace.kubernetes.leases import KubernetesLeases, PodIdentity
from workspace.kubernetes.root_ids import KubernetesRootIds
from workspace.kubernetes.session_records import KubernetesSessionRecords
from workspace.records import Phase, SessionRecord, TableState, TemporaryTable

CRD = Path(__file__).parents[1] / "helm" / "lodge" / "crds" / "connectsessions.yaml"
LEASE_SECONDS = 6.0
GRACE_SECONDS = 6.0
DEAD_SHARE = 0.3
OVERHEAD_AIM_SECONDS = 2.0
STEADY_SECONDS = 30.0
RESYNC_SECONDS = 300.0
DEADLINE_SECONDS = 900.0
THREADS = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=1_000, help="sessions for the node failure")
    parser.add_argument("--records", type=int, default=10_000, help="records for all other measurements")
    arguments = parser.parse_args()
    build(find_missing(PROGRAMS_OF_A_CLUSTER), print)
    with Cluster() as cluster:
        cluster.apply([yaml.safe_load(CRD.read_text())])
        bench_node_failure(cluster, arguments.sessions)
        bench_steady_state(cluster, arguments.records)
    bench_removal(rounds=3, files=100_000)


def bench_node_failure(cluster: Cluster, sessions: int) -> None:
    dead = round(sessions * DEAD_SHARE)
    with Lodge(cluster) as lodge:
        node, other = cluster.node(), cluster.node()
        failing = lodge.gateway(node.pod(lodge.namespace, "failing"))
        surviving = lodge.gateway(other.pod(lodge.namespace, "surviving"))
        lost = lodge.sessions([failing], dead, with_locations=True)
        lodge.sessions([surviving], sessions - dead, with_locations=True)
        with lodge.reaper():
            lodge.wait_for_passes()
            node.fail()
            failing.stop()
            failing.leases.renew(failing.replica)  # the lease is new when the measurement begins
            failed_seconds = time.monotonic()
            first = lodge.wait_until(lambda: len(lodge.remaining(lost)) < dead, "the first location is gone")
            last = lodge.wait_until(lambda: not lodge.remaining(lost), "the last location is gone")
            swept = lodge.wait_until(
                lambda: not lodge.remaining_records(lost) and not lodge.locations.trash(),
                "all records and files are gone",
            )
            survivors = len(lodge.locations.list())
        configured = LEASE_SECONDS + GRACE_SECONDS
        print(
            f"node failure, {dead} of {sessions} sessions: configured {configured:.1f} s; first location gone after "
            f"{first - failed_seconds:.2f} s, last {last - failed_seconds:.2f} s: overhead "
            f"{last - failed_seconds - configured:+.2f} s (aim: at most {OVERHEAD_AIM_SECONDS} s), ratio "
            f"{(last - failed_seconds) / configured:.3f}; all records and files gone after "
            f"{swept - failed_seconds:.2f} s; {survivors} others untouched",
            flush=True,
        )
        assert survivors == sessions - dead
        for each in (node, other):
            each.remove()


def bench_steady_state(cluster: Cluster, records: int) -> None:
    rates: dict[int, float] = {}
    with Lodge(cluster) as lodge:
        gateway = lodge.gateway(None)
        with lodge.reaper() as process:
            lodge.wait_for_passes()
            empty_bytes = memory_bytes(process.pid)
        few = max(records // 100, 1)
        for number in (few, records):
            lodge.sessions([gateway], number - (few if rates else 0), with_locations=False)
            with lodge.reaper() as process:
                lodge.wait_for_passes()
                lodge.wait_for_conditions(number)
                before = lodge.passes()
                rates[number] = requests_per_second(cluster)
                after = lodge.passes()
                full_bytes = memory_bytes(process.pid)
        begun = time.perf_counter()
        listed = lodge.records.list()
        list_seconds = time.perf_counter() - begun
        assert len(listed) == records
    pass_seconds = (after.seconds - before.seconds) / max(after.count - before.count, 1)
    print(
        f"reconcile of {records} records: one pass {pass_seconds * 1000:.0f} ms, one list by the API "
        f"{list_seconds * 1000:.0f} ms: ratio {pass_seconds / list_seconds:.3f}",
        f"API requests in steady state, with the gateway's lease and the cluster's own: {rates[few]:.2f}/s with "
        f"{few} sessions, {rates[records]:.2f}/s with {records}: ratio {rates[records] / rates[few]:.2f} (aim: flat); "
        f"in addition, every {RESYNC_SECONDS:.0f} s, a list of all records: {pages(few)} and {pages(records)} requests",
        f"memory: {empty_bytes / 2**20:.0f} MiB with no records, {full_bytes / 2**20:.0f} MiB with {records}: "
        f"{(full_bytes - empty_bytes) / 2**20:.0f} MiB more",
        sep="\n",
        flush=True,
    )


@dataclass(slots=True)
class Gateway:
    """A gateway that only renews its lease."""

    leases: KubernetesLeases
    replica: ReplicaId
    _stopped: threading.Event = field(default_factory=threading.Event)

    def renew_until_stopped(self) -> None:
        while not self._stopped.wait(LEASE_SECONDS / 3):
            self.leases.renew(self.replica)

    def stop(self) -> None:
        self._stopped.set()


@dataclass(frozen=True, slots=True)
class Passes:
    """The number of passes, and their total duration."""

    count: float
    seconds: float


class Lodge:
    """One Lodge in its own namespace: records, leases, a workspace, and a reaper."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._gateways: list[Gateway] = []
        self._metrics = f"127.0.0.1:{free_port()}"

    def __enter__(self) -> Self:
        self.namespace = self._cluster.namespace("bench")
        self._root = Path(tempfile.mkdtemp(prefix="lodge-bench-"))
        self._connection: Connection = connect(self._cluster.kubeconfig, self.namespace, "lodge")
        self.records = KubernetesSessionRecords(self._connection)
        self.locations = FileSessionLocations(self._root, None, KubernetesRootIds(self._connection))
        self.locations.initialise()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for gateway in self._gateways:
            gateway.stop()
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda stored: self.records.delete(stored.record.name, stored.version), self.records.list()))
        shutil.rmtree(self._root)

    def gateway(self, pod: V1Pod | None) -> Gateway:
        identity = None if pod is None else PodIdentity(pod.metadata.name, pod.metadata.uid, pod.spec.node_name)
        replica = ReplicaId(f"gateway-{uuid.uuid4().hex[:12]}")
        gateway = Gateway(KubernetesLeases(self._connection, identity), replica)
        gateway.leases.renew(replica)
        threading.Thread(target=gateway.renew_until_stopped, daemon=True).start()
        self._gateways.append(gateway)
        return gateway

    def sessions(self, gateways: Sequence[Gateway], number: int, *, with_locations: bool) -> Sequence[SessionUuid]:
        """Start sessions with two temporary tables each."""

        def start(index: int) -> SessionUuid:
            session = SessionUuid(str(uuid.uuid4()))
            tables = tuple(create_table(f"t{each}") for each in range(2))
            self.records.create(
                SessionRecord(
                    session_uuid=session,
                    principal=Principal(f"user-{index % 100}"),
                    client_session_id=ClientSessionId(str(uuid.uuid4())),
                    backend="sc://127.0.0.1:1",
                    phase=Phase.ACTIVE,
                    created_at="2026-01-01T00:00:00+00:00",
                    holders=frozenset(gateway.replica for gateway in gateways),
                    tables=tables,
                )
            )
            if with_locations:
                location = self.locations.create(session)
                for table in tables:
                    (location / table.uuid).mkdir()
                    (location / table.uuid / "part-0.parquet").write_bytes(b"x" * 1024)
            return session

        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(start, range(number)))

    def remaining(self, sessions: Sequence[SessionUuid]) -> Sequence[SessionUuid]:
        return [session for session in sessions if (self._root / session).exists()]

    def remaining_records(self, sessions: Sequence[SessionUuid]) -> Sequence[SessionUuid]:
        return sorted({stored.record.session_uuid for stored in self.records.list()} & set(sessions))

    @contextmanager
    def reaper(self) -> Iterator["subprocess.Popen[bytes]"]:
        options: Mapping[str, object] = {
            "workspace": f"dfs.tmp={self._root.as_uri()}",
            "records": "kubernetes",
            "kubeconfig": self._cluster.kubeconfig,
            "namespace": self.namespace,
            "lease-duration": f"{LEASE_SECONDS}s",
            "grace-period": f"{GRACE_SECONDS}s",
            "resync-period": f"{RESYNC_SECONDS}s",
            "metrics-listen": self._metrics,
            "log-level": "error",
        }
        command = [sys.executable, "-m", "lodge", "reap", *(f"--{key}={value}" for key, value in options.items())]
        process = subprocess.Popen(command, env=os.environ | {"NO_COLOR": "1"})
        try:
            yield process
        finally:
            process.terminate()
            process.wait()

    def passes(self) -> Passes:
        with urllib.request.urlopen(f"http://{self._metrics}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        return Passes(*(metric(text, f"lodge_reaper_pass_seconds_{each}") for each in ("count", "sum")))

    def wait_for_passes(self) -> None:
        """Wait until the reaper leads and has completed several passes."""

        def has_completed_pass() -> bool:
            try:
                return self.passes().count >= 3
            except OSError:
                return False

        self.wait_until(has_completed_pass, "the reaper has completed its first passes")

    def wait_for_conditions(self, records: int) -> None:
        """Wait until the reaper has written the conditions of all records.

        It writes them once for each record.
        """
        api = CustomObjectsApi(self._connection.api_client)

        def are_written() -> bool:
            found = api.list_namespaced_custom_object(GROUP, API_VERSION, self.namespace, PLURAL)
            return sum(1 for each in found["items"] if each.get("status", {}).get("conditions")) >= records

        self.wait_until(are_written, "the conditions of all records are written", pause_seconds=1.0)

    @staticmethod
    def wait_until(condition: Callable[[], bool], what: str, pause_seconds: float = 0.02) -> float:
        """Wait for a condition, and return the monotonic time at which it was true."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise SystemExit(f"Not within {DEADLINE_SECONDS} s: {what}")
            time.sleep(pause_seconds)
        return time.monotonic()


def create_table(name: str) -> TemporaryTable:
    table = TableUuid(str(uuid.uuid4()))
    return TemporaryTable(name, table, TableState.READY, "parquet", (table,), rows=1000, size_bytes=1024)


def requests_per_second(cluster: Cluster) -> float:
    before = requests(cluster)
    time.sleep(STEADY_SECONDS)
    return (requests(cluster) - before) / STEADY_SECONDS


def requests(cluster: Cluster) -> float:
    """Return the number of requests that the API server has answered.

    A watch counts at its start.
    """
    path = "/metrics"
    response = cluster.client.call_api(*cluster.client.param_serialize("GET", path, auth_settings=["BearerToken"]))
    text = response.response.data.decode()
    return sum(float(value) for value in re.findall(r"^apiserver_request_total\{.*\} (\S+)$", text, re.MULTILINE))


def pages(records: int) -> int:
    """Return the number of requests for one list of so many records."""
    return -(-records // PAGE_OBJECTS)


def metric(text: str, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def memory_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)[1]) * 1024  # type: ignore[index]


if __name__ == "__main__":
    main()
