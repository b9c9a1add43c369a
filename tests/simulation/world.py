"""A whole world of the model, made from one seed: processes, services and faults, and who starts anew what died.

A seed's history has two parts. While it storms, processes crash, pause, are cut off and see old answers; crashed ones
are started anew. Then it is calm: everything that was partitioned, paused or down comes back, and after a bounded time
all must be in order.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway.config import GatewayConfig
from tests.simulation.api_server import ApiServer
from tests.simulation.clients import Client, Habits
from tests.simulation.environment import Environment
from tests.simulation.faults import CALM, chosen_weather
from tests.simulation.gateways import GatewayProcess, ModelServer, Stores
from tests.simulation.invariants import Ledger, Violation
from tests.simulation.links import Links
from tests.simulation.locations import ModelLocations
from tests.simulation.observer import Observer
from tests.simulation.reapers import Knowledge, ReaperProcess
from tests.simulation.records import ModelLeases, ModelSessionRecords
from tests.simulation.schedule import Process, Schedule
from tests.simulation.setting import LEASE_SECONDS, Setting
from tests.simulation.spark import SparkServer
from tests.simulation.storage import Storage
from tests.simulation.wires import Wires
from tests.simulation.wiring import wired
from workspace.records import SessionRecord
from workspace.workspaces import Workspace, Workspaces

_STORM_SECONDS = 36.0
_CALM_SECONDS = 300.0
"""A reaper whose pass was held up may rest for four times as long."""
_LATEST_WRITE_SECONDS = 10.0
_QUIET_SECONDS = 4.0
_DETACHED_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class History:
    """What came of a seed.

    Attributes:
        seed: Which.
        violation: The first invariant that did not hold; None if all did.
        steps: How many steps it had.
        counts: What happened, by kind.
    """

    seed: int
    violation: Violation | None
    steps: int
    counts: Counter[str]


def run_seed(seed: int, root: Path, trace: list[str] | None = None) -> History:
    """Lets a seed's history happen.

    Args:
        seed: Decides everything.
        root: A directory that is there and stays empty, for the workspace's root.
        trace: Takes a line for each thing that happens; None for no trace.
    """
    return World(seed, root, trace).run()


class World:
    """The model of one seed; for the arguments see :func:`run_seed`."""

    def __init__(self, seed: int, root: Path, trace: list[str] | None = None) -> None:
        self._seed = seed
        self._schedule = schedule = Schedule(seed)
        self._random = schedule.random
        self._setting = setting = Setting.chosen(self._random)
        self._gateways: list[GatewayProcess] = []
        self._gateway_of: dict[Process, GatewayProcess] = {}
        self._everyone: list[Process] = []
        self._mortals: list[Process] = []
        self._is_calm = False
        self._ledger = ledger = Ledger(schedule, lambda: self._gateways)
        self._observer = observer = Observer(schedule, ledger, self._gateway_of.get, trace)
        self._api = ApiServer(observer.record_changed, "storage" if setting.keeps_records_on_storage else "api server")
        self._storage = Storage(root, observer.removed)
        self._wires = Wires(schedule, observer.fault, lambda: self._mortals, self._crash)
        self._spark = SparkServer("sc://spark:15002", schedule, self._storage, observer.count)
        self._environment = Environment(schedule, self._api, ledger, observer, lambda: self._gateways)
        ledger.look_at(self._api, self._storage, self._spark.views_of)
        workspace = Workspace("dfs.tmp", root, is_writable=True)
        self._config = GatewayConfig(
            listen="127.0.0.1:15002",
            backends=(self._spark.address,),
            workspaces=Workspaces({workspace.name: workspace}, workspace),
            session_idle_timeout_seconds=setting.idle_seconds,
            lease_duration_seconds=LEASE_SECONDS,
            backends_end_with_gateway=False,
            detached_timeout_seconds=_DETACHED_SECONDS,
            watch_records=not setting.keeps_records_on_storage,
        )

    def run(self) -> History:
        schedule, setting = self._schedule, self._setting
        with wired(schedule, self._ledger, self._server, self._links), self._closed_in_the_end():
            self._begin()
            schedule.run_until(_STORM_SECONDS)
            self._calm_down()
            self._see_it_end(_STORM_SECONDS + _LATEST_WRITE_SECONDS + setting.longest_job_seconds)
        return History(self._seed, self._ledger.violation, schedule.steps, self._ledger.counts)

    def _begin(self) -> None:
        setting = self._setting
        self._wires.weather = chosen_weather(self._random, setting.longest_fault_seconds)
        self._spark.longest_straggle_seconds = _LATEST_WRITE_SECONDS
        self._spark.longest_job_seconds = setting.longest_job_seconds
        for _ in range(setting.gateways):
            self._start_gateway()
        for _ in range(setting.reapers):
            self._start_reaper()
        for number in range(setting.clients):
            self._start_client(number)
        self._environment.begin(deletes_records=not setting.keeps_records_on_storage)

    def _calm_down(self) -> None:
        """Everything that still can comes back."""
        self._observer.tell("the faults are over")
        self._is_calm = True
        self._environment.calm_down()
        self._wires.weather = CALM
        self._wires.down_until.clear()
        self._spark.down_until = now = self._schedule.now
        for process in self._everyone:
            process.cut_off_until.clear()
            process.paused_until = min(process.paused_until, now)

    def _see_it_end(self, until: float) -> None:
        """Lets time pass until all is in order, and stays so, or the time is over."""
        quiet = 0
        while self._ledger.violation is None and quiet < 2:
            self._schedule.run_until(until)
            left = self._ledger.left_over()
            quiet = 0 if left else quiet + 1
            if left and until >= _STORM_SECONDS + _CALM_SECONDS:
                self._ledger.violate(*left[0])
            until += _QUIET_SECONDS

    @contextmanager
    def _closed_in_the_end(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._ledger.is_closed = True
            self._schedule.close(self._everyone)
            for gateway in self._gateway_of.values():
                gateway.close()

    def _start_gateway(self) -> None:
        process = self._process("gateway")
        stores = Stores(self._records(process), ModelLeases(process, self._api, self._wires), self._locations(process))
        gateway = GatewayProcess(process, self._config, stores, self._ledger.failed)
        self._gateways.append(gateway)
        self._gateway_of[process] = gateway
        self._schedule.at(self._schedule.now, gateway.start, process)

    def _start_reaper(self) -> None:
        process = self._process("reaper")
        environment = self._environment
        reaper = ReaperProcess(
            process,
            self._setting.rules(),
            Knowledge(environment.hosts, self._release, environment.confirmation),
            api=self._api,
            records=self._records(process),
            locations=self._locations(process),
            wires=self._wires,
            on_error=self._ledger.failed,
        )
        process.start(reaper.run)

    def _start_client(self, number: int) -> None:
        process = Process(f"client-{number}", self._schedule, self._random)
        self._everyone.append(process)
        habits = Habits(
            statements=self._random.randint(1, 6),
            pause_seconds=self._random.choice((1.0, 5.0, 1.5 * self._setting.idle_seconds)),
            stays=self._random.random() < 0.4,
            at_once=self._random.choice((1, 1, 2)),
        )
        client = Client(
            process=process,
            user_id=f"user-{number}",
            habits=habits,
            gateways=lambda: [gateway for gateway in self._gateways if gateway.is_serving],
            ledger=self._ledger,
            travel_seconds=self._wires.travel_seconds,
            is_calm=lambda: self._is_calm,
        )
        process.start(client.run, self._random.random() * 5)

    def _process(self, kind: str) -> Process:
        """A process that may die, and is started anew then."""
        process = Process(f"{kind}-{len(self._everyone)}", self._schedule, self._random)
        self._everyone.append(process)
        self._mortals.append(process)
        process.on_death = lambda: self._bury(process)
        return process

    def _records(self, process: Process) -> ModelSessionRecords:
        return ModelSessionRecords(process, self._api, self._wires, is_torn=self._setting.keeps_records_on_storage)

    def _locations(self, process: Process) -> ModelLocations:
        return ModelLocations(process, self._storage, self._wires, self._observer.location_touched)

    def _release(self, record: SessionRecord) -> None:
        """Ends a session at its backend for a reaper, if that can be reached."""
        self._schedule.wait(self._wires.travel_seconds())
        if self._spark.down_until <= self._schedule.now:
            self._spark.release(record.principal, record.client_session_id)

    def _server(self, **_: object) -> ModelServer:
        return self._starting().server

    def _links(self, *_: object, **__: object) -> Links:
        gateway = self._starting()
        return Links(gateway.process, gateway.loop, self._wires, {self._spark.address: self._spark})

    def _starting(self) -> GatewayProcess:
        """The gateway that is just being made."""
        return self._gateway_of[self._schedule.current()]

    def _crash(self, process: Process) -> None:
        if not process.is_dead:
            self._observer.tell(f"{process} crashes")
            process.die()

    def _bury(self, process: Process) -> None:
        """A process has died, or ended; another is started in its place some time later."""
        if self._ledger.is_closed:
            return
        self._mortals.remove(process)
        gateway = self._gateway_of.get(process)
        if gateway is not None:
            self._gateways.remove(gateway)
            gateway.died()
            self._environment.died(gateway)
        again = self._start_reaper if gateway is None else self._start_gateway
        self._schedule.after(self._random.random() * LEASE_SECONDS, again)
