"""The TLS certificates with which the gateway serves clients.

Guarantees:

1. At the start, all files are checked. A file that cannot be used is refused with a :class:`CredentialFileError`. Only
   a gateway that replaces another one uses what that one used last instead, so its sessions continue.
2. After the start, new connections use the last valid content of the files. While a file is missing, or the certificate
   and the key do not belong together, new connections use the previous certificate. Therefore the files may be replaced
   one after the other, in place, or through a symbolic link, as Kubernetes does for a mounted Secret. A change of the
   client CA takes effect even if the certificate or the key cannot be used.
3. Open connections continue when a certificate changes. They keep the certificate of their handshake.
4. The minimum version is TLS 1.2, the minimum of gRPC.

gRPC asks for the certificates before each handshake, on a thread that also carries the data of other connections.
Therefore, the callback for the certificates never reads files.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import grpc
import structlog

from gateway.connections.credential_files import CredentialFileError
from gateway.connections.kept_contents import KeptContents, find_kept, keep
from gateway.connections.pem_files import KeyPair, KeyPairFiles, read_authorities

_CLIENT_CA = "tls.client_ca"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files for TLS connections with clients.

    Attributes:
        certificate: The certificate of the gateway, followed by the intermediate certificates.
        key: The private key of the certificate.
        client_ca: The certificate authorities that sign client certificates. None if clients need no certificate.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def read(self) -> "TlsContents":
        """Read and check all files.

        Raises:
            CredentialFileError: If a file cannot be used.
        """
        return TlsContents(self.read_pair(), self.read_client_ca())

    def read_pair(self) -> KeyPair:
        """Read and check the certificate and the key.

        Raises:
            CredentialFileError: If a file cannot be used.
        """
        return KeyPairFiles(self.certificate, self.key, "tls.certificate", "tls.key").read()

    def read_client_ca(self) -> bytes | None:
        """Read and check the client certificate authorities.

        Raises:
            CredentialFileError: If the file cannot be used.
        """
        return None if self.client_ca is None else read_authorities(_CLIENT_CA, self.client_ca)


@dataclass(frozen=True, slots=True)
class TlsContents:
    """The checked contents of the files of :class:`TlsFiles`."""

    pair: KeyPair
    client_ca: bytes | None


KeptTls = KeptContents[tuple[TlsFiles, TlsContents]]


class ServerCertificates:
    """The current certificates of the gateway. :meth:`reload` reads changed files.

    Args:
        files: The files.
        kept: Where the contents are kept for a gateway that replaces this one. None if no gateway can replace it.

    Raises:
        CredentialFileError: If a file cannot be used, and no gateway before this one has used its former content.
    """

    def __init__(self, files: TlsFiles, kept: KeptTls | None = None) -> None:
        self._files = files
        self._kept = kept
        self._rejected = ""
        former = find_kept(kept, files)
        self._current = former or files.read()
        if former is None:
            keep(kept, files, self._current)
        else:
            self.reload()

    @property
    def expires_at(self) -> float:
        """When the current certificate expires, in seconds since the epoch."""
        return self._current.pair.expires.timestamp()

    def reload(self) -> None:
        """Use the current files for new connections, if they are valid.

        The method blocks, so call it in a thread, one call at a time.
        """
        contents, rejected = self._current, []
        try:
            contents = replace(contents, pair=self._files.read_pair())
        except CredentialFileError as error:
            rejected.append(str(error))
        try:
            contents = replace(contents, client_ca=self._files.read_client_ca())
        except CredentialFileError as error:
            rejected.append(str(error))
        reason = " ".join(rejected)
        if reason and reason != self._rejected:
            log.error("tls_certificate_rejected", reason=reason, current_expires=contents.pair.expires.isoformat())
        self._rejected = reason
        if contents != self._current:
            self._current = contents
            keep(self._kept, self._files, contents)
            log.info(
                "tls_certificate_reloaded",
                certificate=str(self._files.certificate),
                expires=contents.pair.expires.isoformat(),
            )

    def credentials(self, *, require_client_certificate: bool) -> grpc.ServerCredentials:
        """Return the credentials of a port.

        Args:
            require_client_certificate: Whether clients must present a certificate of a client CA. Otherwise, they are
                not asked for one.
        """
        return grpc.dynamic_ssl_server_credentials(
            _configuration(self._current, require_client_certificate),
            self._fetcher(require_client_certificate),
            require_client_authentication=require_client_certificate,
        )

    def _fetcher(self, with_client_ca: bool) -> Callable[[], grpc.ServerCertificateConfiguration | None]:
        """Return the callback that gRPC calls before each handshake of a port.

        The callback returns None if the port already has the current certificate.
        """
        last = self._current

        def fetch() -> grpc.ServerCertificateConfiguration | None:
            nonlocal last
            current = self._current
            if current is last:
                return None
            last = current
            return _configuration(current, with_client_ca)

        return fetch


def _configuration(contents: TlsContents, with_client_ca: bool) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(contents.pair.key, contents.pair.chain)], root_certificates=contents.client_ca if with_client_ca else None
    )
