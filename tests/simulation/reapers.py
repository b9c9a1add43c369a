"""A reaper as a simulated process.

It runs the real :class:`reaper.reaper.Reaper` in one of two modes:

- As ``lodge reap`` runs it: the real operator with its threads and work queues, the real cache of records, and leader
  election.
- Alone in one thread, pass after pass. This reaches other orders of the same steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from greenlet import GreenletExit

from reaper.cached_records import CachedRecords
from reaper.decisions import Decisions, Snapshot
from reaper.mass_expiry import MassExpiryRule
from reaper.operator import Operator, Pace
from reaper.reaper import Reaper, ReaperDependencies
from reaper.snapshot_reader import Hosts
from tests.reaper.passes import run_pass
from tests.simulation.api_server import ApiServer
from tests.simulation.election import ModelElection
from tests.simulation.locations import ModelLocations
from tests.simulation.network import Network
from tests.simulation.records import ModelLeases, ModelSessionRecords
from tests.simulation.schedule import Process
from workspace.identifiers import SessionUuid
from workspace.records import SessionRecord

_RESYNC_SECONDS = 30.0
_FIRST_LIST_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ReaperSettings:
    """The settings of a reaper.

    Attributes:
        lease_seconds: The lease duration, as for all replicas.
        grace_seconds: The grace period.
        mass_expiry: When a mass expiry needs a confirmation.
        runs_operator: Whether it runs as ``lodge reap`` does.
        uses_cache: Whether it reads records from a cache.
        uses_election: Whether only an elected leader acts.
    """

    lease_seconds: float
    grace_seconds: float
    mass_expiry: MassExpiryRule
    runs_operator: bool
    uses_cache: bool
    uses_election: bool

    @property
    def period_seconds(self) -> float:
        return min(self.lease_seconds, self.grace_seconds + 2) / 2


@dataclass(frozen=True, slots=True)
class ReaperInputs:
    """What a reaper learns from other sources than records, leases and locations.

    Attributes:
        hosts: Returns the state of pods and nodes.
        release: Ends a session at its backend.
        confirmation: Returns the token that an operator confirmed.
    """

    hosts: Callable[[], Hosts]
    release: Callable[[SessionRecord], None]
    confirmation: Callable[[], str | None]


class _ObservedReaper(Reaper):
    """A reaper that reports the sessions that it decides to end because of silence."""

    def __init__(self, on_ends_decided: Callable[[Sequence[SessionUuid]], object], **parts: Any) -> None:
        super().__init__(**parts)
        self._on_ends_decided = on_ends_decided

    def _offer(self, decisions: Decisions, snapshot: Snapshot) -> None:
        self._on_ends_decided([stored.record.session_uuid for stored in decisions.end])
        super()._offer(decisions, snapshot)


class ReaperProcess:
    """A simulated reaper.

    Args:
        process: Its process.
        reaper_settings: Its settings.
        inputs: Its further sources.
        api: Stores the leader's lease and the leases of replicas.
        records: The session records, as this process reaches them.
        locations: The session locations.
        network: Carries its requests.
        on_error: Called with an error that the reaper does not handle.
        on_ends_decided: Called with the sessions that the reaper decides to end because of silence.
    """

    def __init__(
        self,
        process: Process,
        reaper_settings: ReaperSettings,
        inputs: ReaperInputs,
        *,
        api: ApiServer,
        records: ModelSessionRecords,
        locations: ModelLocations,
        network: Network,
        on_error: Callable[[str, BaseException | None], None],
        on_ends_decided: Callable[[Sequence[SessionUuid]], object],
    ) -> None:
        self._process = process
        self._settings = reaper_settings
        self._records = records
        self._on_error = on_error
        self._log: structlog.typing.FilteringBoundLogger = structlog.get_logger()
        self._request_pass: Callable[[], object] = lambda: None
        self._election = ModelElection(
            process, api, network, reaper_settings.lease_seconds, lambda: self._request_pass()
        )
        self._cache = CachedRecords(records, resync_seconds=_RESYNC_SECONDS, monotonic=process.monotonic, log=self._log)
        self._reaper = _ObservedReaper(
            on_ends_decided,
            records=records,
            leases=ModelLeases(process, api, network),
            locations=locations,
            lease_duration_seconds=reaper_settings.lease_seconds,
            grace_period_seconds=reaper_settings.grace_seconds,
            storage_period_seconds=reaper_settings.period_seconds if reaper_settings.runs_operator else 0.0,
            monotonic=process.monotonic,
            log=self._log,
            dependencies=ReaperDependencies(
                read_records=self._cache.read if reaper_settings.uses_cache else None,
                hosts=inputs.hosts,
                release=inputs.release,
                confirmation=inputs.confirmation,
                mass_expiry=reaper_settings.mass_expiry,
                may_act=self._election.leads if reaper_settings.uses_election else lambda: True,
                check_writable=self._election.check_writable if reaper_settings.uses_election else None,
            ),
        )

    def run(self) -> None:
        """Work until the process dies."""
        try:
            if self._settings.uses_election:
                self._process.start(self._election.run)
            if not self._settings.uses_cache:
                self._work()
            with self._cache.watch(lambda: self._request_pass()):
                self._cache.wait_for_first_list(_FIRST_LIST_SECONDS)
                self._work()
        except GreenletExit:
            raise
        except Exception as error:  # noqa: BLE001 - the checker judges every unexpected error
            self._on_error("a reaper", error)

    def _work(self) -> None:
        while not self._settings.runs_operator:
            run_pass(self._reaper)
            self._process.schedule.wait(self._settings.period_seconds)
        pace = Pace(self._settings.period_seconds, removals=1)
        operator = Operator(self._reaper, pace, monotonic=self._process.monotonic, log=self._log)
        self._request_pass = operator.request_pass
        operator.run()
