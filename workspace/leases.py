"""Leases: a gateway replica's sign of life, and how others judge it.

Why it exists: a replica that dies says nothing, so its sessions' fate is decided by its silence. A replica renews one
lease for itself, not one per session. An observer never compares wall clocks of two machines: it watches a lease's
renewal mark change, and measures its silence on its own monotonic clock.

Guarantees:

1. :class:`LeaseObserver` calls a lease lost only after it saw the lease unchanged, or absent, for the whole lease
   duration on its own clock; a first look never finds a lease lost.
2. :class:`OwnLease` is valid only while the renewal that was last *begun* and succeeded is younger than the lease
   duration. So a replica that was paused finds out before anyone else could have called its lease lost and acted.

Source: design, "Session records, leases and the reaper".
"""

from collections.abc import Mapping, Set
from typing import NewType, Protocol

from workspace.records import ReplicaId

RenewalMark = NewType("RenewalMark", str)
"""Opaque; differs after each renewal of a lease."""


class Leases(Protocol):
    """The storage of leases. All methods block, and raise RecordsUnavailableError when the storage cannot answer."""

    def renew(self, replica: ReplicaId) -> None:
        """Creates the lease, or changes its renewal mark."""
        ...

    def list(self) -> Mapping[ReplicaId, RenewalMark]: ...

    def delete(self, replica: ReplicaId) -> None:
        """Removes the lease; that it is gone already is no error."""
        ...


class LeaseObserver:
    """Judges which replicas are lost, from looks at the leases at known monotonic times.

    Args:
        lease_duration_seconds: Silence after which a lease is lost.
    """

    def __init__(self, lease_duration_seconds: float) -> None:
        self._lease_duration_seconds = lease_duration_seconds
        self._last_change: dict[ReplicaId, tuple[RenewalMark | None, float]] = {}

    def observe(self, leases: Mapping[ReplicaId, RenewalMark], named: Set[ReplicaId], now_seconds: float) -> None:
        """Takes one look.

        Args:
            leases: All leases, as listed.
            named: Replicas that records name as holders or writers; one without a lease is watched as well.
            now_seconds: The observer's monotonic clock after the list was read; a pause before it is no silence.
        """
        watched = set(leases) | set(named)
        for replica in self._last_change.keys() - watched:
            del self._last_change[replica]
        for replica in watched:
            mark = leases.get(replica)
            known = self._last_change.get(replica)
            if known is None or known[0] != mark:
                self._last_change[replica] = (mark, now_seconds)

    def lost(self, now_seconds: float) -> frozenset[ReplicaId]:
        """The replicas whose lease stood still for the lease duration."""
        return frozenset(
            replica
            for replica, (_, changed_seconds) in self._last_change.items()
            if now_seconds - changed_seconds >= self._lease_duration_seconds
        )

    def due_seconds(self, now_seconds: float) -> float:
        """When the next lease will have stood still for long enough, if it does; infinite if all are lost or none is
        there."""
        ends = (changed + self._lease_duration_seconds for _, changed in self._last_change.values())
        return min((end for end in ends if end > now_seconds), default=float("inf"))


class OwnLease:
    """A replica's own view of its lease: may it still act on what its sessions own?

    Args:
        lease_duration_seconds: As configured for all replicas and reapers of the workspace.
    """

    def __init__(self, lease_duration_seconds: float) -> None:
        self._lease_duration_seconds = lease_duration_seconds
        self._valid_until_seconds = float("-inf")

    def record_renewal(self, begun_seconds: float) -> None:
        """Records a renewal that succeeded, with the monotonic time at which it was begun."""
        self._valid_until_seconds = begun_seconds + self._lease_duration_seconds

    def is_valid(self, now_seconds: float) -> bool:
        return now_seconds < self._valid_until_seconds
