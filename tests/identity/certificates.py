"""A certificate authority for tests, with certificates for servers and clients."""

import ipaddress
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = timedelta(days=1)

_CA_USAGE = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """A certificate and its key as PEM files."""

    certificate: Path
    key: Path


class CertificateAuthority:
    """A certificate authority.

    Attributes:
        certificate: The PEM file with its certificate.
    """

    def __init__(self, directory: Path, name: str = "Test CA") -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self._certificate = (
            _builder(self._name, self._name, self._key, -DAY, 30 * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_CA_USAGE, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = directory / f"ca-{secrets.token_hex(4)}.crt"
        self.certificate.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def server(
        self, hosts: Sequence[str] = ("localhost", "127.0.0.1"), *, valid_for: timedelta = 10 * DAY
    ) -> CertificateFiles:
        """Issue the certificate of a server."""
        return self._issue(hosts[0], [_host(each) for each in hosts], ExtendedKeyUsageOID.SERVER_AUTH, -DAY, valid_for)

    def client(
        self,
        principal: str,
        alternative_names: Sequence[x509.GeneralName] = (),
        *,
        usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH,
        valid_from: timedelta = -DAY,
        valid_for: timedelta = 10 * DAY,
    ) -> CertificateFiles:
        """Issue the certificate of a client.

        Args:
            principal: The common name.
            alternative_names: The subject alternative names.
            usage: The extended key usage.
            valid_from: The start of its validity, relative to now.
            valid_for: The end of its validity, relative to now.
        """
        return self._issue(principal, alternative_names, usage, valid_from, valid_for)

    def _issue(
        self,
        common_name: str,
        alternative_names: Sequence[x509.GeneralName],
        usage: x509.ObjectIdentifier,
        valid_from: timedelta,
        valid_for: timedelta,
    ) -> CertificateFiles:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(common_name), self._name, key, valid_from, valid_for)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        if alternative_names:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternative_names), critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        path = self._directory / f"{secrets.token_hex(6)}.crt"
        path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        files = CertificateFiles(path, path.with_suffix(".key"))
        files.key.touch(mode=0o600)
        files.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return files


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, start: timedelta, end: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + start)
        .not_valid_after(now + end)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
