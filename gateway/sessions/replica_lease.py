"""The lease of this replica, and the fencing that follows from it.

Guarantees:

1. A replica that was paused past its lease is fenced before anyone else can have called the lease lost and acted.
2. Each lapse begins a new epoch of the lease. The epoch changes before the lease is valid again, so a session that
   the replica joined in an earlier epoch stays fenced until the replica joins it again.

Source: [architecture "Session records, leases and the reaper"].
"""

import time

from gateway.errors import fenced
from gateway.sessions.session import Session
from gateway.storage import Storage
from workspace.identifiers import ReplicaId
from workspace.leases import OwnLease


class ReplicaLease:
    """The lease of this replica.

    Args:
        replica: The name of this replica.
        storage: Contains the leases of all replicas.
        duration_seconds: See ``GatewayConfig.lease_duration_seconds``.

    Attributes:
        epoch: The number of times that the lease became valid after it was not.
    """

    def __init__(self, replica: ReplicaId, storage: Storage, duration_seconds: float) -> None:
        self._replica = replica
        self._storage = storage
        self._lease = OwnLease(duration_seconds)
        self.epoch = 0

    def is_valid(self) -> bool:
        """Return whether no other process can have called the lease lost."""
        return self._lease.is_valid(time.monotonic())

    def require_valid(self) -> None:
        """Check that the lease is valid.

        Raises:
            GatewayError: The lease has lapsed.
        """
        if not self.is_valid():
            raise fenced()

    def require_joined(self, session: Session) -> None:
        """Check that this replica may change the record and the location of a session.

        Raises:
            GatewayError: The lease has lapsed, or the replica has not joined the session again since a lapse.
        """
        self.require_valid()
        if session.lease_epoch != self.epoch:
            raise fenced()

    async def renew(self) -> None:
        """Renew the lease, and begin a new epoch if it had lapsed.

        Raises:
            GatewayError: The storage of leases cannot answer.
        """
        started_seconds = time.monotonic()
        await self._storage.run_lease(self._storage.leases.renew, self._replica)
        if not self.is_valid():
            self.epoch += 1
        self._lease.record_renewal(started_seconds)

    async def delete(self) -> None:
        """Remove the lease when the replica stops.

        Raises:
            GatewayError: The storage of leases cannot answer.
        """
        await self._storage.run_lease(self._storage.leases.delete, self._replica)
