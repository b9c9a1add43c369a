"""The credentials of Lodge for its backends: a token and TLS files.

The token and the TLS files belong to Lodge, not to a client. Tokens of clients never reach a backend.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import structlog

from gateway.connections.credential_files import BackendTokens, CredentialFile, read_backend_tokens
from gateway.connections.pem_files import KeyPairFiles, read_authorities
from gateway.reloading.last_valid_value import LastValidValue, unchanged
from gateway.reloading.source_memory import SourceMemory

Metadata = Sequence[tuple[str, str]]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class BackendAccess:
    """The files with which Lodge and its backends authenticate each other.

    Attributes:
        token_file: A file with the tokens that Lodge sends with every call, in the form of
            :func:`~gateway.connections.credential_files.read_backend_tokens`. None if Lodge sends no token.
        tokens: The tokens of backends that Lodge has started, by address. They take precedence over the file.
        ca: The certificate authorities that sign the certificates of backends. None for those that gRPC trusts.
        certificate: The certificate of Lodge, for backends that require one. None if there is none.
        key: The private key of the certificate.
        memory: Keeps the contents of the files for a gateway that replaces this one. None if no gateway can replace it.
    """

    token_file: Path | None = None
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    memory: SourceMemory | None = field(default=None, compare=False, repr=False)


class BackendCredentials:
    """The current credentials for backends. :meth:`reload` reads changed files.

    Args:
        access: The configured files.

    Attributes:
        has_tokens: Whether at least one backend gets a token.

    Raises:
        SourceError: If a file cannot be used, and no gateway before this one has used its former content.
    """

    def __init__(self, access: BackendAccess) -> None:
        self._started_tokens, memory = access.tokens, access.memory
        file = access.token_file and CredentialFile("backend_token_file", access.token_file)
        ca = access.ca and CredentialFile("backend_ca", access.ca)
        pair = None
        if access.certificate is not None and access.key is not None:
            pair = KeyPairFiles(
                CredentialFile("backend_certificate", access.certificate), CredentialFile("backend_key", access.key)
            )
        self._tokens = LastValidValue(
            file, lambda: read_backend_tokens(file) if file else BackendTokens(), unchanged, _report, memory
        )
        self._ca = LastValidValue(ca, lambda: read_authorities(ca) if ca else None, unchanged, _report, memory)
        self._pair = LastValidValue(pair, lambda: pair.read() if pair else None, unchanged, _report, memory)
        self.has_tokens = access.token_file is not None or bool(access.tokens)

    def reload(self) -> bool:
        """Read the files again. The contents of a file that cannot be used stay in effect.

        The method blocks, so call it in a thread, one call at a time.

        Returns:
            Whether new connections need new channel credentials.
        """
        has_new_tokens, *changes = [each.reload() for each in (self._tokens, self._ca, self._pair)]
        if has_new_tokens or any(changes):
            log.info("backend_credentials_reloaded")
        return any(changes)

    def metadata(self, backend: str) -> Metadata:
        """Return the metadata to add to every call of a backend.

        Args:
            backend: The address of the backend, in canonical form.
        """
        token = self._started_tokens.get(backend) or self._tokens.current.value.find(backend)
        return (("authorization", f"Bearer {token}"),) if token else ()

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """Return the credentials of a TLS channel to a backend."""
        ca, pair = self._ca.current.value, self._pair.current.value
        chain, key = (None, None) if pair is None else (pair.chain, pair.key)
        return grpc.ssl_channel_credentials(ca, key, chain)


def _report(reason: str, _value: object) -> None:
    log.error("backend_credentials_rejected", reason=reason)
