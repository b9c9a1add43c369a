"""Who leads, decided from what was seen of the lease: no I/O, no clock.

Why it exists: of several reapers one acts. Kubernetes' own components agree by a Lease; the rules here are theirs, but
for time, which each side measures on its own monotonic clock. ``kubernetes.leaderelection`` of the Python client judges
by the wall clock, so that a clock that is set forward takes the lease from a living leader; it has no limit for a
request, so that a leader whose requests hang leads on; it never gives the lease back; and it dies of a refused
connection.

Guarantees:

1. A candidate takes the lease only if it has no holder, or stood still for its whole duration on the candidate's clock.
2. A leader leads only while the renewal that was last *begun* and succeeded is younger than ``LEADING_SHARE`` of the
   duration. So it leaves off before any other can have taken over, with the rest of the time to finish the step that it
   is in.
3. That an object changed otherwise is no sign of life.

Source: client-go, ``tools/leaderelection``.
"""

from dataclasses import dataclass

LEADING_SHARE = 2 / 3
RETRY_SHARE = 1 / 6


@dataclass(frozen=True, slots=True)
class LeaseState:
    """What stands in the lease.

    Attributes:
        holder: Who holds it; empty if nobody does.
        mark: Differs after each renewal.
        duration_seconds: For how long its holder wants it to be left alone.
    """

    holder: str
    mark: str
    duration_seconds: float


class Candidacy:
    """One candidate's view of the lease.

    Args:
        identity: Its name; no other may have it.
        duration_seconds: For how long it wants the lease to be left alone.
    """

    def __init__(self, identity: str, duration_seconds: float) -> None:
        self.identity = identity
        self.duration_seconds = duration_seconds
        self._seen: LeaseState | None = None
        self._changed_seconds = float("inf")
        self._leads_until_seconds = float("-inf")

    @property
    def retry_seconds(self) -> float:
        """How long to wait between two renewals, or two attempts to take the lease."""
        return self.duration_seconds * RETRY_SHARE

    def observe(self, lease: LeaseState, now_seconds: float) -> None:
        """Takes in what the lease says, read not after now."""
        if self._seen is None or (lease.holder, lease.mark) != (self._seen.holder, self._seen.mark):
            self._changed_seconds = now_seconds
        self._seen = lease

    def may_take(self, now_seconds: float) -> bool:
        """Whether the lease, as it was last seen, may be taken or renewed by this candidate."""
        seen = self._seen
        if seen is None or seen.holder in {"", self.identity}:
            return True
        return now_seconds - self._changed_seconds >= max(seen.duration_seconds, self.duration_seconds)

    def record_renewal(self, begun_seconds: float) -> None:
        """The lease was taken or renewed, by a request begun then."""
        self._leads_until_seconds = begun_seconds + self.duration_seconds * LEADING_SHARE

    def resign(self) -> None:
        self._leads_until_seconds = float("-inf")

    def leads(self, now_seconds: float) -> bool:
        return now_seconds < self._leads_until_seconds
