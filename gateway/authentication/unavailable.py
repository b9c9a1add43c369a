"""A method in place of one that cannot be opened when a gateway is replaced.

A gateway that does not start would lose the sessions of all principals. So it starts, and refuses logins of this method
with an error after which clients try again.
"""

import asyncio
from collections.abc import Callable

from gateway.authentication.credentials import Credentials
from gateway.authentication.method import CredentialKind, UndecidedError
from gateway.messages.identity import Identity


class UnavailableMethod:
    """A method that cannot decide about any credentials.

    Args:
        kind: The kind of the method in the settings.
        reads: The kind of credentials that the method reads.
        problem: Why the method cannot be opened.

    Attributes:
        problem: Why the method cannot be opened.
    """

    max_cache_seconds = 0.0
    is_failing = True

    def __init__(self, kind: str, reads: CredentialKind, problem: str) -> None:
        self.kind = kind
        self.reads = reads
        self.problem = problem

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        """Raise UndecidedError."""
        del credentials
        raise UndecidedError(self.problem)

    async def watch(self, on_change: Callable[[], None]) -> None:
        """Wait until the task is cancelled."""
        del on_change
        await asyncio.Event().wait()
