"""The random parameters of a simulated world."""

import random
from dataclasses import dataclass, replace

from reaper.mass_expiry import MassExpiryRule
from tests.simulation.reapers import ReaperSettings
from tests.simulation.situations import Situation

LEASE_SECONDS = 9.0
_FAULT_SECONDS = 36.0
_NEVER = 1e9


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a world.

    Attributes:
        gateways: The number of gateway replicas.
        reapers: The number of reapers that run at the same time.
        clients: The number of clients.
        grace_seconds: The reaper's grace period.
        idle_seconds: The idle timeout of sessions.
        longest_job_seconds: The longest duration of a statement at the backend.
        stores_records_as_files: Whether records are files. Then a list is not atomic, and fails with the storage.
        runs_operator: Whether reapers run as ``lodge reap`` does, instead of alone in one thread each.
        mass_expiry_minimum: How many sessions must look dead at once to need a confirmation.
        situation: The situation that the other parameters favour.
        fault_seconds: How long faults happen.
        stop_interval_seconds: The longest time between two stops of a gateway.
        stop_seconds: How long a stopping gateway may take.
        principal_tables: The quota of temporary tables of a principal; None for no quota.
    """

    gateways: int
    reapers: int
    clients: int
    grace_seconds: float
    idle_seconds: float
    longest_job_seconds: float
    stores_records_as_files: bool
    runs_operator: bool
    mass_expiry_minimum: int
    situation: Situation = Situation.ANY
    fault_seconds: float = _FAULT_SECONDS
    stop_interval_seconds: float = 60.0
    stop_seconds: tuple[float, ...] = (2.0, 10.0)
    principal_tables: int | None = None

    @property
    def longest_fault_seconds(self) -> float:
        """The longest duration of a fault; every lease and grace period ends in it."""
        return self.grace_seconds + 2 * LEASE_SECONDS

    def reaper_settings(self) -> ReaperSettings:
        """Return the settings of the reapers."""
        has_all = self.runs_operator and not self.stores_records_as_files
        return ReaperSettings(
            lease_seconds=LEASE_SECONDS,
            grace_seconds=self.grace_seconds,
            mass_expiry=MassExpiryRule(0.5, self.mass_expiry_minimum, self.grace_seconds),
            runs_operator=self.runs_operator,
            uses_cache=has_all,
            uses_election=has_all,
        )

    @classmethod
    def choose(cls, random: random.Random, situation: Situation) -> "Parameters":
        chosen = cls(
            gateways=random.choice((1, 2, 2, 3)),
            reapers=random.choice((1, 1, 2)),
            clients=random.choice((1, 2, 3)),
            grace_seconds=random.choice((2.0, 6.0, 12.0)),
            idle_seconds=random.choice((8.0, 30.0)),
            longest_job_seconds=random.choice((1.0, 8.0, 16.0)),
            stores_records_as_files=random.random() < 0.3,
            runs_operator=random.random() < 0.6,
            mass_expiry_minimum=random.choice((3, 100)),
            situation=situation,
        )
        match situation:
            case Situation.STOPS:
                chosen = replace(
                    chosen,
                    gateways=random.choice((2, 3)),
                    longest_job_seconds=16.0,
                    stop_interval_seconds=10.0,
                    stop_seconds=(2.0,),
                )
            case Situation.QUOTA:
                chosen = replace(chosen, gateways=2, clients=3, longest_job_seconds=1.0, principal_tables=2)
            case Situation.SILENCE:
                chosen = replace(
                    chosen,
                    gateways=3,
                    clients=3,
                    reapers=1,
                    grace_seconds=30.0,
                    idle_seconds=30.0,
                    stores_records_as_files=False,
                    fault_seconds=1.5 * _FAULT_SECONDS,
                    stop_interval_seconds=20.0,
                    stop_seconds=(2.0,),
                )
            case Situation.READ_ONLY:
                chosen = replace(chosen, idle_seconds=30.0, mass_expiry_minimum=100)
            case Situation.HANGS:
                chosen = replace(
                    chosen,
                    grace_seconds=12.0,
                    idle_seconds=30.0,
                    mass_expiry_minimum=100,
                    fault_seconds=3 * _FAULT_SECONDS,
                )
            case Situation.WATCHED:
                chosen = replace(chosen, clients=3, grace_seconds=12.0, idle_seconds=30.0, stop_interval_seconds=_NEVER)
            case Situation.RETURNS:
                chosen = replace(
                    chosen, gateways=random.choice((2, 3)), clients=3, grace_seconds=12.0, idle_seconds=30.0
                )
        return chosen
