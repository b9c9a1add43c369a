"""Certificates, private keys and certificate authorities in PEM files.

The files are checked before gRPC uses them, because gRPC reports a wrong file only as a failed handshake.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from gateway.connections.credential_files import CredentialFile

_CURVES = ("secp256r1", "secp384r1")
_SPKI = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)

_Parsed = TypeVar("_Parsed")


@dataclass(frozen=True, slots=True)
class KeyPairFiles:
    """The files of a certificate and its private key.

    Attributes:
        certificate: The certificate, followed by the intermediate certificates.
        key: The private key, without a password.
    """

    certificate: CredentialFile
    key: CredentialFile

    def read(self) -> "KeyPair":
        """Read and check both files.

        Raises:
            SourceError: If a file cannot be read, the certificate is not valid now, or the key does not belong to it.
        """
        chain, key = self.certificate.read(), self.key.read()
        certificate = _certificates(self.certificate, chain)[0]
        private_key = self._parse_key(key)
        if private_key.public_key().public_bytes(*_SPKI) != certificate.public_key().public_bytes(*_SPKI):
            raise self.key.error(
                f"it is not the key of the certificate [{self.certificate.path}]. Give the key that belongs to the "
                "certificate."
            )
        self._check_validity(certificate)
        return KeyPair(chain, key, certificate.not_valid_after_utc)

    def _parse_key(self, content: bytes) -> rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey:
        def load(data: bytes) -> PrivateKeyTypes:
            # The validation of an RSA key takes up to a second, and stops the event loop. It finds keys that somebody
            # has constructed to leak secrets, and these files belong to the operator.
            return serialization.load_pem_private_key(data, password=None, unsafe_skip_rsa_key_validation=True)

        try:
            key = _parse(self.key, content, load, "a private key")
        except TypeError:
            raise self.key.error("it is encrypted with a password. Give a key without a password.") from None
        if isinstance(key, rsa.RSAPrivateKey):
            return key
        if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name in _CURVES:
            return key
        raise self.key.error(
            "gRPC does not support this kind of key. Give an RSA key, or an EC key with the curve P-256 or P-384."
        )

    def _check_validity(self, certificate: x509.Certificate) -> None:
        start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        now = datetime.now(UTC)
        if end <= now:
            reason = f"the certificate expired at {end.isoformat()}. Give a valid certificate and its key."
        elif start > now:
            reason = (
                f"the certificate is valid only from {start.isoformat()}. Give a valid certificate, or correct the "
                "clock of this machine."
            )
        else:
            return
        raise self.certificate.error(reason)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, in PEM format.

    Attributes:
        chain: The certificate and the intermediate certificates.
        key: The private key.
        expires: When the certificate expires.
    """

    chain: bytes
    key: bytes
    expires: datetime

    def __repr__(self) -> str:
        return f"KeyPair(expires={self.expires.isoformat()})"


def read_authorities(file: CredentialFile) -> bytes:
    """Read and check the certificates of certificate authorities.

    Raises:
        SourceError: If the file cannot be read, contains no certificate, or contains only expired certificates.
    """
    content = file.read()
    certificates = _certificates(file, content)
    if all(certificate.not_valid_after_utc <= datetime.now(UTC) for certificate in certificates):
        last = max(certificate.not_valid_after_utc for certificate in certificates)
        raise file.error(
            f"all its certificates have expired, the last one at {last.isoformat()}. Give valid certificates."
        )
    return content


def _certificates(file: CredentialFile, content: bytes) -> Sequence[x509.Certificate]:
    return _parse(file, content, x509.load_pem_x509_certificates, "a certificate")


def _parse(file: CredentialFile, content: bytes, load: Callable[[bytes], _Parsed], what: str) -> _Parsed:
    try:
        return load(content)
    except ValueError:  # the text of the error may show a part of the file
        raise file.error(f"it does not contain {what} in PEM format. Give a PEM file.") from None
