from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gateway.authentication import client_certificates
from gateway.authentication.authenticator import Authenticator
from gateway.authentication.client_certificates import (
    CertificateGroups,
    CertificateMethod,
    CertificateName,
    CertificateSettings,
)
from gateway.authentication.method import Naming
from gateway.errors import GatewayError
from gateway.reloading.last_valid_value import SourceError
from tests.gateway.authentication.conftest import Call, eventually, identify, refusal, watching
from tests.identity.certificates import DAY, CertificateAuthority

URI, EMAIL, DNS = x509.UniformResourceIdentifier, x509.RFC822Name, x509.DNSName


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority(tmp_path)


def authenticator(
    *names: CertificateName, groups_from: CertificateGroups | None = None, naming: Naming | None = None
) -> Authenticator:
    settings = CertificateSettings(groups_from=groups_from, naming=naming or Naming())
    if names:
        settings = CertificateSettings(names, groups_from, naming or Naming())
    return Authenticator([CertificateMethod(settings)])


def call(authority: CertificateAuthority, *names: x509.GeneralName, **options: object) -> Call:
    return Call(certificate=authority.client("ada", names, **options).certificate.read_bytes())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("names", "principal"),
    [
        ((), "ada"),
        ((DNS("ada.example.com"),), "ada.example.com"),
        ((DNS("ada.example.com"), EMAIL("ada@example.com")), "ada@example.com"),
        ((DNS("ada.example.com"), URI("spiffe://example.com/ada"), EMAIL("a@example.com")), "spiffe://example.com/ada"),
    ],
)
async def test_first_kind_of_name_is_the_principal(
    authority: CertificateAuthority, names: tuple[x509.GeneralName, ...], principal: str
) -> None:
    identity = await identify(authenticator(), call(authority, *names))
    assert (identity.principal, identity.method) == (principal, "certificate")
    assert identity.expires_at is not None


async def test_kinds_of_names_are_configurable(authority: CertificateAuthority) -> None:
    names = (DNS("ada.example.com"), URI("spiffe://example.com/ada"))
    only_dns = authenticator(CertificateName.DNS, naming=Naming("cert:"))
    assert (await identify(only_dns, call(authority, *names))).principal == "cert:ada.example.com"
    await refusal(only_dns, call(authority))
    await refusal(only_dns, call(authority, URI("spiffe://example.com/ada")))


async def test_several_names_of_one_kind_are_refused(authority: CertificateAuthority) -> None:
    await refusal(authenticator(), call(authority, DNS("ada.example.com"), DNS("bob.example.com")))


async def test_certificate_that_is_not_valid_now_is_refused(authority: CertificateAuthority) -> None:
    expired = call(authority, valid_from=-2 * DAY, valid_for=-DAY)
    assert await refusal(authenticator(), expired) == "the credentials have expired"
    await refusal(authenticator(), call(authority, valid_from=timedelta(hours=1)))


async def test_certificate_for_servers_is_refused(authority: CertificateAuthority) -> None:
    await refusal(authenticator(), call(authority, usage=ExtendedKeyUsageOID.SERVER_AUTH))


async def test_withdrawn_authority_is_refused_on_open_connections(tmp_path: Path) -> None:
    kept, withdrawn, namesake = (CertificateAuthority(tmp_path) for _ in range(3))
    bundle, new = tmp_path / "clients.crt", tmp_path / "new.crt"
    bundle.write_bytes(b"".join(each.certificate.read_bytes() for each in (kept, withdrawn, namesake)))
    method = CertificateMethod(CertificateSettings(), bundle, check_seconds=0.05)
    presented = {authority: call(authority) for authority in (kept, withdrawn, namesake)}
    async with watching(method) as authorities:
        for each in presented.values():
            await identify(authorities, each)
        new.write_bytes(kept.certificate.read_bytes() + namesake.certificate.read_bytes())
        new.replace(bundle)

        async def is_refused() -> bool:
            try:
                await authorities.identify(presented[withdrawn])
            except GatewayError:
                return True
            return False

        await eventually(is_refused, "the change is noticed")
        for authority in (kept, namesake):
            await identify(authorities, presented[authority])


async def test_certificate_that_cannot_be_parsed_is_refused() -> None:
    await refusal(authenticator(), Call(certificate=b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))


async def test_call_without_certificate_is_refused(authority: CertificateAuthority) -> None:
    assert await refusal(authenticator(), Call()) == "it has no credentials"
    assert await refusal(authenticator(), Call([("authorization", "Bearer x")])) == "it has no credentials"


def with_subject(authority: CertificateAuthority, *attributes: tuple[x509.ObjectIdentifier, str]) -> Call:
    """Return a call with a certificate that has this subject. TLS has verified it already, so anybody may sign it."""
    key = ec.generate_private_key(ec.SECP256R1())
    template = x509.load_pem_x509_certificate(authority.client("x").certificate.read_bytes())
    subject = x509.Name([x509.NameAttribute(identifier, value) for identifier, value in attributes])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(template.issuer)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(template.not_valid_before_utc)
        .not_valid_after(template.not_valid_after_utc)
    )
    return Call(certificate=builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))


async def test_groups_come_from_the_subject(authority: CertificateAuthority) -> None:
    attributes = (
        (NameOID.COMMON_NAME, "ada"),
        (NameOID.ORGANIZATION_NAME, "ops"),
        (NameOID.ORGANIZATION_NAME, "admins"),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, "unit"),
    )
    presented = with_subject(authority, *attributes)
    assert (await identify(authenticator(), presented)).groups == frozenset()
    organizations = authenticator(groups_from=CertificateGroups.ORGANIZATION)
    assert (await identify(organizations, presented)).groups == {"ops", "admins"}
    units = authenticator(groups_from=CertificateGroups.ORGANIZATIONAL_UNIT)
    assert (await identify(units, presented)).groups == {"unit"}


@pytest.mark.parametrize("name", ["a\nb", "a\x00b", "\u2028"])
async def test_name_with_control_character_is_refused(authority: CertificateAuthority, name: str) -> None:
    await refusal(authenticator(), with_subject(authority, (NameOID.COMMON_NAME, name)))


async def test_several_common_names_are_refused(authority: CertificateAuthority) -> None:
    await refusal(authenticator(), with_subject(authority, (NameOID.COMMON_NAME, "a"), (NameOID.COMMON_NAME, "b")))


def test_authorities_that_exceed_the_limit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "clients.crt"
    authority = CertificateAuthority(tmp_path).certificate.read_bytes()
    monkeypatch.setattr(client_certificates, "_MAX_FILE_BYTES", len(authority))
    path.write_bytes(authority)
    CertificateMethod(CertificateSettings(), path)
    path.write_bytes(authority * 2)
    with pytest.raises(SourceError) as refused:
        CertificateMethod(CertificateSettings(), path)
    assert str(refused.value).startswith(f"The tls.client_ca file [{path}] has more than {len(authority):,} bytes.")
