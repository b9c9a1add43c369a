"""Leader election: the real rules of the reaper on a simulated lease."""

from collections.abc import Callable
from contextlib import suppress

from reaper.kubernetes.candidacy import Candidacy, LeaseState
from tests.simulation.api_server import ApiServer, ConflictError
from tests.simulation.network import Network
from tests.simulation.schedule import Process
from workspace.record_store import RecordsUnavailableError


class ModelElection:
    """One candidate.

    Args:
        process: Its process.
        api: Stores the lease.
        network: Carries the requests.
        duration_seconds: How long other candidates wait for a silent leader.
        on_change: Called when the candidate becomes or ceases to be the leader.
    """

    def __init__(
        self,
        process: Process,
        api: ApiServer,
        network: Network,
        duration_seconds: float,
        on_change: Callable[[], object],
    ) -> None:
        self._process = process
        self._api = api
        self._network = network
        self._on_change = on_change
        self._candidacy = Candidacy(process.name, duration_seconds)
        self._led = False

    def leads(self) -> bool:
        return self._candidacy.leads(self._process.monotonic())

    def check_writable(self) -> None:
        if not self._candidacy.take_evidence_of_writes(self._process.monotonic()):
            raise self._api.create_unavailable_error("nobody has written for too long")

    def run(self) -> None:
        """Try to take or renew the lease at regular intervals."""
        while True:
            with suppress(RecordsUnavailableError, ConflictError):
                self._step()
            if self.leads() != self._led:
                self._led = self.leads()
                self._on_change()
            self._process.schedule.wait(self._candidacy.retry_seconds)

    def _step(self) -> None:
        seconds = self._candidacy.duration_seconds
        holder, mark = self._network.call(self._process, self._api, "read leader", lambda: self._api.leader)
        self._candidacy.observe(LeaseState(holder, str(mark), seconds), self._process.monotonic())
        started_seconds = self._process.monotonic()
        if self._candidacy.may_take(started_seconds):
            name = self._candidacy.identity
            new = self._network.call(
                self._process, self._api, "take lead", lambda: self._api.acquire_leadership(name, mark)
            )
            self._candidacy.observe(LeaseState(name, str(new), seconds), self._process.monotonic())
            self._candidacy.record_renewal(started_seconds)
