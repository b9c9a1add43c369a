"""Working clients beside hostile ones, and what must hold.

Claims:

1. The 99th percentile of the workers' latency is at most three times as long as without attackers, in the same run. If
   the machine is too slow even for clients that use Spark directly, it is at most three times as long as theirs.
2. The gateway's memory stays below a limit.
3. No worker gets a wrong answer or an error, so no session and no table is lost.
4. The lease never lapses, and the gateway answers its probes.
"""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import grpc

from tests.cluster.ports import free_port
from tests.cluster.processes import DIES_WITH_PARENT, wait_until
from tests.hostile.attacks import ATTACKS, SERVICE
from tests.running.process_memory import resident_bytes
from tests.running.processor_time import processor_seconds
from tests.watched import gateway_of

REPOSITORY = Path(__file__).parents[2]
MAX_SLOWDOWN = 3.0
MAX_MEMORY_BYTES = 1536 * 1024 * 1024
_MIN_QUIET_SECONDS = 0.05
"""Latencies below this value are noise of the machine, and are not compared."""

_WORKERS_PER_PROCESS = 4
_CHECK_SECONDS = 0.1
_START_SECONDS = 120.0
_LONGEST_SECONDS = 300.0
_LIMITS_METRIC = "lodge_gateway_limits_reached_total"
_LAPSES = ("lease_renewal_stopped", "lease_renewal_failed", "session_lost")
_PATH = {"PYTHONPATH": str(REPOSITORY)}
_LAG_METRIC = "lodge_gateway_event_loop_lag_seconds"
_LAPSED_METRIC = "lodge_gateway_lease_lapses_total"


@dataclass(frozen=True, slots=True)
class Plan:
    """The length of a run.

    Attributes:
        quiet_seconds: How long the workers work without attackers.
        warm_up_seconds: How long the workers work before that. Spark needs about a minute to compile its code.
        hostile_seconds: How long the attackers attack. On a slow machine, they attack until each attack has completed
            a step, a worker has completed a statement, and an attack has reached a limit.
        workers: The number of working clients, a multiple of four.
        direct_workers: The number of clients that use Spark directly, a multiple of four. Nothing protects them, but
            the attackers do not reach them either. They show how much slower the machine is with attackers.
        pause_seconds: The pause of a worker between two statements. With two processors for clients, attackers, Spark
            and the gateway, 16 workers with pauses of one second leave no processor time for an attack.
        attacks: The names of the attacks.
        one_by_one: Whether the attacks happen one after the other, to find the one that does harm.
    """

    quiet_seconds: float
    hostile_seconds: float
    warm_up_seconds: float = 0.0
    workers: int = 16
    direct_workers: int = 4
    pause_seconds: float = 2.0
    attacks: Sequence[str] = tuple(ATTACKS)
    one_by_one: bool = False


@dataclass(slots=True)
class Result:
    """What happened in a run.

    Attributes:
        quiet: The latencies without attackers, in seconds.
        hostile: The latencies with attackers, in seconds.
        direct_quiet: The latencies of clients that use Spark directly, without attackers.
        direct_hostile: The same with attackers.
        errors: The errors of the workers.
        memory_bytes: The largest memory of the gateway.
        failed_probes: How often a probe failed.
        bad_events: Log events of the gateway that must not happen.
        lapses: How often the lease has lapsed.
        limits: How often each limit was reached.
        quiet_checks: The latencies of refused requests without attackers, in seconds. No backend takes part in them.
        hostile_checks: The latencies of refused requests with attackers, in seconds.
        lags: The delays of the gateway's event loop while the attackers attacked.
        quiet_cores: How many processors each group of processes used without attackers.
        cores: The same while the attackers attacked.
    """

    quiet: list[float] = field(default_factory=list)
    hostile: list[float] = field(default_factory=list)
    direct_quiet: list[float] = field(default_factory=list)
    direct_hostile: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    memory_bytes: int = 0
    failed_probes: int = 0
    bad_events: list[str] = field(default_factory=list)
    lapses: float = 0.0
    limits: Mapping[str, float] = field(default_factory=dict)
    quiet_checks: list[float] = field(default_factory=list)
    hostile_checks: list[float] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)
    quiet_cores: Mapping[str, float] = field(default_factory=dict)
    cores: Mapping[str, float] = field(default_factory=dict)

    def problems(self) -> list[str]:
        """Return the claims that do not hold."""
        quiet, hostile, direct = map(percentile, (self.quiet, self.hostile, self.direct_hostile))
        if hostile <= MAX_SLOWDOWN * max(quiet, direct, _MIN_QUIET_SECONDS):
            return self.harm()
        rise = f"The p99 of the workers rose from {quiet:.3f} s to {hostile:.3f} s"
        return [*self.harm(), f"{rise}, and that of direct clients only to {direct:.3f} s."]

    def harm(self) -> list[str]:
        """Return the claims that do not hold, without claim 1, which needs a machine without other work."""
        found = [*self.errors[:10], *self.bad_events[:10]]
        if self.memory_bytes > MAX_MEMORY_BYTES:
            found.append(f"The gateway occupied {self.memory_bytes:,} bytes.")
        if self.failed_probes:
            found.append(f"The gateway failed {self.failed_probes} probes.")
        if self.lapses:
            found.append(f"The lease lapsed {self.lapses:g} times.")
        return found

    def summary(self) -> str:
        limits = ", ".join(f"{name} {count:g}" for name, count in self.limits.items() if count) or "none"
        return "\n".join(
            [
                _latencies_text("quiet", self.quiet),
                _latencies_text("hostile", self.hostile),
                _latencies_text("direct", self.direct_quiet),
                _latencies_text("direct, with attackers", self.direct_hostile),
                f"memory:  at most {self.memory_bytes / 2**20:.0f} MiB",
                f"limits:  {limits}",
                f"door:    p50 {percentile(self.quiet_checks, 0.5):.3f} s, p99 {percentile(self.quiet_checks):.3f} s; "
                f"with attackers p50 {percentile(self.hostile_checks, 0.5):.3f} s, "
                f"p99 {percentile(self.hostile_checks):.3f} s",
                f"lag:     p50 {percentile(self.lags, 0.5):.3f} s, p99 {percentile(self.lags):.3f} s",
                f"cores:   {_cores_text(self.quiet_cores)}; with attackers {_cores_text(self.cores)}",
                f"errors:  {len(self.errors)}",
            ]
        )


def percentile(values: Sequence[float], share: float = 0.99) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)] if values else 0.0


def _latencies_text(name: str, seconds: Sequence[float]) -> str:
    return f"{name}: {len(seconds)} statements, p50 {percentile(seconds, 0.5):.3f} s, p99 {percentile(seconds):.3f} s"


def _cores_text(cores: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {used:.2f}" for name, used in cores.items())


def _busy_seconds() -> float:
    """Return how long all processors of the machine have been busy."""
    ticks = [int(each) for each in Path("/proc/stat").read_text().split(maxsplit=9)[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


class ProcessorMeter:
    """The processor time of groups of processes, from now on.

    Args:
        groups: The processes, by the name of their group.
    """

    def __init__(self, groups: Mapping[str, Sequence["subprocess.Popen[bytes]"]]) -> None:
        self._groups = groups
        self._before = self._read()

    def _read(self) -> dict[str, float]:
        used = {
            name: sum(processor_seconds(process.pid) for process in processes)
            for name, processes in self._groups.items()
        }
        return {"time": time.monotonic(), **used, "Spark and others": _busy_seconds() - sum(used.values())}

    def cores(self) -> Mapping[str, float]:
        """Return how many processors each group has used on average."""
        used = {name: seconds - self._before[name] for name, seconds in self._read().items()}
        elapsed = used.pop("time")
        return {name: seconds / elapsed for name, seconds in used.items()}


class Door:
    """Measures how long the gateway takes for requests that it refuses without a backend.

    Args:
        target: The address ``host:port`` of the gateway.
        token: The token of the workers.
    """

    def __init__(self, target: str, token: str) -> None:
        self._target = target
        self._metadata = [("authorization", f"Bearer {token}")]
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._check, daemon=True)
        self.checks: list[tuple[float, float]] = []

    def _check(self) -> None:
        with grpc.insecure_channel(self._target) as channel:
            execute = channel.unary_stream(SERVICE + "ExecutePlan")
            while not self._stopped.wait(_CHECK_SECONDS):
                begun = time.monotonic()
                with suppress(grpc.RpcError):
                    list(execute(b"", metadata=self._metadata, timeout=30))
                self.checks.append((begun, time.monotonic() - begun))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def between(self, begin: float, end: float) -> list[float]:
        """Return the latencies of requests that began in a period."""
        return [seconds for begun, seconds in self.checks if begin <= begun <= end]


class Gateway:
    """A gateway with its metrics.

    Args:
        backend: The address of Spark, for the workers.
        directory: A directory for its files.

    Attributes:
        backend: The address of Spark.
        workers_token: The token of the workers.
        attackers_token: The token of the attackers, which is valid too.
    """

    def __init__(self, backend: str, directory: Path) -> None:
        self.backend = backend
        self.log = directory / "lodge.log"
        self._metrics_port = free_port()
        root, files = directory / "tmp", directory / "files"
        for path in (root, files):
            path.mkdir()
        command = [*DIES_WITH_PARENT, sys.executable, "-m", "lodge", "serve", "--listen", "127.0.0.1:0"]
        command += ["--backend", backend, "--reaper", "--metrics-listen", f"127.0.0.1:{self._metrics_port}"]
        command += ["--workspace", f"dfs={files.as_uri()}", "--workspace", f"dfs.tmp={root.as_uri()}"]
        self.stub = _start("tests.hostile.stub_backend")
        assert self.stub.stdout is not None
        command += ["--principal-backend", f"mallory=sc://127.0.0.1:{int(self.stub.stdout.readline())}"]
        tokens, config = directory / "tokens.yaml", directory / "lodge.yaml"
        self.workers_token, self.attackers_token = (_create_token(tokens, name) for name in ("worker", "mallory"))
        config.write_text(f"authentication: [{{kind: tokens, file: {tokens}}}]\n")
        command += ["--config", str(config), "--audit-log", str(directory / "audit.log")]
        with self.log.open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, cwd=directory, env=os.environ | _PATH
            )
        assert self.process.stdout is not None
        line = ""
        while not line.startswith("Lodge is ready at "):
            line = self.process.stdout.readline().decode()
            if not line:
                raise RuntimeError(f"lodge serve did not start:\n{self.log.read_text()}")
        self.target = line.split()[-1].removeprefix("sc://")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(60)
        self.stub.kill()
        self.stub.wait()

    def memory_bytes(self) -> int:
        try:
            return resident_bytes(gateway_of(self.process.pid))
        except ProcessLookupError:  # the watcher is about to replace it
            return 0

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics_port}{path}", timeout=30) as answer:
            return str(answer.read().decode())

    def is_alive(self) -> bool:
        try:
            return self.get("/healthz").strip() == "ok"
        except OSError:
            return False

    def metrics(self, name: str) -> Mapping[str, float]:
        """Return the values of a metric, by its label."""
        found = {}
        for line in self.get("/metrics").splitlines():
            if line.startswith((f"{name} ", f"{name}{{")):
                label, _, value = line.removeprefix(name).rpartition(" ")
                found[label.partition('"')[2].partition('"')[0]] = float(value)
        return found

    def events(self, names: Sequence[str]) -> list[str]:
        return [
            line for line in self.log.read_text(errors="replace").splitlines() if any(name in line for name in names)
        ]


def _create_token(file: Path, principal: str) -> str:
    command = [sys.executable, "-m", "lodge", "token", "create", "--file", str(file), "--principal", principal]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | _PATH).stdout.strip()


def _start(module: str, *arguments: str) -> "subprocess.Popen[bytes]":
    """Start a module of these tests. The process ends with this one."""
    return subprocess.Popen(
        [*DIES_WITH_PARENT, sys.executable, "-m", module, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=REPOSITORY,
        env=os.environ | _PATH,
    )


class Workers:
    """The working clients.

    Args:
        address: The address for PySpark.
        count: The number of clients, a multiple of four.
        pause_seconds: The pause of a client between two statements.
        table: What each client creates: ``table`` or ``view``.
    """

    def __init__(self, address: str, count: int, pause_seconds: float, table: str = "table") -> None:
        self.statements: list[tuple[float, float]] = []
        self.errors: list[str] = []
        self._ready = 0
        self._wanted = count
        self.processes = []
        for _ in range(count // _WORKERS_PER_PROCESS):
            process = _start("tests.hostile.workers", address, str(_WORKERS_PER_PROCESS), str(pause_seconds), table)
            self.processes.append(process)
            threading.Thread(target=self._read, args=[process], daemon=True).start()

    def _read(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            values = json.loads(line)
            if "ready" in values:
                self._ready += 1
            else:
                self.statements.append((values["ended"], values["seconds"]))
                if values["error"]:
                    self.errors.append(f"After {values['seconds']:.1f} s: {values['error']}")

    def __enter__(self) -> Self:
        wait_until(lambda: self._ready == self._wanted, "all workers are ready", _START_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def between(self, begin: float, end: float) -> list[float]:
        """Return the latencies of statements that began and ended in a period."""
        return [seconds for ended, seconds in self.statements if begin <= ended - seconds and ended <= end]


class Attackers:
    """Attacks, each in a process of its own. A context manager.

    Args:
        target: The address ``host:port`` of the gateway.
        names: The names of the attacks.
        token: The token of the attackers.
    """

    def __init__(self, target: str, names: Sequence[str], token: str) -> None:
        self._names = frozenset(names)
        self._begun: set[str] = set()
        self.process = _start("tests.hostile.attacks", target, token, *names)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._begun.add(line.decode().strip())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def have_begun(self) -> bool:
        """Return whether each attack has completed a step."""
        return self._begun >= self._names


def _has_enough(gateway: Gateway, working: Workers, attacking: Attackers, start: float) -> bool:
    """Return whether each attack has completed a step, a worker a statement, and an attack has reached a limit."""
    return (
        attacking.have_begun()
        and bool(working.between(start, time.monotonic()))
        and any(gateway.metrics(_LIMITS_METRIC).values())
    )


def play(gateway: Gateway, plan: Plan) -> Result:
    """Play the programme.

    Args:
        gateway: The gateway.
        plan: The length of the run.
    """
    result = Result()
    address = f"sc://{gateway.target}/;authorization=Bearer%20{gateway.workers_token}"
    with (
        Workers(address, plan.workers, plan.pause_seconds) as working,
        Workers(gateway.backend, plan.direct_workers, plan.pause_seconds, "view") as directly,
        Door(gateway.target, gateway.workers_token) as door,
    ):
        time.sleep(plan.warm_up_seconds)
        begin = time.monotonic()
        usual_groups = {"gateway": [gateway.process], "workers": [*working.processes, *directly.processes]}
        meter = ProcessorMeter(usual_groups)
        time.sleep(plan.quiet_seconds)
        middle = time.monotonic()
        result.quiet_cores = meter.cores()
        share = plan.hostile_seconds / (len(plan.attacks) if plan.one_by_one else 1)
        for names in [[name] for name in plan.attacks] if plan.one_by_one else [plan.attacks]:
            start = time.monotonic()
            with Attackers(gateway.target, names, gateway.attackers_token) as attacking:
                more_groups = {"backend of attackers": [gateway.stub], "attackers": [attacking.process]}
                meter = ProcessorMeter(usual_groups | more_groups)
                while (now := time.monotonic()) < start + share or (
                    now < start + _LONGEST_SECONDS
                    and not (plan.one_by_one or _has_enough(gateway, working, attacking, start))
                ):
                    time.sleep(0.5)
                    result.memory_bytes = max(result.memory_bytes, gateway.memory_bytes())
                    result.failed_probes += not gateway.is_alive()
                    result.lags += gateway.metrics(_LAG_METRIC).values()
                result.cores = meter.cores()
            latencies = working.between(start, time.monotonic())
            if plan.one_by_one:
                print(
                    f"{names[0]:<18} p50 {percentile(latencies, 0.5):.3f} s, p99 {percentile(latencies):.3f} s, "
                    f"{len(latencies)} statements, {gateway.memory_bytes() / 2**20:.0f} MiB, "
                    f"{result.cores['gateway']:.2f} cores, "
                    f"{len(working.errors)} errors so far",
                    flush=True,
                )
        end = time.monotonic()
        result.quiet, result.hostile = working.between(begin, middle), working.between(middle, end)
        result.quiet_checks, result.hostile_checks = door.between(begin, middle), door.between(middle, end)
        result.direct_quiet, result.direct_hostile = directly.between(begin, middle), directly.between(middle, end)
        result.errors = [*working.errors, *directly.errors]
        result.lapses = sum(gateway.metrics(_LAPSED_METRIC).values())
        result.limits = gateway.metrics(_LIMITS_METRIC)
        result.bad_events = gateway.events(_LAPSES)
    return result
