"""The invariants of adoptions, which gateways decide without messages between them.

A state is checked each second. A fault that affects a gateway exempts it, because it may then adopt late.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from gateway.sessions.adopter import Adopter, _Listing
from gateway.sessions.adoption import MOST_ADOPTERS, Adoption, is_adoptable, rank
from tests.simulation.api_server import ApiServer
from tests.simulation.gateways import GatewayProcess
from tests.simulation.invariants import InvariantChecker
from tests.simulation.schedule import Process
from workspace.identifiers import ReplicaId, SessionUuid
from workspace.record_store import StoredRecord, Version

_LONGEST_ADOPTION_SECONDS = 25.0
"""Covers two gateways that are silent one after the other, and slow responses."""


class AdoptionChecker:
    """Checks the invariants 13 to 15 of :mod:`tests.simulation.invariants`.

    Args:
        checker: Receives violations.
        api: Stores the records and the leases.
        gateways: Returns the running gateways.
    """

    def __init__(
        self, checker: InvariantChecker, api: ApiServer, gateways: Callable[[], Sequence[GatewayProcess]]
    ) -> None:
        self._checker = checker
        self._api = api
        self._gateways = gateways
        self._affected_until: dict[Process, float] = {}
        self._waiting_since: Mapping[tuple[ReplicaId, SessionUuid], float] = {}
        self._first_lists: dict[tuple[ReplicaId, ReplicaId], float] = {}
        self._stopped: frozenset[ReplicaId] = frozenset()
        self._living: dict[ReplicaId, Set[ReplicaId]] = {}

    def on_fault(self, process: Process, until_seconds: float) -> None:
        """Note that a fault affects a process, at most until a time."""
        self._affected_until[process] = until_seconds

    def check(self, now: float) -> None:
        """Check the state of all adoptions and leases."""
        stopped = frozenset(replica for replica, mark in self._api.lease_marks.items() if mark is None)
        for replica in sorted((self._stopped & self._api.lease_marks.keys()) - stopped):
            self._checker.report_violation(15, f"the lease of {replica} is renewed although it was stopped")
        self._stopped = stopped
        waiting: dict[tuple[ReplicaId, SessionUuid], float] = {}
        for gateway in self._gateways():
            if not self._can_adopt(gateway, now):
                continue
            lost, living = gateway.peers.lost, frozenset(gateway.peers.living)
            # A gateway that starts may be chosen, and be silent. Then, the time begins again.
            has_started = bool(living - self._living.get(gateway.replica, living))
            self._living[gateway.replica] = living
            for found in self._api.records.values():
                stored = StoredRecord(found.spec, Version(""), found.is_deleting)
                if found.spec.holders and is_adoptable(stored, lost):
                    key = gateway.replica, found.spec.session_uuid
                    waiting[key] = now if has_started else self._waiting_since.get(key, now)
                    if now - waiting[key] > _LONGEST_ADOPTION_SECONDS:
                        text = f"{gateway.process} has known for {now - waiting[key]:.0f} s that {key[1]} is lost"
                        self._checker.report_violation(14, text)
        self._waiting_since = waiting

    def on_list(self, gateway: GatewayProcess, lost: ReplicaId) -> float:
        """Note that a gateway lists the sessions of a lost replica. Return how long ago it did so first."""
        now = gateway.process.monotonic()
        return now - self._first_lists.setdefault((gateway.replica, lost), now)

    def check_choice(self, gateway: GatewayProcess, lost: ReplicaId, chosen: Sequence[StoredRecord]) -> None:
        """Check which sessions of a lost gateway another is about to adopt while no gateway can be silent."""
        adopters = rank(lost, gateway.peers.living)[:MOST_ADOPTERS]
        for stored in chosen:
            best = rank(stored.record.name, adopters)[0]
            if best != gateway.replica:
                text = f"{gateway.process} adopts {stored.record.session_uuid} before {best} was silent"
                self._checker.report_violation(13, text)

    def _can_adopt(self, gateway: GatewayProcess, now: float) -> bool:
        process = gateway.process
        is_reached = max([0.0, *process.cut_off_until.values()]) <= now
        is_running = (
            max(process.paused_until, process.loop_stalled_until, self._affected_until.get(process, 0.0)) <= now
        )
        return gateway.is_serving and is_reached and is_running and gateway.gateway._is_serving


class CheckedAdopter(Adopter):
    """An adopter whose choices are checked.

    Args:
        checker: Checks them.
        gateway: The gateway that adopts.
        arguments: The arguments of :class:`~gateway.sessions.adopter.Adopter`.
        options: Its keyword arguments.
    """

    def __init__(self, checker: AdoptionChecker, gateway: GatewayProcess, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._checker = checker
        self._gateway = gateway

    def _list(self, lost: ReplicaId, adoption: Adoption) -> _Listing:
        living = self._peers.living
        waited_seconds = self._checker.on_list(self._gateway, lost)
        listing = super()._list(lost, adoption)
        if living == self._peers.living and waited_seconds < self._patience_seconds:
            self._checker.check_choice(self._gateway, lost, listing.chosen)
        return listing
