"""The method ``tokens``: tokens that Lodge has issued, listed in a file as hashes.

Changes of the file take effect within about a second. To revoke a token, remove its entry.
"""

import hmac
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from gateway.authentication.credentials import Credentials
from gateway.authentication.method import CredentialKind, DeniedError, Naming
from gateway.authentication.source import Source
from gateway.authentication.token_entries import (
    TokenEntry,
    digest_of,
    is_lodge_token,
    parse_token_file,
    read_token_file,
)
from gateway.messages.identity import Identity
from gateway.reloading.source_memory import SourceMemory

_TIMEOUT_SECONDS = 60.0  # a file with 100,000 tokens takes several seconds


class TokenFileMethod:
    """The authentication method ``tokens``.

    Args:
        file: The token file.
        naming: How the method forms the names of principals and groups.
        check_seconds: How often the method looks for changes of the file.
        memory: Keeps the file for the gateway that replaces this one.

    Raises:
        SourceError: If the file cannot be read or is not valid.
    """

    kind = "tokens"
    reads = CredentialKind.BEARER_TOKEN
    max_cache_seconds: float | None = None

    def __init__(
        self,
        file: Path,
        naming: Naming | None = None,
        *,
        check_seconds: float = 1.0,
        memory: SourceMemory | None = None,
    ) -> None:
        self._naming = naming or Naming()
        self._source: Source[Mapping[bytes, TokenEntry]] = Source(
            str(file),
            partial(read_token_file, file),
            lambda content: {entry.digest: entry for entry in parse_token_file(file, content)},
            period_seconds=check_seconds,
            timeout_seconds=_TIMEOUT_SECONDS,
            memory=memory,
        )

    @property
    def is_failing(self) -> bool:
        """Whether the last read of the file failed."""
        return self._source.is_failing

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        """Return the identity of a token in the file.

        Raises:
            DeniedError: If the token has expired, or is not in the file. The denial of an unknown token is not final,
                because the token may be in the file of another method.
        """
        if not is_lodge_token(credentials.token):
            return None
        digest = digest_of(credentials.token)
        entry = (self._source.value or {}).get(digest)
        if entry is None or not hmac.compare_digest(entry.digest, digest):
            raise DeniedError("the token is not in the file", is_final=False)
        expires_at = entry.expires.timestamp() if entry.expires else None
        if expires_at is not None and expires_at <= time.time():
            raise DeniedError(f"the token [{entry.id}] has expired", is_expired=True)
        return self._naming.identity(self.kind, entry.principal, entry.groups, expires_at)

    async def watch(self, on_change: Callable[[], None]) -> None:
        """Read the file every second until the task is cancelled."""
        await self._source.watch(on_change)
