"""The rules of leader election: no I/O, no clock.

One of several reapers acts. The rules are those of Kubernetes' own components, but each candidate measures time with
its own monotonic clock [kubernetes-leases]. ``kubernetes.leaderelection`` of the Python client does not fit:

- It compares wall clocks, so a clock that is set forward takes the lease from a live leader.
- It has no time limit for requests, so a leader whose requests hang continues to lead.
- It never gives the lease back.
- A refused connection ends it.

Guarantees:

1. A candidate takes the lease only if the lease has no holder, or has not changed for its whole duration on the
   candidate's clock.
2. A leader leads only while the start of its last successful renewal is younger than ``LEADING_SHARE`` of the duration.
   So it stops before another candidate can take over, and has the rest of the duration to finish its current step.
3. Other changes of the Lease object are not a sign of life.
"""

from dataclasses import dataclass

LEADING_SHARE = 2 / 3
RETRY_SHARE = 1 / 6


@dataclass(frozen=True, slots=True)
class LeaseState:
    """The content of the lease.

    Attributes:
        holder: The identity of the leader; empty if there is none.
        mark: A text that differs after each renewal.
        duration_seconds: The lease duration of the leader.
    """

    holder: str
    mark: str
    duration_seconds: float


class Candidacy:
    """One candidate's view of the lease.

    Args:
        identity: The unique name of the candidate.
        duration_seconds: The lease duration of the candidate.
    """

    def __init__(self, identity: str, duration_seconds: float) -> None:
        self.identity = identity
        self.duration_seconds = duration_seconds
        self._seen: LeaseState | None = None
        self._changed_seconds = float("inf")
        self._leads_until_seconds = float("-inf")

    @property
    def retry_seconds(self) -> float:
        """Return the time between two renewals, or two attempts to take the lease."""
        return self.duration_seconds * RETRY_SHARE

    def observe(self, lease: LeaseState, now_seconds: float) -> None:
        """Observe the content of the lease, which was read at this time or before."""
        if self._seen is None or (lease.holder, lease.mark) != (self._seen.holder, self._seen.mark):
            self._changed_seconds = now_seconds
        self._seen = lease

    def may_take(self, now_seconds: float) -> bool:
        """Return whether this candidate may take or renew the lease that it observed last."""
        seen = self._seen
        if seen is None or seen.holder in {"", self.identity}:
            return True
        return now_seconds - self._changed_seconds >= max(seen.duration_seconds, self.duration_seconds)

    def record_renewal(self, begun_seconds: float) -> None:
        """Record a successful request to take or renew the lease, and when it began."""
        self._leads_until_seconds = begun_seconds + self.duration_seconds * LEADING_SHARE

    def resign(self) -> None:
        """Stop leading at once."""
        self._leads_until_seconds = float("-inf")

    def leads(self, now_seconds: float) -> bool:
        """Return whether this candidate leads at this time."""
        return now_seconds < self._leads_until_seconds
