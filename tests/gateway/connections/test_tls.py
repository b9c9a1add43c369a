"""TLS connections of clients (guarantees: gateway.connections.tls)."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import grpc
import pytest
import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from grpc import aio

from gateway.connections.listener import ListenError, ServerTls
from gateway.connections.tls import ServerCertificates, TlsFiles
from gateway.reloading.last_valid_value import SourceError
from gateway.reloading.source_memory import SourceMemory
from tests.gateway.connections.echo import SECONDS, STREAM, call, client, listening, serial_number, until
from tests.gateway.reloading.memory import Memory
from tests.gateway.thread_time import least_thread_seconds
from tests.identity.certificates import DAY, CertificateAuthority, CertificateFiles


@dataclass
class Mounted:
    """The TLS files of a gateway, which tests replace."""

    authority: CertificateAuthority
    directory: Path

    @property
    def files(self) -> TlsFiles:
        return TlsFiles(self.directory / "tls.crt", self.directory / "tls.key")

    @property
    def ca(self) -> bytes:
        return self.authority.certificate.read_bytes()

    def replace_certificate(self, issued: CertificateFiles) -> int:
        content = issued.certificate.read_bytes()
        (self.directory / "tls.crt").write_bytes(content)
        return x509.load_pem_x509_certificate(content).serial_number

    def replace_key(self, issued: CertificateFiles) -> None:
        (self.directory / "tls.key").write_bytes(issued.key.read_bytes())

    def replace(self, issued: CertificateFiles | None = None) -> int:
        issued = issued or self.authority.server()
        self.replace_key(issued)
        return self.replace_certificate(issued)


@pytest.fixture
def mounted(tmp_path: Path) -> Mounted:
    directory = tmp_path / "mounted"
    directory.mkdir()
    mounted = Mounted(CertificateAuthority(tmp_path), directory)
    mounted.replace()
    return mounted


def expired(mounted: Mounted) -> None:
    mounted.replace(mounted.authority.server(valid_for=-DAY / 2))


def not_yet_valid(mounted: Mounted) -> None:
    mounted.replace(mounted.authority.client("localhost", valid_from=timedelta(hours=1)))


def wrong_key(mounted: Mounted) -> None:
    mounted.replace_key(mounted.authority.server())


def missing_key(mounted: Mounted) -> None:
    mounted.files.key.unlink()


def no_pem(mounted: Mounted) -> None:
    mounted.files.certificate.write_bytes(b"secret text")


def key_without_pem(mounted: Mounted) -> None:
    mounted.files.key.write_bytes(b"secret text")


def encrypted_key(mounted: Mounted) -> None:
    key = serialization.load_pem_private_key(mounted.files.key.read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(b"password")
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    mounted.files.key.write_bytes(pem)


def key_that_grpc_cannot_use(mounted: Mounted) -> None:
    pem = ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    mounted.files.key.write_bytes(pem)


BAD_FILES = [
    (expired, "tls.certificate", r"the certificate expired at .* Give a valid certificate and its key\."),
    (not_yet_valid, "tls.certificate", r"the certificate is valid only from .* correct the clock"),
    (wrong_key, "tls.key", r"it is not the key of the certificate \[.*tls\.crt\]\. Give the key"),
    (missing_key, "tls.key", r"No such file or directory\. Check the path and its permissions"),
    (no_pem, "tls.certificate", r"it does not contain a certificate in PEM format\. Give a PEM file\."),
    (key_without_pem, "tls.key", r"it does not contain a private key in PEM format\."),
    (encrypted_key, "tls.key", r"it is encrypted with a password\. Give a key without a password\."),
    (key_that_grpc_cannot_use, "tls.key", r"gRPC does not support this kind of key\. Give an RSA key, or an EC key"),
]
bad_files = pytest.mark.parametrize(
    ("spoil", "setting", "reason"), [pytest.param(*case, id=case[0].__name__) for case in BAD_FILES]
)


@bad_files
def test_guarantee_1_unusable_file_is_refused_at_the_start(
    mounted: Mounted, spoil: Callable[[Mounted], None], setting: str, reason: str
) -> None:
    spoil(mounted)
    with pytest.raises(SourceError, match=reason) as refused:
        ServerCertificates(mounted.files)
    path = mounted.files.key if setting == "tls.key" else mounted.files.certificate
    assert str(refused.value).startswith(f"The file [{path}] of the setting {setting} cannot be ")
    assert "secret text" not in str(refused.value)


def test_guarantee_1_gateway_that_replaces_another_one_uses_what_that_one_used(mounted: Mounted) -> None:
    kept, ca = Memory(), mounted.directory / "clients.crt"
    files = TlsFiles(mounted.files.certificate, mounted.files.key, ca)
    ca.write_bytes(mounted.ca)
    before = ServerCertificates(files, SourceMemory(kept)).expires_at
    for path in (files.key, ca):
        path.write_bytes(b"damaged")
    with structlog.testing.capture_logs() as logs:
        assert ServerCertificates(files, SourceMemory(kept)).expires_at == before
    assert [(event["event"], event["log_level"]) for event in logs] == [("tls_certificate_rejected", "error")] * 2
    assert all(str(path) in event["reason"] for path, event in zip((files.key, ca), logs, strict=True))
    assert {event["current_expires"] for event in logs} == {datetime.fromtimestamp(before, UTC).isoformat()}
    with pytest.raises(SourceError):
        ServerCertificates(TlsFiles(files.certificate, ca), SourceMemory(kept))


@bad_files
async def test_guarantee_2_unusable_file_keeps_the_previous_certificate(
    mounted: Mounted, spoil: Callable[[Mounted], None], setting: str, reason: str
) -> None:
    async with listening(ServerTls(mounted.files)) as (listener, addresses):
        before = await serial_number(addresses.main)
        spoil(mounted)
        with structlog.testing.capture_logs() as logs:
            for _ in range(3):
                await listener.reload_certificates()
        assert [event["event"] for event in logs] == ["tls_certificate_rejected"], "the log repeats no event"
        assert setting in logs[0]["reason"]
        assert await serial_number(addresses.main) == before
        after = mounted.replace()
        with structlog.testing.capture_logs() as logs:
            await listener.reload_certificates()
        assert [event["event"] for event in logs] == ["tls_certificate_reloaded"]
        assert await serial_number(addresses.main) == after


async def test_guarantee_2_files_may_be_replaced_one_after_the_other(mounted: Mounted) -> None:
    async with listening(ServerTls(mounted.files)) as (listener, addresses):
        before, issued = await serial_number(addresses.main), mounted.authority.server()
        after = mounted.replace_certificate(issued)
        await listener.reload_certificates()
        assert await serial_number(addresses.main) == before
        mounted.replace_key(issued)
        await listener.reload_certificates()
        assert await serial_number(addresses.main) == after


async def test_guarantee_2_symbolic_links_of_a_kubernetes_secret_are_followed(mounted: Mounted) -> None:
    def write(name: str, issued: CertificateFiles) -> int:
        version = mounted.directory / name
        version.mkdir()
        (version / "tls.crt").write_bytes(issued.certificate.read_bytes())
        (version / "tls.key").write_bytes(issued.key.read_bytes())
        (mounted.directory / "..data_tmp").symlink_to(name)
        (mounted.directory / "..data_tmp").replace(mounted.directory / "..data")
        return x509.load_pem_x509_certificate(issued.certificate.read_bytes()).serial_number

    first = write("..first", mounted.authority.server())
    for name in ("tls.crt", "tls.key"):
        (mounted.directory / name).unlink()
        (mounted.directory / name).symlink_to(f"..data/{name}")
    async with listening(ServerTls(mounted.files)) as (listener, addresses):
        assert await serial_number(addresses.main) == first
        second = write("..second", mounted.authority.server())
        await listener.reload_certificates()
        assert await serial_number(addresses.main) == second


async def test_guarantee_3_connections_survive_changes_of_the_certificate_under_load(mounted: Mounted) -> None:
    async with listening(ServerTls(mounted.files)) as (listener, addresses):
        opened = [client(addresses.main, mounted.ca) for _ in range(4)]
        streams = [channel.stream_stream(STREAM)() for channel in opened]
        stopped = asyncio.Event()
        calls = 0

        async def work(channel: aio.Channel, stream: Any) -> None:
            nonlocal calls
            while not stopped.is_set():
                assert await call(channel, b"unary") == b"unary"
                await stream.write(b"stream")
                assert await stream.read() == b"stream"
                calls += 2

        async def connect() -> None:
            nonlocal calls
            while not stopped.is_set():
                async with client(addresses.main, mounted.ca) as fresh:
                    assert await call(fresh) == b"x"
                calls += 1

        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for channel, stream in zip(opened, streams, strict=True):
                group.create_task(work(channel, stream))
            group.create_task(connect())
            for _ in range(20):
                issued = mounted.authority.server()
                serial = mounted.replace_certificate(issued)
                await listener.reload_certificates()  # the key does not belong to the certificate yet
                mounted.replace_key(issued)
                await listener.reload_certificates()
                assert await serial_number(addresses.main) == serial
                seen = calls
                await until(lambda seen=seen: calls >= seen + 20, "the clients continue")
            stopped.set()
        for stream in streams:
            await stream.done_writing()
            assert await stream.code() is grpc.StatusCode.OK
        for channel in opened:
            await channel.close()


@pytest.mark.parametrize(
    ("version", "is_accepted"),
    [
        (ssl.TLSVersion.TLSv1_1, False),
        (ssl.TLSVersion.TLSv1_2, True),
        (ssl.TLSVersion.TLSv1_3, True),
    ],
)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_guarantee_4_tls_1_2_is_the_minimum(mounted: Mounted, version: ssl.TLSVersion, is_accepted: bool) -> None:
    def negotiate(address: str) -> str | None:
        context = ssl.create_default_context(cadata=mounted.ca.decode())
        context.set_alpn_protocols(["h2"])
        context.set_ciphers("ALL:@SECLEVEL=0")  # otherwise, the client itself refuses TLS 1.1
        context.minimum_version = context.maximum_version = version
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), SECONDS) as plain:
            try:
                with context.wrap_socket(plain, server_hostname="localhost") as secure:
                    return secure.version()
            except ssl.SSLError as error:
                assert "NO_PROTOCOLS_AVAILABLE" not in str(error), "this client does not offer the version"
                return None

    async with listening(ServerTls(mounted.files)) as (_, addresses):
        negotiated = await asyncio.to_thread(negotiate, addresses.main)
    assert negotiated == (version.name.replace("_", ".") if is_accepted else None)


async def test_rsa_key_works_and_does_not_stop_the_event_loop(mounted: Mounted) -> None:
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - DAY, now + DAY)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    mounted.files.certificate.write_bytes(pem)
    mounted.files.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )

    text = mounted.files.key.read_bytes()
    check_seconds = least_thread_seconds(lambda: serialization.load_pem_private_key(text, None), 5)
    open_seconds = least_thread_seconds(lambda: ServerCertificates(mounted.files), 10)
    assert open_seconds < check_seconds / 2, "the key is not checked"
    async with listening(ServerTls(mounted.files)) as (_, addresses), client(addresses.main, pem) as channel:
        assert await call(channel) == b"x"


async def test_client_without_tls_is_refused(mounted: Mounted) -> None:
    async with listening(ServerTls(mounted.files)) as (_, addresses), client(addresses.main) as plain:
        with pytest.raises(aio.AioRpcError) as refused:
            await call(plain)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_port_that_requires_certificates_refuses_other_clients(mounted: Mounted, tmp_path: Path) -> None:
    clients = CertificateAuthority(tmp_path, "Clients")
    tls = ServerTls(
        TlsFiles(mounted.files.certificate, mounted.files.key, clients.certificate),
        certificate_listen="127.0.0.1:0",
    )
    known, unknown = clients.client("ann"), mounted.authority.client("ann")
    async with listening(tls) as (_, addresses):
        assert addresses.certificate is not None
        assert addresses.certificate_url == f"sc://{addresses.certificate}/;use_ssl=true"
        async with client(addresses.main, mounted.ca) as without:
            assert await call(without) == b"x"
        pair = (known.key.read_bytes(), known.certificate.read_bytes())
        async with client(addresses.certificate, mounted.ca, pair) as certified:
            assert await call(certified) == b"x"
        foreign = (unknown.key.read_bytes(), unknown.certificate.read_bytes())
        for refused_pair in (None, foreign):
            async with client(addresses.certificate, mounted.ca, refused_pair) as other:
                with pytest.raises(aio.AioRpcError) as refused:
                    await call(other)
                assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_error_for_an_address_in_use_names_the_setting(mounted: Mounted, tmp_path: Path) -> None:
    ca = CertificateAuthority(tmp_path, "Clients").certificate
    files = TlsFiles(mounted.files.certificate, mounted.files.key, ca)
    with socket.create_server(("127.0.0.1", 0)) as used:
        address = f"127.0.0.1:{used.getsockname()[1]}"
        with pytest.raises(ListenError) as refused:
            async with listening(ServerTls(files, certificate_listen=address)):
                pass
    assert str(refused.value) == (
        f"Cannot listen on [{address}]: the port may be in use, or the host may not be an address of this machine. "
        "Set another address with tls.client_certificate_listen."
    )


@pytest.mark.parametrize("spoil", [lambda _: None, missing_key, expired])
async def test_change_of_the_client_ca_takes_effect_for_new_connections(
    mounted: Mounted, tmp_path: Path, spoil: Callable[[Mounted], None]
) -> None:
    before, after = CertificateAuthority(tmp_path, "Before"), CertificateAuthority(tmp_path, "After")
    ca = tmp_path / "clients.crt"
    ca.write_bytes(before.certificate.read_bytes())
    tls = ServerTls(TlsFiles(mounted.files.certificate, mounted.files.key, ca), requires_client_certificate=True)
    old, new = before.client("ann"), after.client("ann")
    async with listening(tls) as (listener, addresses):
        async with client(addresses.main, mounted.ca, (old.key.read_bytes(), old.certificate.read_bytes())) as open_one:
            assert await call(open_one) == b"x"
            ca.write_bytes(after.certificate.read_bytes())
            spoil(mounted)
            await listener.reload_certificates()
            assert await call(open_one) == b"x", "an open connection continues"
        async with client(addresses.main, mounted.ca, (new.key.read_bytes(), new.certificate.read_bytes())) as accepted:
            assert await call(accepted) == b"x"
        async with client(addresses.main, mounted.ca, (old.key.read_bytes(), old.certificate.read_bytes())) as revoked:
            with pytest.raises(aio.AioRpcError):
                await call(revoked)
