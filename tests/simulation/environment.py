"""Events around the processes: silent nodes, rollouts, an operator's actions."""

import random
from collections.abc import Callable, Sequence

from reaper.snapshot_reader import Hosts
from tests.simulation.api_server import ApiServer
from tests.simulation.gateways import GatewayProcess
from tests.simulation.invariants import InvariantChecker
from tests.simulation.observer import Observer
from tests.simulation.parameters import Parameters
from tests.simulation.schedule import Action, Schedule
from workspace.identifiers import ReplicaId

_KEPT_TOKENS = 4
_CONFIRMATION_INTERVAL_SECONDS = 4.0


class Environment:
    """Acts at random times until the faults are over.

    Args:
        schedule: Gives the time and the random choices.
        api: Stores the records.
        checker: Learns which sessions an operator ends.
        observer: Receives the events.
        gateways: Returns the running gateways.
        parameters: The parameters of the world.
    """

    def __init__(
        self,
        schedule: Schedule,
        api: ApiServer,
        checker: InvariantChecker,
        observer: Observer,
        gateways: Callable[[], Sequence[GatewayProcess]],
        *,
        parameters: Parameters,
    ) -> None:
        self._schedule = schedule
        self._random: random.Random = schedule.random
        self._api = api
        self._checker = checker
        self._observer = observer
        self._gateways = gateways
        self._parameters = parameters
        self._faults_are_over = False
        self._ended: set[ReplicaId] = set()
        self._doubted: set[ReplicaId] = set()
        self._tokens: list[str] = []
        self._confirmations = 0
        self._confirmation: str | None = None

    def start(self, *, deletes_records: bool) -> None:
        """Schedule the first events.

        Args:
            deletes_records: Whether operators end sessions by deleting their records.
        """
        self._checker.on_mass_expiry = self._request_confirmation
        self._repeat(40, self._doubt_gateway)
        self._repeat(self._parameters.stop_interval_seconds, self._stop_gateway)
        if deletes_records:
            self._repeat(40, self._delete_record)

    def stop_faults(self) -> None:
        """Stop all events except confirmations of mass expiries. All nodes answer again."""
        self._faults_are_over = True
        self._doubted.clear()

    def hosts(self) -> Hosts:
        """Return the replicas that pods show as ended, and those on silent nodes."""
        now = self._schedule.now
        silent = {each.replica for each in self._gateways() if each.is_serving and each.process.paused_until > now}
        return Hosts(ended=frozenset(self._ended), doubted=frozenset(silent | self._doubted))

    def confirmation(self) -> str | None:
        """Return the token with which an operator confirms a mass expiry now."""
        return self._confirmation

    def on_gateway_death(self, gateway: GatewayProcess) -> None:
        """Let Kubernetes report the end of a gateway's pod after some time, or never."""
        if gateway.gateway is not None and self._random.random() < 0.4:
            replica = gateway.replica
            self._schedule.after(self._random.random() * 4, lambda: self._ended.add(replica))

    def _repeat(self, longest_seconds: float, action: Action) -> None:
        def act() -> None:
            if not self._faults_are_over:
                action()
                self._repeat(longest_seconds, action)

        self._schedule.after(self._random.random() * longest_seconds, act)

    def _doubt_gateway(self) -> None:
        """Make a node seem silent. The processes on it may still run."""
        self._doubted.clear()
        gateway = self._pick_gateway()
        if gateway is not None and self._random.random() < 0.5:
            self._doubted.add(gateway.replica)
            self._observer.count("gateway_doubted")

    def _stop_gateway(self) -> None:
        """Stop a gateway, as a Deployment does in a rollout."""
        gateway = self._pick_gateway()
        if gateway is not None:
            self._observer.trace(f"{gateway.process} receives SIGTERM")
            self._checker.count("gateway_stop_requested")
            self._schedule.at(
                self._schedule.now,
                lambda: gateway.stop(self._random.choice(self._parameters.stop_seconds)),
                gateway.process,
            )

    def _delete_record(self) -> None:
        names = list(self._api.records)
        if names:
            name = self._random.choice(names)
            self._observer.trace(f"an operator deletes the record of {self._api.records[name].spec.session_uuid}")
            self._checker.count("operator_deleted_record")
            self._checker.expect_end_of(name, "an operator")
            self._api.delete(name)

    def _request_confirmation(self, token: str) -> None:
        """Let an operator confirm a mass expiry after some time."""
        if not self._tokens:
            self._schedule.after(self._random.random() * 15, self._confirm)
        if token not in self._tokens:
            self._tokens.append(token)

    def _confirm(self) -> None:
        """Confirm the next token; several reapers may wait for different ones."""
        self._confirmation = self._tokens[self._confirmations % len(self._tokens)]
        self._confirmations += 1
        del self._tokens[:-_KEPT_TOKENS]
        self._schedule.after(_CONFIRMATION_INTERVAL_SECONDS, self._confirm)

    def _pick_gateway(self) -> GatewayProcess | None:
        serving = [gateway for gateway in self._gateways() if gateway.is_serving]
        return self._random.choice(serving) if serving else None
