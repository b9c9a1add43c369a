"""The other replicas, as this replica sees them by their leases.

Guarantees:

1. A replica is lost only if :class:`workspace.leases.LeaseObserver` considers its lease lost, or if it has stopped.
2. While leases cannot be listed, no further replica becomes lost. Afterwards, each replica has a whole lease duration
   to renew its lease, because it could not renew its lease either.
3. Listing the leases costs one request, regardless of the number of sessions.

Source: [architecture "Session records, leases and the reaper"].
"""

import time
from collections.abc import Set

from gateway.blocking_work.storage import Storage
from workspace.identifiers import ReplicaId
from workspace.leases import STOPPED, LeaseObserver
from workspace.records import NO_REPLICA

_LISTS_PER_LEASE = 3
_SHORTEST_PAUSE_SECONDS = 0.05


class Peers:
    """The living and the lost replicas of the workspace.

    Args:
        replica: The name of this replica.
        storage: The storage of leases.
        lease_duration_seconds: The lease duration of all replicas of the workspace.

    Attributes:
        living: The replicas that are not lost, and this replica.
        lost: The replicas that are lost or have stopped.
    """

    def __init__(self, replica: ReplicaId, storage: Storage, lease_duration_seconds: float) -> None:
        self._replica = replica
        self._storage = storage
        self._lease_duration_seconds = lease_duration_seconds
        self._observer = LeaseObserver(lease_duration_seconds)
        self._seen: set[ReplicaId] = set()
        self.living: frozenset[ReplicaId] = frozenset({replica})
        self.lost: frozenset[ReplicaId] = frozenset()

    async def observe(self) -> None:
        """List the leases once.

        Raises:
            GatewayError: If the storage of leases does not respond.
        """
        begun_seconds = time.monotonic()
        try:
            leases = await self._storage.run_lease(self._storage.leases.list)
        except Exception:
            self._observer = LeaseObserver(self._lease_duration_seconds)
            raise
        self._seen |= leases.keys() - {self._replica}
        self._observer.observe(leases, self._seen, time.monotonic())
        lost = self._observer.lost(begun_seconds) | {each for each, mark in leases.items() if mark == STOPPED}
        self.lost = lost - {self._replica}
        self.living = (frozenset(leases) - lost) | {self._replica}

    def notice(self, replicas: Set[ReplicaId]) -> None:
        """Observe replicas that a session record names, even if they have no lease."""
        self._seen |= replicas - {self._replica, NO_REPLICA}

    def forget(self, replica: ReplicaId) -> None:
        """Stop observing a lost replica that has no lease, because no session record names it."""
        self._seen.discard(replica)

    def pause_seconds(self) -> float:
        """Return how long to wait before the next list of leases.

        The wait ends early if another replica may be lost by then.
        """
        now_seconds = time.monotonic()
        due_seconds = self._observer.due_seconds(now_seconds) - now_seconds
        return max(_SHORTEST_PAUSE_SECONDS, min(self._lease_duration_seconds / _LISTS_PER_LEASE, due_seconds))
