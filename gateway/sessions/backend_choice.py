"""The choice of the backend of a session."""

from gateway.backends.backends import Backend, Backends
from gateway.errors import no_backend, not_impersonated
from gateway.messages.requests import SessionKey
from workspace.identifiers import record_name
from workspace.records import SessionRecord


class BackendChoice:
    """The backends of sessions.

    Args:
        backends: The backends that can run sessions.
        impersonation: See ``GatewayConfig``.
    """

    def __init__(self, backends: Backends, *, impersonation: bool) -> None:
        self._backends = backends
        self._impersonation = impersonation

    def find(self, record: SessionRecord) -> Backend | None:
        """Return the backend that a session record names. None if the principal may not use it."""
        return self._backends.find(record)

    def choose(self, key: SessionKey) -> Backend:
        """Return the backend for a session that may not have a record.

        Raises:
            GatewayError: If the principal has no backend.
        """
        backend = self._backends.choose(record_name(key.principal, key.client_session_id), key.principal)
        if backend is not None:
            return backend
        if self._impersonation:
            raise not_impersonated(
                key.principal, "no backend runs as this user. Ask the operator for one (--principal-backend)"
            )
        raise no_backend()
