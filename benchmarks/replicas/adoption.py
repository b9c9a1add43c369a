"""How the sessions of a killed or a stopped gateway are adopted by many replicas.

One gateway serves all sessions, and 19 other replicas serve none. Then the gateway is killed or stopped. The API server
and the storage of session records are real. Two of the other replicas run in processes of their own, the rest in few
processes (:mod:`benchmarks.replicas.replica_group`). The backend of the sessions is
:mod:`benchmarks.replicas.idle_backend`.

The benchmark prints the time until the other replicas serve all sessions, the requests for session records, and the
processor time of the API server. It also compares the requests of all replicas in the steady state with few and with
all sessions.

    python -m benchmarks.replicas.adoption [--sessions N] [--gogc N] [kill | stop]
"""

import argparse
import contextlib
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from kubernetes.client import CoordinationV1Api

from benchmarks.pass_through import Gateway, cpu_seconds, run_gateway
from benchmarks.replicas.clusters import start_cluster
from benchmarks.replicas.expiry import LIMITS, run_idle_backend, send_config_requests
from lodge.logs import set_up_logs
from tests.cluster.cluster import Cluster

LEASE_SECONDS = 15.0
PROCESSES = 2
GROUPS = (9, 8)
FEW_SESSIONS = 100
STEADY_SECONDS = 30.0
DEADLINE_SECONDS = 300.0
AIM_SECONDS = {"kill": 15.0, "stop": 10.0}
AIM_REQUESTS = 4
WAYS = {"kill": signal.SIGKILL, "stop": signal.SIGTERM}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", nargs="?", choices=list(WAYS), help="by default, both in turn")
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--gogc", help="the setting of the API server's garbage collector")
    arguments = parser.parse_args()
    set_up_logs("error")
    for way in [arguments.way] if arguments.way else WAYS:
        with start_cluster(gogc=arguments.gogc) as cluster:
            bench_adoption(cluster, arguments.sessions, way)


def bench_adoption(cluster: Cluster, sessions: int, way: str) -> None:
    """Measure the adoption of all sessions of a gateway that is killed or stopped."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory, run_idle_backend() as backend:
        options = {
            **LIMITS,
            "records": "kubernetes",
            "kubeconfig": cluster.kubeconfig,
            "namespace": cluster.namespace("adoption"),
            "lease-duration": f"{LEASE_SECONDS:.0f}s",
            "session-idle-timeout": "12h",
        }
        flags = [f"--{key}={value}" for key, value in options.items()]
        with contextlib.ExitStack() as stack:
            ends = stack.enter_context(run_gateway(backend, Path(directory), *flags))
            groups = [stack.enter_context(_run_group(each, backend, Path(directory), flags)) for each in GROUPS]
            groups += [stack.enter_context(_run_group(1, backend, Path(directory), flags)) for _ in range(PROCESSES)]
            _Run(cluster, str(options["namespace"]), ends, groups, sessions).measure(way)


@dataclass(frozen=True, slots=True)
class _Replica:
    sessions: int
    requests: int


class _Group:
    """A process with replicas."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._stdin, self._stdout = process, process.stdin, process.stdout

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self) -> None:
        assert self._stdout.readline() == "ready\n", "The replicas did not start"

    def replicas(self) -> Sequence[_Replica]:
        print(file=self._stdin, flush=True)
        return [_Replica(**each) for each in json.loads(self._stdout.readline())]


@contextlib.contextmanager
def _run_group(number: int, backend: str, directory: Path, flags: Sequence[str]) -> Iterator[_Group]:
    command = [sys.executable, "-m", "benchmarks.replicas.replica_group", str(number), "--listen=127.0.0.1:0"]
    command += [f"--backend={backend}", "--no-reaper", *flags]
    command += [
        f"--workspace=dfs={(directory / 'dfs').as_uri()}",
        f"--workspace=dfs.tmp={(directory / 'tmp').as_uri()}",
    ]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:  # type: ignore[call-overload] # the overloads
        try:
            yield _Group(process)
        finally:
            process.kill()


class _Run:
    """A gateway that ends, and the replicas that adopt its sessions."""

    def __init__(
        self, cluster: Cluster, namespace: str, ends: Gateway, groups: Sequence[_Group], sessions: int
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._ends = ends
        self._groups = groups
        self._sessions = sessions

    def measure(self, way: str) -> None:
        for group in self._groups:
            group.wait_until_ready()
        self._open(FEW_SESSIONS)
        few = self._steady_rate()
        self._open(self._sessions - FEW_SESSIONS)
        many = self._steady_rate()
        print(
            f"requests of {len(self._replicas()) + 1} replicas in the steady state: {few:.2f}/s with {FEW_SESSIONS} "
            f"sessions, {many:.2f}/s with {self._sessions}: ratio {many / few:.2f} (aim: flat)",
            flush=True,
        )
        lease = self._lease()
        before, replicas = requests(self._cluster), self._replicas()
        processor_seconds = self._processor_seconds()
        begun = time.time()
        self._ends.end(WAYS[way])
        renewed = self._renewal(lease)  # the last before the end
        first = self._wait_for(1)
        last = self._wait_for(self._sessions)
        processor_seconds = [b - a for a, b in zip(processor_seconds, self._processor_seconds(), strict=True)]
        counts = requests(self._cluster) - before
        after = self._replicas()
        since = begun if way == "stop" else renewed + LEASE_SECONDS
        moved = [b.sessions for b in after if b.sessions]
        bystanders = sum(b.requests - a.requests for a, b in zip(replicas, after, strict=True) if not b.sessions)
        verbs = ", ".join(f"{verb} {counts[key]:.0f}" for key in sorted(counts) for verb in [" ".join(key)])
        total = sum(count for (resource, _), count in counts.items() if resource == "connectsessions")
        print(
            f"{way} of a gateway with {self._sessions} sessions, 19 other replicas: the first session adopted "
            f"{first - since:.1f} s, the last {last - since:.1f} s after the "
            f"{'signal' if way == 'stop' else 'end of its lease'} (aim: at most {AIM_SECONDS[way]:.0f} s)\n"
            f"  {total / self._sessions:.2f} requests for session records each (aim: at most {AIM_REQUESTS}); "
            f"{bystanders} by replicas that adopted nothing (aim: 0); adopters: {moved}\n"
            f"  processor time: API server {processor_seconds[0]:.1f} s, etcd {processor_seconds[1]:.1f} s, replicas "
            f"{processor_seconds[2]:.1f} s, of {2 * (last - first):.1f} s on two cores\n  all requests: {verbs}",
            flush=True,
        )

    def _open(self, number: int) -> None:
        send_config_requests(self._ends.target, [str(uuid.uuid4()) for _ in range(number)])

    def _steady_rate(self) -> float:
        """Return the requests per second of all replicas, without those of the cluster itself."""
        before = requests(self._cluster)
        time.sleep(STEADY_SECONDS)
        return sum((requests(self._cluster) - before).values()) / STEADY_SECONDS

    def _replicas(self) -> Sequence[_Replica]:
        return [replica for group in self._groups for replica in group.replicas()]

    def _wait_for(self, sessions: int) -> float:
        """Wait until the other replicas serve this number of sessions, and return the time."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while sum(replica.sessions for replica in self._replicas()) < sessions:
            if time.monotonic() > deadline:
                raise SystemExit(f"Not within {DEADLINE_SECONDS} s: {sessions} sessions are adopted")
            time.sleep(0.1)
        return time.time()

    def _lease(self) -> str:
        """Return the name of the lease of the gateway that ends. It is the oldest."""
        leases = CoordinationV1Api(self._cluster.client).list_namespaced_lease(self._namespace).items
        return str(min(leases, key=lambda lease: lease.metadata.creation_timestamp).metadata.name)

    def _renewal(self, name: str) -> float:
        """Return the time of the last renewal of a lease."""
        lease = CoordinationV1Api(self._cluster.client).read_namespaced_lease(name, self._namespace)
        renewed: datetime = lease.spec.renew_time
        return renewed.timestamp()

    def _processor_seconds(self) -> Sequence[float]:
        """Return the processor time of the API server, of etcd, and of the replicas that continue."""
        api_server, etcd = (process.pid for process in (self._cluster.api_server, self._cluster.etcd))
        return cpu_seconds(api_server), cpu_seconds(etcd), sum(cpu_seconds(group.pid) for group in self._groups)


def requests(cluster: Cluster) -> Counter[tuple[str, str]]:
    """Return the number of requests for session records and leases that the API server has answered."""
    response = cluster.client.call_api(
        *cluster.client.param_serialize("GET", "/metrics", auth_settings=["BearerToken"])
    )
    found: Counter[tuple[str, str]] = Counter()
    for line in response.response.data.decode().splitlines():
        match = re.match(r"apiserver_request_total\{(.*)\} (\S+)$", line)
        if match is not None:
            labels: Mapping[str, str] = dict(re.findall(r'(\w+)="([^"]*)"', match[1]))
            if labels["resource"] in {"connectsessions", "leases"} and labels["verb"] != "WATCH":
                found[labels["resource"], labels["verb"]] += round(float(match[2]))
    return found


if __name__ == "__main__":
    main()
