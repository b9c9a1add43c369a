"""One simulated world, made from a seed: processes, services, faults and restarts.

The history of a seed has two phases:

1. Faults: processes crash, pause, lose connections and read stale data. Crashed processes restart.
2. Settling: faults end, and everything that was partitioned, paused or down comes back. Within a bounded time, no
   leftovers may remain.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.config import GatewayConfig, Limits
from tests.simulation.adoptions import AdoptionChecker, CheckedAdopter
from tests.simulation.api_server import ApiServer
from tests.simulation.backend_channels import BackendChannels
from tests.simulation.clients import Client, Workload
from tests.simulation.environment import Environment
from tests.simulation.faults import NO_FAULTS, Fault, choose_fault_plan
from tests.simulation.gateways import GatewayProcess, ModelServer, Stores
from tests.simulation.invariants import InvariantChecker, Violation
from tests.simulation.locations import ModelLocations
from tests.simulation.network import Network
from tests.simulation.observer import Observer
from tests.simulation.parameters import LEASE_SECONDS, Parameters
from tests.simulation.patches import Replacements, install_model
from tests.simulation.reapers import ReaperInputs, ReaperProcess
from tests.simulation.records import ModelLeases, ModelSessionRecords
from tests.simulation.schedule import Process, Schedule
from tests.simulation.situations import Situation, situation_of
from tests.simulation.spark import SparkServer
from tests.simulation.storage import Storage
from tests.simulation.watchers import Watchers
from workspace.identifiers import ReplicaId
from workspace.records import SessionRecord
from workspace.workspaces import Workspace, Workspaces

_SETTLE_SECONDS = 300.0
"""Covers a reaper whose pass was delayed. It may wait four times as long before the next pass."""
_LONGEST_LATE_WRITE_SECONDS = 10.0
_CHECK_INTERVAL_SECONDS = 4.0
_ADOPTION_CHECK_SECONDS = 1.0
_DETACHED_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class History:
    """The result of a seed.

    Attributes:
        seed: The seed.
        violation: The first violated invariant; None if all invariants held.
        steps: The number of events.
        counts: How often each kind of event happened.
    """

    seed: int
    violation: Violation | None
    steps: int
    counts: Counter[str]


def run_seed(seed: int, root: Path, trace: list[str] | None = None) -> History:
    """Run the history of a seed.

    Args:
        seed: Decides every random choice.
        root: The workspace's root, an existing directory. It stays empty.
        trace: Receives one line for each event; None for no trace.

    Returns:
        The result.
    """
    return World(seed, root, trace).run()


class World:
    """The simulation of one seed. :func:`run_seed` describes the arguments."""

    def __init__(self, seed: int, root: Path, trace: list[str] | None = None) -> None:
        self._seed = seed
        self._schedule = schedule = Schedule(seed)
        self._random = schedule.random
        self._parameters = parameters = Parameters.choose(self._random, situation_of(seed))
        self._gateways: list[GatewayProcess] = []
        self._gateway_of: dict[Process, GatewayProcess] = {}
        self._processes: list[Process] = []
        self._restartable: list[Process] = []
        self._faults_are_over = False
        self._checker = checker = InvariantChecker(
            schedule,
            lambda: self._gateways,
            parameters,
        )
        self._observer = observer = Observer(schedule, checker, self._gateway_of.get, trace)
        self._api = ApiServer(
            observer.on_record_change,
            checker.on_lease_change,
            checker.on_lease_list,
            "storage" if parameters.stores_records_as_files else "api server",
        )
        self._storage = Storage(root, observer.on_removal)
        self._network = Network(schedule, self._on_fault, lambda: self._restartable, self._crash)
        self._spark = SparkServer("sc://spark:15002", schedule, self._storage, observer.count)
        self._environment = Environment(
            schedule, self._api, checker, observer, lambda: self._gateways, parameters=parameters
        )
        checker.attach(self._api, self._storage, self._spark.views_of, self._spark.writes_continue)
        self._watchers = Watchers(schedule, lambda: self._gateways, self._start_gateway)
        self._adoptions = AdoptionChecker(checker, self._api, lambda: self._gateways)
        workspace = Workspace("dfs.tmp", root, is_writable=True)
        self._config = GatewayConfig(
            listen="127.0.0.1:15002",
            backends=(self._spark.address,),
            workspaces=Workspaces({workspace.name: workspace}, workspace),
            session_idle_timeout_seconds=parameters.idle_seconds,
            lease_duration_seconds=LEASE_SECONDS,
            detached_timeout_seconds=_DETACHED_SECONDS,
            limits=Limits(principal_tables=parameters.principal_tables),
        )

    def run(self) -> History:
        schedule, parameters = self._schedule, self._parameters
        replacements = Replacements(self._current_server, self._create_channels, self._create_adopter)
        with install_model(schedule, self._checker, replacements), self._close_at_end():
            self._start()
            schedule.run_until(parameters.fault_seconds)
            self._stop_faults()
            self._run_until_settled(
                parameters.fault_seconds + _LONGEST_LATE_WRITE_SECONDS + parameters.longest_job_seconds
            )
        return History(self._seed, self._checker.violation, schedule.steps, self._checker.counts)

    def _start(self) -> None:
        parameters = self._parameters
        self._network.fault_plan = choose_fault_plan(
            self._random, parameters.longest_fault_seconds, parameters.situation
        )
        self._spark.longest_late_write_seconds = _LONGEST_LATE_WRITE_SECONDS
        self._spark.longest_job_seconds = parameters.longest_job_seconds
        for _ in range(parameters.gateways):
            self._start_gateway()
        for _ in range(parameters.reapers):
            self._start_reaper()
        for number in range(parameters.clients):
            self._start_client(number)
        self._environment.start(deletes_records=not parameters.stores_records_as_files)
        self._check_adoptions()
        if parameters.situation is Situation.WATCHED:
            self._watchers.watch()

    def _check_adoptions(self) -> None:
        self._adoptions.check(self._schedule.now)
        self._schedule.after(_ADOPTION_CHECK_SECONDS, self._check_adoptions)

    def _stop_faults(self) -> None:
        """End all faults, and bring back what was down, paused or partitioned."""
        self._observer.trace("the faults are over")
        self._faults_are_over = True
        self._environment.stop_faults()
        self._network.fault_plan = NO_FAULTS
        self._network.down_until.clear()
        self._network.read_only_until.clear()
        self._network.hung_until.clear()
        self._spark.down_until = now = self._schedule.now
        for process in self._processes:
            process.cut_off_until.clear()
            process.resume()
            process.loop_stalled_until = min(process.loop_stalled_until, now)

    def _run_until_settled(self, until: float) -> None:
        """Run until two consecutive checks find no leftovers, or the time limit passes."""
        clean_checks = 0
        while self._checker.violation is None and clean_checks < 2:
            self._schedule.run_until(until)
            leftovers = self._checker.find_leftovers()
            clean_checks = 0 if leftovers else clean_checks + 1
            if leftovers and until >= self._parameters.fault_seconds + _SETTLE_SECONDS:
                self._checker.report_violation(*leftovers[0])
            until += _CHECK_INTERVAL_SECONDS

    @contextmanager
    def _close_at_end(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._checker.is_closed = True
            self._schedule.close(self._processes)
            for gateway in self._gateway_of.values():
                gateway.close()

    def _start_gateway(self, before: ReplicaId | None = None) -> None:
        process = self._create_process("gateway")
        stores = Stores(
            self._create_records(process),
            ModelLeases(process, self._api, self._network),
            self._create_locations(process),
        )
        gateway = GatewayProcess(process, self._config, stores, self._checker.on_error, before)
        self._gateways.append(gateway)
        self._gateway_of[process] = gateway
        self._schedule.at(self._schedule.now, gateway.start, process)

    def _start_reaper(self) -> None:
        process = self._create_process("reaper")
        environment = self._environment
        reaper = ReaperProcess(
            process,
            self._parameters.reaper_settings(),
            ReaperInputs(environment.hosts, self._end_at_backend, environment.confirmation),
            api=self._api,
            records=self._create_records(process),
            locations=self._create_locations(process),
            network=self._network,
            on_error=self._checker.on_error,
            on_ends_decided=self._checker.on_ends_decided,
        )
        process.start(reaper.run)

    def _start_client(self, number: int) -> None:
        process = Process(f"client-{number}", self._schedule, self._random)
        self._processes.append(process)
        workload = Workload(
            statements=self._random.randint(1, 6),
            longest_pause_seconds=self._random.choice((1.0, 5.0, 1.5 * self._parameters.idle_seconds)),
            stays_open=self._random.random() < 0.4,
            threads=self._random.choice((1, 1, 2)),
        )
        client = Client(
            process=process,
            user_id="user" if self._parameters.situation is Situation.QUOTA else f"user-{number}",
            workload=workload,
            gateways=lambda: [gateway for gateway in self._gateways if gateway.is_serving],
            checker=self._checker,
            travel_seconds=self._network.travel_seconds,
            faults_are_over=lambda: self._faults_are_over,
        )
        process.start(client.run, self._random.random() * 5)

    def _create_process(self, kind: str) -> Process:
        """Create a process that the world restarts after its death."""
        process = Process(f"{kind}-{len(self._processes)}", self._schedule, self._random)
        self._processes.append(process)
        self._restartable.append(process)
        process.on_death = lambda: self._restart(process)
        return process

    def _create_records(self, process: Process) -> ModelSessionRecords:
        return ModelSessionRecords(
            process, self._api, self._network, lists_one_by_one=self._parameters.stores_records_as_files
        )

    def _create_locations(self, process: Process) -> ModelLocations:
        return ModelLocations(process, self._storage, self._network, self._observer.on_location_change)

    def _end_at_backend(self, record: SessionRecord) -> None:
        """End a session at its backend on behalf of a reaper, if the backend is up."""
        self._schedule.wait(self._network.travel_seconds())
        if self._spark.down_until <= self._schedule.now:
            self._spark.release(record.principal, record.client_session_id)

    def _on_fault(self, process: Process, fault: Fault, operation: str) -> None:
        self._observer.on_fault(process, fault, operation)
        affected = list(self._gateway_of) if fault in {Fault.OUTAGE, Fault.READ_ONLY, Fault.HANG} else [process]
        for each in affected:
            self._adoptions.on_fault(each, self._schedule.now + 2 * self._network.fault_plan.longest_seconds)

    def _create_adopter(self, *arguments: Any, **options: Any) -> CheckedAdopter:
        return CheckedAdopter(self._adoptions, self._current_gateway(), *arguments, **options)

    def _current_server(self, **_: object) -> ModelServer:
        return self._current_gateway().server

    def _create_channels(self, *_: object, **__: object) -> BackendChannels:
        gateway = self._current_gateway()
        return BackendChannels(gateway.process, gateway.loop, self._network, {self._spark.address: self._spark})

    def _current_gateway(self) -> GatewayProcess:
        """Return the gateway whose code runs."""
        return self._gateway_of[self._schedule.current_process()]

    def _crash(self, process: Process) -> None:
        if not process.is_dead:
            self._observer.trace(f"{process} crashes")
            process.die()

    def _restart(self, process: Process) -> None:
        """Remove a dead process, and start a replacement after a random delay."""
        if self._checker.is_closed:
            return
        self._restartable.remove(process)
        gateway = self._gateway_of.get(process)
        if gateway is not None:
            self._gateways.remove(gateway)
            gateway.close_connections()
            if self._is_watched(gateway):
                self._observer.count("gateway_replaced")
                self._watchers.replace(gateway)
                return
            self._environment.on_gateway_death(gateway)
        start_replacement = self._start_reaper if gateway is None else self._start_gateway
        self._schedule.after(self._random.random() * LEASE_SECONDS, start_replacement)

    def _is_watched(self, gateway: GatewayProcess) -> bool:
        """Return whether a watcher replaces a gateway that ended."""
        is_started = gateway.gateway is not None
        return self._parameters.situation is Situation.WATCHED and is_started and not gateway.is_asked_to_stop
