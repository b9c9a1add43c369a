"""The random parameters of a simulated world."""

import random
from dataclasses import dataclass

from reaper.mass_expiry import MassExpiryRule
from tests.simulation.reapers import ReaperSettings

LEASE_SECONDS = 9.0


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
    def choose(cls, random: random.Random) -> "Parameters":
        return cls(
            gateways=random.choice((1, 2, 2, 3)),
            reapers=random.choice((1, 1, 2)),
            clients=random.choice((1, 2, 3)),
            grace_seconds=random.choice((2.0, 6.0, 12.0)),
            idle_seconds=random.choice((8.0, 30.0)),
            longest_job_seconds=random.choice((1.0, 8.0, 16.0)),
            stores_records_as_files=random.random() < 0.3,
            runs_operator=random.random() < 0.6,
            mass_expiry_minimum=random.choice((3, 100)),
        )
