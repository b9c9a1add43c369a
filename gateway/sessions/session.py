"""A session that this replica serves."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import structlog

from gateway.backends.backends import Backend
from gateway.messages.requests import SessionKey
from workspace.identifiers import SessionUuid, record_name
from workspace.records import SuspectedRequest

NOT_JOINED = -1
"""A lease epoch in which no replica has joined a session."""


class Session:
    """One session that this replica serves.

    Attributes:
        key: The principal and the client session id.
        uuid: The UUID of the session, which is also the name of the session location.
        backend: The backend that runs the statements of the session.
        record_name: The name of the session record.
        lease_epoch: The lease epoch in which the replica last joined the session.
        last_active_seconds: The monotonic time at which the last request of the session ended.
        is_being_released: Whether a call of the client is releasing the session.
        suspects: The requests of the session on which gateways worked when they were lost.
        lock: Held while a statement changes which table a name refers to.
    """

    def __init__(
        self,
        key: SessionKey,
        session_uuid: SessionUuid,
        backend: Backend,
        lease_epoch: int,
        suspects: Sequence[SuspectedRequest] = (),
    ) -> None:
        self.key = key
        self.uuid = session_uuid
        self.backend = backend
        self.record_name = record_name(key.principal, key.client_session_id)
        self.lease_epoch = lease_epoch
        self.last_active_seconds = time.monotonic()
        self.is_being_released = False
        self.suspects = suspects
        self.lock = asyncio.Lock()
        self._requests = 0

    @contextmanager
    def track_request(self) -> Iterator[None]:
        """Count a request as running for the duration of the block."""
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1
            self.last_active_seconds = time.monotonic()

    def is_idle(self, timeout_seconds: float) -> bool:
        """Return whether the session has had no request for the given time."""
        return not self._requests and time.monotonic() - self.last_active_seconds >= timeout_seconds

    def log_context(self) -> AbstractContextManager[None]:
        """Add the session to every log line that the block writes."""
        return structlog.contextvars.bound_contextvars(
            session=self.key.client_session_id, principal=self.key.principal, location=self.uuid
        )
