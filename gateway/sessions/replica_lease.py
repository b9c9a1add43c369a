"""The lease of this replica, which decides whether the replica is fenced.

Guarantees:

1. A replica that was paused for longer than its lease is fenced before any other process can consider the lease lost
   and act on it.
2. Each lapse starts a new lease epoch. The epoch changes before the lease becomes valid again. Therefore a session that
   the replica joined in an earlier epoch stays fenced until the replica joins the session again.
3. After :meth:`ReplicaLease.stop` has begun, the lease is never valid again, even if a renewal was in progress. No
   other renewal begins.

Source: [architecture "Session records, leases and the reaper"].
"""

import time

from gateway.blocking_work.storage import Storage
from gateway.errors import fenced
from gateway.sessions.session import Session
from workspace.identifiers import ReplicaId
from workspace.leases import LeaseStoppedError, OwnLease


class ReplicaLease:
    """The lease of this replica.

    Args:
        replica: The name of this replica.
        storage: The storage of leases.
        duration_seconds: See ``GatewayConfig.lease_duration_seconds``.

    Attributes:
        epoch: The lease epoch: how often the lease has become valid after it was not valid.
        renewals: How often the lease was renewed.
        failed_renewals: How often a renewal failed.
    """

    def __init__(self, replica: ReplicaId, storage: Storage, duration_seconds: float) -> None:
        self._replica = replica
        self._storage = storage
        self._lease = OwnLease(duration_seconds)
        self.epoch = 0
        self.renewals = 0
        self.failed_renewals = 0

    def is_valid(self) -> bool:
        """Return whether the lease is valid.

        While the lease is valid, no other process can consider it lost.
        """
        return self._lease.is_valid(time.monotonic())

    @property
    def is_stopped(self) -> bool:
        """Whether :meth:`stop` was called."""
        return self._lease.is_stopped

    def require_valid(self) -> None:
        """Check that the lease is valid.

        Raises:
            GatewayError: If the lease has lapsed.
        """
        if not self.is_valid():
            raise fenced()

    def has_joined(self, session: Session) -> bool:
        """Return whether this replica may change the record and the location of a session."""
        return self.is_valid() and session.lease_epoch == self.epoch

    def require_joined(self, session: Session) -> None:
        """Check that this replica may change the record and the location of a session.

        Raises:
            GatewayError: If the lease has lapsed, or the replica has not joined the session again since the last lapse.
        """
        self.require_epoch(session.lease_epoch)

    def require_epoch(self, epoch: int) -> None:
        """Check that the lease has not lapsed since an epoch began.

        Raises:
            GatewayError: If the lease has lapsed, even if it was renewed later.
        """
        self.require_valid()
        if epoch != self.epoch:
            raise fenced()

    async def renew(self) -> None:
        """Renew the lease, and start a new epoch if the lease had lapsed.

        Raises:
            GatewayError: If the storage of leases does not respond.
        """
        await self._storage.run_lease(self.renew_now)

    def renew_now(self) -> None:
        """Renew the lease in the calling thread, which blocks. See :meth:`renew`.

        Raises:
            RecordsUnavailableError: If the storage of leases does not respond, or the lease has been stopped.
        """
        if self.is_stopped:
            raise LeaseStoppedError(self._replica)
        started_seconds = time.monotonic()
        try:
            self._storage.leases.renew(self._replica)
        except BaseException:
            self.failed_renewals += 1
            raise
        self.renewals += 1
        if not self.is_valid():
            self.epoch += 1
        self._lease.record_renewal(started_seconds)

    async def stop(self) -> None:
        """Stop the lease because this replica has ended. It is fenced from now on, and other replicas can act at once.

        If the storage of leases does not respond, the other replicas wait until the lease has lapsed.

        Raises:
            GatewayError: If the storage of leases does not respond.
        """
        self._lease.stop()
        await self._storage.run_lease(self._storage.leases.stop, self._replica)

    async def delete(self) -> None:
        """Delete the lease because the replica stops, and no session record names the replica.

        Raises:
            GatewayError: If the storage of leases does not respond.
        """
        await self._storage.run_lease(self._storage.leases.delete, self._replica)
