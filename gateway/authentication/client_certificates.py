"""The method ``certificate``: client certificates that TLS has verified.

TLS verifies the certificate when a connection starts. Connections stay open for hours, so this method checks for each
request that the certificate has not expired, and that its authority has not been withdrawn. Then it returns the
principal.

Not guaranteed: If an intermediate authority has signed a certificate, and its root authority is withdrawn, open
connections continue until they are closed for their age. New connections are refused.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gateway.authentication.credentials import Credentials
from gateway.authentication.method import CredentialKind, DeniedError, Naming
from gateway.authentication.source import Source
from gateway.messages.identity import Identity
from gateway.reloading.files import read_file
from gateway.reloading.last_valid_value import SourceError
from gateway.reloading.source_memory import SourceMemory

_MAX_FILE_BYTES = 1024 * 1024  # the limit of the file for TLS, which refuses a larger file too
_TIMEOUT_SECONDS = 10.0
_LABEL = "The tls.client_ca file"


class CertificateName(Enum):
    """A kind of name in a certificate."""

    URI = "uri"
    EMAIL = "email"
    DNS = "dns"
    COMMON_NAME = "common_name"


class CertificateGroups(Enum):
    """A part of the subject that lists the groups."""

    ORGANIZATION = "organization"
    ORGANIZATIONAL_UNIT = "organizational_unit"


ALL_NAMES = (CertificateName.URI, CertificateName.EMAIL, CertificateName.DNS, CertificateName.COMMON_NAME)

_GROUP_ATTRIBUTES: Mapping[CertificateGroups, x509.ObjectIdentifier] = {
    CertificateGroups.ORGANIZATION: NameOID.ORGANIZATION_NAME,
    CertificateGroups.ORGANIZATIONAL_UNIT: NameOID.ORGANIZATIONAL_UNIT_NAME,
}


@dataclass(frozen=True, slots=True)
class CertificateSettings:
    """The settings of the method ``certificate``.

    Attributes:
        principal_from: The kinds of names that can be the principal. The first kind that the certificate contains is
            used.
        groups_from: The part of the subject that lists the groups. None if certificates contain no groups.
        naming: How the method forms the names of principals and groups.
    """

    principal_from: Sequence[CertificateName] = ALL_NAMES
    groups_from: CertificateGroups | None = None
    naming: Naming = field(default_factory=Naming)


class CertificateMethod:
    """The authentication method ``certificate``.

    Args:
        settings: The settings.
        authorities: The PEM file with the authorities that TLS trusts. None if no authority can be withdrawn.
        check_seconds: How often the method looks for changes of this file.
        memory: Keeps the file for the gateway that replaces this one.

    Raises:
        SourceError: If the file cannot be read or contains no certificates.
    """

    kind = "certificate"
    reads = CredentialKind.CERTIFICATE
    max_cache_seconds: float | None = None

    def __init__(
        self,
        settings: CertificateSettings,
        authorities: Path | None = None,
        *,
        check_seconds: float = 1.0,
        memory: SourceMemory | None = None,
    ) -> None:
        self._settings = settings
        self._withdrawn: frozenset[x509.Certificate] = frozenset()
        self._trusted: frozenset[x509.Certificate] = frozenset()
        self._source: Source[frozenset[x509.Certificate]] | None = None
        if authorities is not None:
            self._source = Source(
                str(authorities),
                partial(
                    read_file,
                    authorities,
                    label=f"{_LABEL} [{authorities}]",
                    max_bytes=_MAX_FILE_BYTES,
                    if_too_large="Give a file that contains only the certificates of the authorities.",
                ),
                partial(self._update, authorities),
                period_seconds=check_seconds,
                timeout_seconds=_TIMEOUT_SECONDS,
                memory=memory,
            )

    @property
    def is_failing(self) -> bool:
        """Whether the last read of the file with the authorities failed."""
        return self._source is not None and self._source.is_failing

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        """Return the identity of a client certificate.

        Raises:
            DeniedError: If the certificate is not valid now, is not for clients, or does not name a single principal.
        """
        if credentials.certificate is None:
            return None
        try:
            certificate = x509.load_pem_x509_certificate(credentials.certificate)
            self._check(certificate)
            principal = self._principal(certificate)
            groups = self._groups(certificate)
        except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
            raise DeniedError("the certificate cannot be parsed") from None
        expires_at = certificate.not_valid_after_utc.timestamp()
        return self._settings.naming.identity(self.kind, principal, groups, expires_at)

    async def watch(self, on_change: Callable[[], None]) -> None:
        """Read the file with the authorities every second until the task is cancelled."""
        if self._source is None:
            await asyncio.Event().wait()
        else:
            await self._source.watch(on_change)

    def _update(self, path: Path, content: bytes) -> frozenset[x509.Certificate]:
        """Replace the trusted authorities with those of the file, and return them."""
        try:
            trusted = frozenset(x509.load_pem_x509_certificates(content))
        except ValueError:
            raise SourceError(f"{_LABEL} [{path}] contains no valid certificates. Give a file in PEM format.") from None
        self._withdrawn = (self._withdrawn | self._trusted) - trusted
        self._trusted = trusted
        return trusted

    def _check(self, certificate: x509.Certificate) -> None:
        now = datetime.fromtimestamp(time.time(), UTC)
        if now >= certificate.not_valid_after_utc:
            raise DeniedError("the certificate has expired", is_expired=True)
        if now < certificate.not_valid_before_utc:
            raise DeniedError("the certificate is not valid yet")
        if _is_issued_by(certificate, self._withdrawn) and not _is_issued_by(certificate, self._trusted):
            raise DeniedError("the authority of the certificate has been withdrawn")
        try:
            usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        except x509.ExtensionNotFound:
            return
        if not {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE} & set(usages):
            raise DeniedError("the certificate is not for clients")

    def _principal(self, certificate: x509.Certificate) -> str:
        for kind in self._settings.principal_from:
            names = _names(certificate, kind)
            if len(names) > 1:
                raise DeniedError(f"the certificate has {len(names)} names of the kind {kind.value}, but must have one")
            if names:
                return names[0]
        kinds = ", ".join(kind.value for kind in self._settings.principal_from)
        raise DeniedError(f"the certificate has no name of the kinds {kinds}")

    def _groups(self, certificate: x509.Certificate) -> Sequence[str]:
        if self._settings.groups_from is None:
            return ()
        return _attributes(certificate, _GROUP_ATTRIBUTES[self._settings.groups_from])


def _is_issued_by(certificate: x509.Certificate, authorities: Iterable[x509.Certificate]) -> bool:
    for authority in authorities:
        if authority.subject == certificate.issuer:
            try:
                certificate.verify_directly_issued_by(authority)
            except (InvalidSignature, TypeError, ValueError):
                continue
            return True
    return False


def _names(certificate: x509.Certificate, kind: CertificateName) -> Sequence[str]:
    if kind is CertificateName.COMMON_NAME:
        return _attributes(certificate, NameOID.COMMON_NAME)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    match kind:
        case CertificateName.URI:
            return names.get_values_for_type(x509.UniformResourceIdentifier)
        case CertificateName.EMAIL:
            return names.get_values_for_type(x509.RFC822Name)
        case _:
            return names.get_values_for_type(x509.DNSName)


def _attributes(certificate: x509.Certificate, identifier: x509.ObjectIdentifier) -> Sequence[str]:
    values = [attribute.value for attribute in certificate.subject.get_attributes_for_oid(identifier)]
    return [value if isinstance(value, str) else value.decode() for value in values]
