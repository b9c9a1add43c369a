"""The interface of an authentication method."""

from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol

from gateway.authentication.credentials import Credentials
from gateway.authentication.identity import Identity


class CredentialKind(Enum):
    """The kind of credentials that a method reads."""

    BEARER_TOKEN = auto()
    CERTIFICATE = auto()


class DeniedError(Exception):
    """Raised if credentials belong to a method, and the method refuses them.

    The decision is final. No other method is tried.

    Attributes:
        reason: Why the credentials are refused, for the log. It never contains a token.
        is_expired: Whether the credentials were valid and have expired. The client is told so.
    """

    def __init__(self, reason: str, *, is_expired: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_expired = is_expired


class UndecidedError(Exception):
    """Raised if a method cannot decide at present, for example because a server does not respond.

    Other methods may still accept the credentials. If none does, the client receives the gRPC status UNAVAILABLE and
    tries again.

    Attributes:
        reason: Why the method cannot decide, for the log. It never contains a token.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Method(Protocol):
    """An authentication method."""

    @property
    def kind(self) -> str:
        """The kind of the method in the settings, such as ``jwt``."""

    @property
    def reads(self) -> CredentialKind:
        """The kind of credentials that the method reads."""

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        """Return the identity that the credentials prove, or None if they are not for this method.

        Raises:
            DeniedError: If the credentials are for this method, and are not valid.
            UndecidedError: If the method cannot decide at present.
        """

    async def watch(self, on_change: Callable[[], None]) -> None:
        """Watch the sources of the method until the task is cancelled.

        Args:
            on_change: A function to call after each change that may invalidate accepted credentials.
        """
