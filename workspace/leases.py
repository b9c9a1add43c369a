"""Leases: the heartbeats of gateway replicas, and how observers judge them.

A replica that dies cannot say so; its silence decides the fate of its sessions. A replica renews one lease for all its
sessions. An observer never compares the wall clocks of two machines. It watches the renewal mark of a lease change,
and measures the silence on its own monotonic clock.

Guarantees:

1. :class:`LeaseObserver` calls a lease lost only after the lease was unchanged, or absent, for the whole lease duration
   on the observer's clock. The first observation never finds a lost lease.
2. :class:`OwnLease` is valid only while the last successful renewal *began* less than the lease duration ago. So a
   replica that was paused notices before anyone else can call its lease lost and act.

Source: [architecture "Session records, leases and the reaper"].
"""

from collections.abc import Mapping, Set
from typing import NewType, Protocol

from workspace.identifiers import ReplicaId

RenewalMark = NewType("RenewalMark", str)
"""An opaque value that changes with each renewal of a lease."""


class Leases(Protocol):
    """The storage of leases.

    All methods block. They raise RecordsUnavailableError when the storage cannot answer.
    """

    def renew(self, replica: ReplicaId) -> None:
        """Create the lease of a replica, or change its renewal mark."""
        ...

    def list(self) -> Mapping[ReplicaId, RenewalMark]:
        """Return the renewal marks of all leases."""
        ...

    def delete(self, replica: ReplicaId) -> None:
        """Remove the lease of a replica. A missing lease is no error."""
        ...


class LeaseObserver:
    """An observer that judges which replicas are lost.

    Args:
        lease_duration_seconds: The silence after which a lease is lost.
    """

    def __init__(self, lease_duration_seconds: float) -> None:
        self._lease_duration_seconds = lease_duration_seconds
        self._last_change: dict[ReplicaId, tuple[RenewalMark | None, float]] = {}

    def observe(self, leases: Mapping[ReplicaId, RenewalMark], named: Set[ReplicaId], now_seconds: float) -> None:
        """Record one observation of the leases.

        Args:
            leases: All leases, as listed.
            named: The replicas that records name as holders or writers. A replica without a lease is observed too.
            now_seconds: The monotonic time after the list was read, so a pause before that counts as no silence.
        """
        observed = set(leases) | set(named)
        for replica in self._last_change.keys() - observed:
            del self._last_change[replica]
        for replica in observed:
            mark = leases.get(replica)
            known = self._last_change.get(replica)
            if known is None or known[0] != mark:
                self._last_change[replica] = (mark, now_seconds)

    def lost(self, now_seconds: float) -> frozenset[ReplicaId]:
        """Return the replicas whose lease has not changed for the lease duration."""
        return frozenset(
            replica
            for replica, (_, changed_seconds) in self._last_change.items()
            if now_seconds - changed_seconds >= self._lease_duration_seconds
        )

    def due_seconds(self, now_seconds: float) -> float:
        """Return when the next lease is lost unless it changes.

        Infinite if no lease is left that could be lost.
        """
        ends = (changed + self._lease_duration_seconds for _, changed in self._last_change.values())
        return min((end for end in ends if end > now_seconds), default=float("inf"))


class OwnLease:
    """A replica's view of its own lease: may it still act on its sessions?

    Args:
        lease_duration_seconds: The value that is configured for all replicas and reapers of the workspace.
    """

    def __init__(self, lease_duration_seconds: float) -> None:
        self._lease_duration_seconds = lease_duration_seconds
        self._valid_until_seconds = float("-inf")

    def record_renewal(self, begun_seconds: float) -> None:
        """Record a successful renewal, with the monotonic time at which it began."""
        self._valid_until_seconds = begun_seconds + self._lease_duration_seconds

    def is_valid(self, now_seconds: float) -> bool:
        """Return whether the replica may act at a monotonic time."""
        return now_seconds < self._valid_until_seconds
