"""Leases, which are the heartbeats of gateway replicas, and their observation.

A replica that dies cannot report its death. The other processes must conclude it from the replica's silence.
Therefore, each replica regularly renews one lease for all its sessions. An observer never compares the wall clocks of
two machines. Instead, it watches whether the lease's renewal mark changes, and measures the time without a change on
its own monotonic clock.

A replica that ends in an orderly way does not need to be observed for so long. It stops its lease with
:meth:`Leases.stop`, and its lease counts as lost at once. The same holds for a replica whose process has ended and was
replaced.

Guarantees:

1. :class:`LeaseObserver` considers a lease lost only if the lease was stopped, or was unchanged or absent for the whole
   lease duration on the observer's clock. The first observation never finds a lost lease, except a stopped one.
2. :class:`OwnLease` is valid only if the last successful renewal *began* less than the lease duration ago and the lease
   was not stopped. Therefore, a replica that was paused or stopped notices this before any other process can consider
   its lease lost and act.
3. A stopped lease stays stopped until it is deleted. A renewal that arrives later does not change it, even if the
   renewal began before the stop.

Source: [architecture "Session records, leases and the reaper"].
"""

from collections.abc import Mapping, Set
from typing import NewType, Protocol

from workspace.identifiers import ReplicaId
from workspace.record_store import RecordsUnavailableError

RenewalMark = NewType("RenewalMark", str)
"""An opaque value that changes each time a lease is renewed."""

UNRESPONSIVE_LEASES = 2.0
"""After how many lease durations a replica whose event loop stalls no longer renews its lease."""

STOPPED = RenewalMark("stopped")
"""The renewal mark of a stopped lease. No renewal generates this value."""


class LeaseStoppedError(RecordsUnavailableError):
    """Raised if a renewal finds that the lease has been stopped.

    The replica must not act any more. It handles the error like a storage that does not answer: its lease lapses.
    """

    def __init__(self, replica: ReplicaId) -> None:
        super().__init__(
            None,
            f"The lease of the replica [{replica}] has been stopped, so it cannot be renewed. Restart the replica.",
        )
        self.replica = replica


class Leases(Protocol):
    """The storage of leases.

    All methods block. They raise RecordsUnavailableError if the storage cannot answer.
    """

    def renew(self, replica: ReplicaId) -> None:
        """Create the lease of a replica or, if it exists, change its renewal mark.

        Raises:
            LeaseStoppedError: If the lease has been stopped.
        """
        ...

    def stop(self, replica: ReplicaId) -> None:
        """Mark the lease of a replica that has ended and will never act again."""
        ...

    def list(self) -> Mapping[ReplicaId, RenewalMark]:
        """Return the renewal mark of each lease, by replica. It is ``STOPPED`` for a stopped lease."""
        ...

    def delete(self, replica: ReplicaId) -> None:
        """Delete the lease of a replica, if it exists."""
        ...

    def check_writable(self) -> None:
        """Write what a living replica must write, so that the silence of replicas means something.

        A process that cannot write itself cannot conclude from missing renewals that a replica is dead.

        Raises:
            RecordsUnavailableError: If a replica could not write now.
        """
        ...


class LeaseObserver:
    """An observer that determines which replicas are lost.

    Args:
        lease_duration_seconds: The time without a renewal after which a lease is considered lost.
    """

    def __init__(self, lease_duration_seconds: float) -> None:
        self._lease_duration_seconds = lease_duration_seconds
        self._last_change: dict[ReplicaId, tuple[RenewalMark | None, float]] = {}

    def observe(self, leases: Mapping[ReplicaId, RenewalMark], named: Set[ReplicaId], now_seconds: float) -> None:
        """Record the state of all leases at one moment.

        Args:
            leases: The renewal marks of all leases.
            named: The replicas that are holders or writers in a session record. These replicas are also observed if
                they have no lease.
            now_seconds: The monotonic time after the leases were listed. A pause of this process before that moment
                does not count as silence of a replica.
        """
        observed = set(leases) | set(named)
        for replica in self._last_change.keys() - observed:
            del self._last_change[replica]
        for replica in observed:
            mark = leases.get(replica)
            known = self._last_change.get(replica)
            if known is not None and known[0] == STOPPED and mark is None:
                continue  # a stopped replica stays lost after its lease has been deleted
            if known is None or known[0] != mark:
                self._last_change[replica] = (mark, now_seconds)

    def lost(self, now_seconds: float) -> frozenset[ReplicaId]:
        """Return the replicas whose leases were stopped or have not changed for the lease duration."""
        return frozenset(
            replica
            for replica, (mark, changed_seconds) in self._last_change.items()
            if mark == STOPPED or now_seconds - changed_seconds >= self._lease_duration_seconds
        )

    def changes(self) -> Mapping[ReplicaId, float]:
        """Return the time at which the lease of each replica was last seen to change, or first seen."""
        return {replica: changed_seconds for replica, (_, changed_seconds) in self._last_change.items()}

    def due_seconds(self, now_seconds: float) -> float:
        """Return the time at which the next lease is lost if it is not renewed.

        The result is infinite if all observed leases are already lost.
        """
        ends = (
            changed + self._lease_duration_seconds for mark, changed in self._last_change.values() if mark != STOPPED
        )
        return min((end for end in ends if end > now_seconds), default=float("inf"))


class OwnLease:
    """A replica's own lease, which determines whether the replica may still act.

    Args:
        lease_duration_seconds: The lease duration, which must be the same for all replicas and reapers of the
            workspace.

    Attributes:
        is_stopped: Whether the lease was stopped.
    """

    def __init__(self, lease_duration_seconds: float) -> None:
        self._lease_duration_seconds = lease_duration_seconds
        self._valid_until_seconds = float("-inf")
        self.is_stopped = False

    def stop(self) -> None:
        """Make the lease invalid for ever."""
        self.is_stopped = True

    def record_renewal(self, begun_seconds: float) -> None:
        """Record a successful renewal of the lease.

        Args:
            begun_seconds: The monotonic time at which the renewal began.
        """
        self._valid_until_seconds = begun_seconds + self._lease_duration_seconds

    def is_valid(self, now_seconds: float) -> bool:
        """Return whether the replica may act at the given monotonic time."""
        return not self.is_stopped and now_seconds < self._valid_until_seconds
