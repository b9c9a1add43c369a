"""The interface of an authentication method."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from gateway.authentication.credentials import Credentials
from gateway.messages.identity import Identity, problem_with_name
from workspace.identifiers import Principal


class CredentialKind(Enum):
    """The kind of credentials that a method reads."""

    BEARER_TOKEN = b"token"
    CERTIFICATE = b"certificate"


class DeniedError(Exception):
    """Raised if a method refuses credentials.

    Attributes:
        reason: Why the credentials are refused, for the log. It never contains a token.
        is_expired: Whether the credentials were valid and have expired. The client's error then says so.
        is_final: Whether only this method can decide about the credentials, so that no further method is tried.
    """

    def __init__(self, reason: str, *, is_expired: bool = False, is_final: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_expired = is_expired
        self.is_final = is_final


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


@dataclass(frozen=True, slots=True)
class Naming:
    """How a method forms the names of principals and groups.

    The same name from two methods is the same principal. Prefixes keep the names of methods apart.

    Attributes:
        principal_prefix: The beginning of each principal.
        groups_prefix: The beginning of each group.
    """

    principal_prefix: str = ""
    groups_prefix: str = ""

    def identity(self, method: str, principal: str, groups: Iterable[str], expires_at: float | None) -> Identity:
        """Return an identity.

        Raises:
            DeniedError: If the principal or a group is not a valid name.
        """
        name = self.principal_prefix + principal
        problem = problem_with_name(principal) or problem_with_name(name)
        if problem:
            raise DeniedError(f"the name of the principal is not valid: {problem}")
        members = frozenset(self.groups_prefix + group for group in groups)
        for group in members:
            problem = problem_with_name(group)
            if problem:
                raise DeniedError(f"the name of a group is not valid: {problem}")
        return Identity(Principal(name), members, method, expires_at)


class Method(Protocol):
    """An authentication method."""

    @property
    def kind(self) -> str:
        """The kind of the method in the settings, such as ``jwt``."""

    @property
    def reads(self) -> CredentialKind:
        """The kind of credentials that the method reads."""

    @property
    def max_cache_seconds(self) -> float | None:
        """How long an identity may be used without another check. None means the default of the authenticator."""

    @property
    def is_failing(self) -> bool:
        """Whether the method currently works with old data, because it cannot read its source."""

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
