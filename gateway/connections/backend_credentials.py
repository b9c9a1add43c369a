"""The credentials of Lodge for its backends: a token and TLS files.

The token and the TLS files belong to Lodge, not to a client. Tokens of clients never reach a backend.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import grpc
import structlog

from gateway.connections.credential_files import BackendTokens, CredentialFileError, read_backend_tokens
from gateway.connections.kept_contents import KeptContents, find_kept, keep
from gateway.connections.pem_files import KeyPair, KeyPairFiles, read_authorities

_TOKEN_SETTING = "backend_token_file"  # noqa: S105 - the name of a setting

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
        kept: Where the contents of the files are kept for a gateway that replaces this one. None if no gateway can
            replace it.
    """

    token_file: Path | None = None
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    kept: "KeptContents[tuple[BackendAccess, _Contents]] | None" = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class _Contents:
    """The contents of the files of a :class:`BackendAccess`."""

    tokens: BackendTokens
    ca: bytes | None
    pair: KeyPair | None

    @classmethod
    def read(cls, access: BackendAccess) -> "_Contents":
        """Read and check all files.

        Raises:
            CredentialFileError: If a file cannot be used.
        """
        tokens = BackendTokens()
        if access.token_file is not None:
            tokens = read_backend_tokens(_TOKEN_SETTING, access.token_file)
        tokens = BackendTokens({**tokens.by_backend, **access.tokens}, tokens.default)
        ca = None if access.ca is None else read_authorities("backend_ca", access.ca)
        pair = None
        if access.certificate is not None and access.key is not None:
            pair = KeyPairFiles(access.certificate, access.key, "backend_certificate", "backend_key").read()
        return cls(tokens, ca, pair)


class BackendCredentials:
    """The current credentials for backends. :meth:`reload` reads changed files.

    Args:
        access: The configured files.

    Attributes:
        has_tokens: Whether at least one backend gets a token.

    Raises:
        CredentialFileError: If a file cannot be used, and no gateway before this one has used its former content.
    """

    def __init__(self, access: BackendAccess) -> None:
        self._access = access
        self._rejected = ""
        former = find_kept(access.kept, access)
        self._contents = former or _Contents.read(access)
        if former is None:
            self._keep()
        else:
            self.reload()
        self.has_tokens = access.token_file is not None or bool(access.tokens)

    def reload(self) -> bool:
        """Read the files again.

        If a file cannot be used, the previous contents of all files stay in effect.

        The method blocks, so call it in a thread, one call at a time.

        Returns:
            Whether new connections need new channel credentials.
        """
        try:
            contents = _Contents.read(self._access)
        except CredentialFileError as error:
            if str(error) != self._rejected:
                self._rejected = str(error)
                log.error("backend_credentials_rejected", reason=self._rejected)
            return False
        self._rejected = ""
        before = self._contents
        if contents == before:
            return False
        self._contents = contents
        self._keep()
        log.info("backend_credentials_reloaded")
        return (contents.ca, contents.pair) != (before.ca, before.pair)

    def _keep(self) -> None:
        keep(self._access.kept, replace(self._access, kept=None), self._contents)

    def metadata(self, backend: str) -> Metadata:
        """Return the metadata to add to every call of a backend.

        Args:
            backend: The address of the backend, in canonical form.
        """
        token = self._contents.tokens.find(backend)
        return (("authorization", f"Bearer {token}"),) if token else ()

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """Return the credentials of a TLS channel to a backend."""
        contents = self._contents
        chain, key = (None, None) if contents.pair is None else (contents.pair.chain, contents.pair.key)
        return grpc.ssl_channel_credentials(contents.ca, key, chain)
