"""A call of a client, and what the gateway knows about it so far."""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gateway.admission.admission import AdmittedCall
from gateway.auditing.audit import Caller
from gateway.backends.backends import SERVICE, Backend
from gateway.backends.forwarding import request_metadata
from gateway.errors import LEASE_LOST, GatewayError, reattach_later
from gateway.messages.error_status import Metadata
from gateway.messages.identity import Identity
from gateway.messages.requests import Request, SessionKey
from gateway.sessions.session import Session


@dataclass(slots=True)
class Progress:
    """What the gateway knows about a call so far, for use when the call fails.

    Attributes:
        client_type: The client type. Empty until the head of the request has been read. If the call fails earlier, the
            user agent of the call.
        identity: The authenticated client. None until the client has been authenticated, or if no method is configured.
        caller: The client, for audit events. None until the head of the request has been read.
        key: The session that the client names. None until the head of the request has been read.
        session: The session. None until it has been found, and for calls that need none.
        backend: The backend. None until the session has been found.
        is_observed: Whether the audit log will contain the outcome of the statement.
    """

    client_type: str = ""
    identity: Identity | None = None
    caller: Caller | None = None
    key: SessionKey | None = None
    session: Session | None = None
    backend: Backend | None = None
    is_observed: bool = False


@dataclass(slots=True)
class Call:
    """A call of a method, with its first request."""

    request: Request
    context: AdmittedCall
    session: Session | None
    backend: Backend
    progress: Progress

    @property
    def key(self) -> SessionKey:
        return self.request.key

    @property
    def method(self) -> str:
        return SERVICE + self.request.method

    @property
    def metadata(self) -> Metadata:
        """The metadata for calls to the backend on behalf of this call."""
        return request_metadata(self.context)

    @property
    def existing(self) -> Session:
        if self.session is None:
            raise LookupError(f"{self.method} was called without a session.")
        return self.session


Handler = Callable[[Call], Coroutine[Any, Any, Any]]


@contextmanager
def lease_may_return() -> Iterator[None]:
    """Let a client that reattaches to a statement try again if this replica is fenced now.

    Raises:
        GatewayError: Instead of the one for a lapsed lease.
    """
    try:
        yield
    except GatewayError as error:
        if error.condition != LEASE_LOST:
            raise
        raise reattach_later() from error
