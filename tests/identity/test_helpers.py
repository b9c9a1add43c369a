"""The identity provider, the certificate authority and the recorder of these tests, checked with their libraries."""

import json
import ssl
import urllib.request
from pathlib import Path

import grpc
import jwt
import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from tests.gateway.test_pass_through import SERVICE, EchoBackend, echo_server
from tests.identity.certificates import DAY, CertificateAuthority
from tests.identity.provider import AUDIENCE, ISSUER, Flaw, IdentityProvider
from tests.identity.recorder import Recorder

ALGORITHMS = ["RS256", "ES256", "EdDSA"]


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> IdentityProvider:
    return IdentityProvider(tmp_path_factory.mktemp("provider"))


def verify(provider: IdentityProvider, token: str) -> object:
    keys = jwt.PyJWKSet.from_json(provider.jwks_file.read_text())
    key = keys[jwt.get_unverified_header(token)["kid"]]
    return jwt.decode(token, key, algorithms=ALGORITHMS, audience=AUDIENCE, issuer=ISSUER)["sub"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_valid_token_verifies_with_the_jwks(provider: IdentityProvider, algorithm: str) -> None:
    key = next(each for each in provider.keys if each.algorithm == algorithm)
    assert verify(provider, provider.token("ada", key=key)) == "ada"


@pytest.mark.parametrize("flaw", [each for each in Flaw if each is not Flaw.NONE], ids=lambda flaw: flaw.value)
def test_flawed_token_does_not_verify(provider: IdentityProvider, flaw: Flaw) -> None:
    with pytest.raises((jwt.InvalidTokenError, KeyError)):
        verify(provider, provider.flawed_token("ada", flaw))


def test_jwks_server_serves_the_keys_and_fails_on_request(provider: IdentityProvider) -> None:
    with provider.serve() as server:
        with urllib.request.urlopen(server.url) as answer:  # noqa: S310 - a fixed address on loopback
            assert json.load(answer) == json.loads(provider.jwks())
        server.status = 500
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(server.url)  # noqa: S310 - a fixed address on loopback
        assert server.requests == 2


def test_certificates_verify_with_their_authority_only(tmp_path: Path) -> None:
    authority, stranger = CertificateAuthority(tmp_path), CertificateAuthority(tmp_path)
    roots = x509.load_pem_x509_certificates(authority.certificate.read_bytes())
    verifier = PolicyBuilder().store(Store(roots)).build_client_verifier()

    def check(path: Path) -> None:
        verifier.verify(x509.load_pem_x509_certificate(path.read_bytes()), [])

    name = [x509.DNSName("ada")]
    check(authority.client("ada", name).certificate)
    for refused in (
        stranger.client("ada", name),
        authority.client("ada", name, valid_from=-2 * DAY, valid_for=-DAY),
        authority.client("ada", name, valid_from=DAY),
        authority.server(["ada"]),
    ):
        with pytest.raises(VerificationError):
            check(refused.certificate)


def test_server_certificate_and_key_belong_together(tmp_path: Path) -> None:
    files = CertificateAuthority(tmp_path).server()
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files.certificate, files.key)


def test_recorder_forwards_calls_and_records_them() -> None:
    server, port = echo_server(EchoBackend())
    server.start()
    with Recorder(f"sc://127.0.0.1:{port}") as recorder:
        with grpc.insecure_channel(recorder.address.removeprefix("sc://")) as channel:
            answers = list(
                channel.stream_stream(SERVICE + "AddArtifacts")(iter([b"a", b"b"]), metadata=[("x-mine", "m")])
            )
            with pytest.raises(grpc.RpcError) as raised:
                channel.unary_unary(SERVICE + "Config")(b"c", metadata=[("x-fail", "1")])
        assert answers == [b"a", b"b"]
        assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert [(call.method, call.messages) for call in recorder.calls] == [
            ("AddArtifacts", [b"a", b"b"]),
            ("Config", [b"c"]),
        ]
        assert recorder.calls[0].metadata_by_key["x-mine"] == "m"
    server.stop(None)
