"""The rules of leader election, without I/O or clock.

If there are several reapers, only one of them acts. The rules are the same as in the components of Kubernetes, but
each candidate measures time with its own monotonic clock [kubernetes-leases]. ``kubernetes.leaderelection`` of the
Python client is not used, for these reasons:

- It compares wall clocks. If a clock is set forward, a candidate takes the lease from a live leader.
- It has no time limit for requests. A leader whose requests hang continues to lead.
- It never releases the lease.
- It ends when a connection is refused.

Guarantees:

1. A candidate takes the lease only if the lease has no holder, or if it has not changed for its whole duration on the
   candidate's clock.
2. A leader leads only while the beginning of its last successful renewal is less than ``LEADING_SHARE`` of the lease
   duration ago. Therefore, it stops before another candidate can take the lease, and can use the rest of the duration
   to finish its current step.
3. Other changes of the Lease object do not count as renewals.
4. A candidate knows whether anyone could write to the API server since it last asked: the lease then changed at least
   every ``WRITING_SHARE`` of its duration. This is less than gateways have to renew their leases.
"""

from dataclasses import dataclass

LEADING_SHARE = 2 / 3
RETRY_SHARE = 1 / 6
WRITING_SHARE = 1 / 2


@dataclass(frozen=True, slots=True)
class LeaseState:
    """The content of the lease.

    Attributes:
        holder: The identity of the leader. Empty if there is no leader.
        mark: A string that changes with each renewal.
        duration_seconds: The lease duration of the leader.
    """

    holder: str
    mark: str
    duration_seconds: float


class Candidacy:
    """A candidate in the leader election.

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
        self._longest_pause_seconds = 0.0

    @property
    def retry_seconds(self) -> float:
        """The time between two renewals, or between two attempts to take the lease."""
        return self.duration_seconds * RETRY_SHARE

    def observe(self, lease: LeaseState, now_seconds: float) -> None:
        """Record the content of the lease.

        Args:
            lease: The content of the lease.
            now_seconds: The monotonic time at which the lease was read, or a later time.
        """
        if self._seen is None or (lease.holder, lease.mark) != (self._seen.holder, self._seen.mark):
            self._longest_pause_seconds = max(self._longest_pause_seconds, now_seconds - self._changed_seconds)
            self._changed_seconds = now_seconds
        self._seen = lease

    def take_evidence_of_writes(self, now_seconds: float) -> bool:
        """Return whether the lease shows that writes were possible all the time since the last call.

        Args:
            now_seconds: The current monotonic time.
        """
        if self._seen is None:  # the lease was never read: the first call begins the measurement
            self._changed_seconds = min(self._changed_seconds, now_seconds)
        pause_seconds = max(self._longest_pause_seconds, now_seconds - self._changed_seconds)
        self._longest_pause_seconds = 0.0
        return pause_seconds <= self.duration_seconds * WRITING_SHARE

    def may_take(self, now_seconds: float) -> bool:
        """Return whether the candidate may take or renew the lease that it read last."""
        seen = self._seen
        if seen is None or seen.holder in {"", self.identity}:
            return True
        return now_seconds - self._changed_seconds >= max(seen.duration_seconds, self.duration_seconds)

    def record_renewal(self, begun_seconds: float) -> None:
        """Record a successful request to take or renew the lease.

        Args:
            begun_seconds: The monotonic time at which the request began.
        """
        self._leads_until_seconds = begun_seconds + self.duration_seconds * LEADING_SHARE

    def resign(self) -> None:
        """Stop leading immediately."""
        self._leads_until_seconds = float("-inf")

    def leads(self, now_seconds: float) -> bool:
        """Return whether the candidate leads at the given monotonic time."""
        return now_seconds < self._leads_until_seconds
