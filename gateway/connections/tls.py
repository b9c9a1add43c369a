"""The TLS certificates with which the gateway serves clients.

Guarantees:

1. At the start, all files are checked. A file that cannot be used is refused with a
   :class:`~gateway.reloading.last_valid_value.SourceError`. Only a gateway that replaces another one uses what that one
   used last instead, so its sessions continue.
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
from dataclasses import dataclass
from pathlib import Path

import grpc
import structlog

from gateway.connections.credential_files import CredentialFile
from gateway.connections.pem_files import KeyPair, KeyPairFiles, read_authorities
from gateway.reloading.last_valid_value import LastValidValue, unchanged
from gateway.reloading.source_memory import SourceMemory

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


class ServerCertificates:
    """The current certificates of the gateway. :meth:`reload` reads changed files.

    Args:
        files: The files.
        memory: Keeps the contents for a gateway that replaces this one. None if no gateway can replace it.

    Raises:
        SourceError: If a file cannot be used, and no gateway before this one has used its former content.
    """

    def __init__(self, files: TlsFiles, memory: SourceMemory | None = None) -> None:
        self._certificate = files.certificate
        pair = KeyPairFiles(CredentialFile("tls.certificate", files.certificate), CredentialFile("tls.key", files.key))
        ca = files.client_ca and CredentialFile("tls.client_ca", files.client_ca)
        self._pair = LastValidValue(pair, pair.read, unchanged, _report, memory)
        self._client_ca = LastValidValue(
            ca,
            lambda: read_authorities(ca) if ca else None,
            unchanged,
            lambda reason, _: _report(reason, self._pair.current.value),
            memory,
        )

    @property
    def expires_at(self) -> float:
        """When the current certificate expires, in seconds since the epoch."""
        return self._pair.current.value.expires.timestamp()

    def reload(self) -> None:
        """Use the current files for new connections, if they are valid.

        The method blocks, so call it in a thread, one call at a time.
        """
        changes = self._pair.reload(), self._client_ca.reload()
        if any(changes):
            expires = self._pair.current.value.expires.isoformat()
            log.info("tls_certificate_reloaded", certificate=str(self._certificate), expires=expires)

    def credentials(self, *, require_client_certificate: bool) -> grpc.ServerCredentials:
        """Return the credentials of a port.

        Args:
            require_client_certificate: Whether clients must present a certificate of a client CA. Otherwise, they are
                not asked for one.
        """
        return grpc.dynamic_ssl_server_credentials(
            _configuration(*self._contents(require_client_certificate)),
            self._fetcher(require_client_certificate),
            require_client_authentication=require_client_certificate,
        )

    def _fetcher(self, with_client_ca: bool) -> Callable[[], grpc.ServerCertificateConfiguration | None]:
        """Return the callback that gRPC calls before each handshake of a port.

        The callback returns None if the port already has the current certificate.
        """
        last = self._contents(with_client_ca)

        def fetch() -> grpc.ServerCertificateConfiguration | None:
            nonlocal last
            current = self._contents(with_client_ca)
            if current == last:
                return None
            last = current
            return _configuration(*current)

        return fetch

    def _contents(self, with_client_ca: bool) -> tuple[KeyPair, bytes | None]:
        return self._pair.current.value, self._client_ca.current.value if with_client_ca else None


def _configuration(pair: KeyPair, client_ca: bytes | None) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(pair.key, pair.chain)], root_certificates=client_ca)


def _report(reason: str, pair: KeyPair) -> None:
    log.error("tls_certificate_rejected", reason=reason, current_expires=pair.expires.isoformat())
