"""The session locations that this replica creates, and the OS users to which they belong."""

import structlog

from gateway.blocking_work.storage import Storage
from gateway.errors import not_impersonated
from gateway.sessions.os_users import find_owner
from gateway.sessions.replica_lease import ReplicaLease
from gateway.sessions.session import Session
from workspace.identifiers import Principal
from workspace.locations import Owner, OwnerError
from workspace.storage_paths import StoragePath

log = structlog.get_logger(__name__)


class OwnedLocations:
    """The session locations that this replica creates.

    Args:
        storage: The session locations.
        lease: The lease of this replica.
        impersonation: See ``GatewayConfig``.
    """

    def __init__(self, storage: Storage, lease: ReplicaLease, *, impersonation: bool) -> None:
        self._storage = storage
        self._lease = lease
        self._impersonation = impersonation

    async def find_owner(self, principal: Principal) -> Owner | None:
        """Return the OS user of a principal. None without impersonation.

        Raises:
            GatewayError: If the principal has no OS user.
        """
        return await self._storage.read_users(find_owner, principal) if self._impersonation else None

    async def create(self, session: Session) -> StoragePath:
        """Create the session location if it does not exist, and return its path.

        Raises:
            GatewayError: If the lease has lapsed, or the existing location belongs to another OS user.
            OSError: If the storage of session locations fails.
        """
        owner = await self.find_owner(session.key.principal)

        def create() -> StoragePath:
            self._lease.require_joined(session)  # after the wait for a thread, in which the lease may have lapsed
            return self._storage.locations.create(session.uuid, owner)

        try:
            return await self._storage.run_location(create)
        except OwnerError as error:
            log.error("location_of_another_owner", location=session.uuid, reason=str(error))
            raise not_impersonated(
                session.key.principal, "the session location belongs to another OS user. Start a new session"
            ) from error
