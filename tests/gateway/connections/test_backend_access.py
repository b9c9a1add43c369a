"""TLS and the token of Lodge for backends."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
import structlog
from grpc import aio

from gateway.backends.backends import SERVICE, Backend, Backends
from gateway.connections.backend_address import BackendAddress, BackendAddressError
from gateway.connections.backend_channel import add_metadata
from gateway.connections.backend_credentials import BackendAccess, BackendCredentials
from gateway.reloading.last_valid_value import SourceError
from gateway.reloading.source_memory import SourceMemory
from tests.gateway.connections.tls_terminator import TlsTerminator
from tests.gateway.function_calls import MOST_CALLS, count_calls
from tests.gateway.reloading.memory import Memory
from tests.identity.certificates import DAY, CertificateAuthority
from workspace.identifiers import Principal, record_name

SECONDS = 60.0
TOKEN = "a-secret-token"  # noqa: S105 - of a test


class FakeBackend(grpc.GenericRpcHandler):
    """A backend that records the metadata of each call, and holds each call of ``ExecutePlan``."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, str]]] = []
        self.executions = 0
        self.address = ""

    @property
    def tokens(self) -> list[str | None]:
        return [metadata.get("authorization") for _, metadata in self.calls]

    def service(self, handler_call_details: Any) -> Any:
        name = handler_call_details.method.rpartition("/")[2]

        async def handle(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            self.calls.append((name, dict(context.invocation_metadata())))
            if name == "ExecutePlan":
                self.executions += 1
                yield b"started"
                await asyncio.Event().wait()
            async for request in requests:
                yield request

        return grpc.stream_stream_rpc_method_handler(handle)


@pytest_asyncio.fixture
async def fake() -> AsyncIterator[FakeBackend]:
    fake = FakeBackend()
    server = aio.server(options=[("grpc.max_concurrent_streams", 100)])
    server.add_generic_rpc_handlers((fake,))
    fake.address = f"sc://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    yield fake
    await server.stop(None)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority(tmp_path)


async def config(backend: Backend) -> bytes:
    answer: bytes = await backend.unary(SERVICE + "Config")(b"x", timeout=SECONDS)
    return answer


def only(backends: Backends) -> Backend:
    backend = backends.choose(record_name("ada", "1"), Principal("ada"))  # type: ignore[arg-type]
    assert backend is not None
    return backend


def write(path: Path, content: str | None) -> None:
    if content is None:
        path.unlink()
    else:
        path.write_text(content)


async def requests() -> AsyncIterator[bytes]:
    yield b"x"


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda backend: backend.unary(SERVICE + "Config")(b"x", metadata=(("a", "b"),)), id="unary"),
        pytest.param(lambda backend: backend.unary(SERVICE + "Interrupt")(b"x", timeout=SECONDS), id="control"),
        pytest.param(lambda backend: backend.unary_stream(SERVICE + "New")(b"x").read(), id="unary_stream"),
        pytest.param(lambda backend: backend.stream_unary(SERVICE + "AddArtifacts")(requests()), id="stream_unary"),
        pytest.param(lambda backend: backend.stream(SERVICE + "New")(requests()).read(), id="stream"),
    ],
)
async def test_every_call_carries_the_token(fake: FakeBackend, token_file: Path, call: Callable[..., Any]) -> None:
    backends = Backends([fake.address], access=BackendAccess(token_file))
    assert await call(only(backends)) == b"x"
    assert fake.tokens == [f"Bearer {TOKEN}"]
    await backends.close()


async def test_no_token_is_sent_without_the_setting(fake: FakeBackend) -> None:
    backends = Backends([fake.address])
    await config(only(backends))
    assert fake.tokens == [None]
    await backends.close()


async def test_changed_token_is_used_and_bad_token_is_not(fake: FakeBackend, token_file: Path) -> None:
    backends = Backends([fake.address], access=BackendAccess(token_file))
    write(token_file, "rotated")
    await backends.reload_credentials()
    await config(only(backends))
    with structlog.testing.capture_logs() as logs:
        for bad in ("", "two words", "tab\tinside", "ä"):
            write(token_file, bad)
            await backends.reload_credentials()
        write(token_file, None)
        await backends.reload_credentials()
        await backends.reload_credentials()
    await config(only(backends))
    assert fake.tokens == ["Bearer rotated"] * 2
    assert [event["event"] for event in logs] == ["backend_credentials_rejected"] * 2, "one event for each new reason"
    await backends.close()


def test_file_that_cannot_be_used_does_not_hold_back_the_others(
    authority: CertificateAuthority, token_file: Path, tmp_path: Path
) -> None:
    kept, own, ca = Memory(), authority.client("lodge"), tmp_path / "backends.crt"
    ca.write_bytes(authority.certificate.read_bytes())
    access = BackendAccess(token_file, ca=ca, certificate=own.certificate, key=own.key, memory=SourceMemory(kept))
    credentials = BackendCredentials(access)
    with structlog.testing.capture_logs() as logs:
        own.key.write_text("damaged")
        assert not credentials.reload(), "a key that cannot be used changes no connection"
        write(token_file, "rotated")
        assert not credentials.reload(), "a token needs no new connection"
        ca.write_bytes(CertificateAuthority(tmp_path, "Other").certificate.read_bytes())
        assert credentials.reload()
        write(token_file, None)
        assert not credentials.reload()
    assert credentials.metadata("sc://h:1") == (("authorization", "Bearer rotated"),)
    rejected, reloaded = "backend_credentials_rejected", "backend_credentials_reloaded"
    assert [event["event"] for event in logs] == [rejected, reloaded, reloaded, rejected]
    with structlog.testing.capture_logs() as logs:
        replacing = BackendCredentials(replace(access, memory=SourceMemory(kept)))
    assert replacing.metadata("sc://h:1") == credentials.metadata("sc://h:1")
    assert [event["event"] for event in logs] == [rejected] * 2
    with pytest.raises(SourceError):
        BackendCredentials(access)


async def test_each_backend_gets_only_its_own_token(fake: FakeBackend, token_file: Path) -> None:
    lines = ("# comment", "", f"{fake.address}/;use_ssl=false own", "sc://other:1 of-another")
    write(token_file, "\n".join(lines))
    backends = Backends([fake.address], access=BackendAccess(token_file))
    await config(only(backends))
    write(token_file, "sc://other:1 of-another")
    await backends.reload_credentials()
    await config(only(backends))
    assert fake.tokens == ["Bearer own", None]
    await backends.close()


async def test_backend_that_lodge_has_started_gets_its_own_token(fake: FakeBackend, token_file: Path) -> None:
    backends = Backends([fake.address], access=BackendAccess(token_file, tokens={fake.address: "started"}))
    await config(only(backends))
    assert fake.tokens == ["Bearer started"]
    await backends.close()


@pytest.mark.parametrize(
    "content",
    [
        f"{TOKEN} and more",
        f"{TOKEN}\n{TOKEN}",
        f"http://h:1 {TOKEN}",
        f"sc://h:1 {TOKEN}\nsc://h:1/ other",
        f"sc://h:1 {TOKEN}\nsc://h:2",
        "# only a comment",
        "x" * 20_000,
        "",
    ],
)
def test_unusable_token_file_is_refused_at_the_start(token_file: Path, content: str) -> None:
    token_file.write_text(content)
    with pytest.raises(SourceError, match=r"\[.*token\] of the setting backend_token_file .* one token") as no:
        Backends((), access=BackendAccess(token_file))
    assert TOKEN not in str(no.value)


def test_token_is_not_shown(token_file: Path) -> None:
    access = BackendAccess(tokens={"sc://127.0.0.1:1": TOKEN})
    credentials = BackendCredentials(BackendAccess(token_file))
    for each in (access, credentials, vars(credentials)["_tokens"].current, Backends([], access=access)):
        assert TOKEN not in repr(each)


async def test_token_that_crosses_a_network_without_tls_is_reported(token_file: Path) -> None:
    exposed, safe = "sc://spark.example:1", ["sc://127.0.0.1:1", "sc://localhost:1", "sc://[::1]:1"]
    with structlog.testing.capture_logs() as logs:
        backends = Backends([exposed, *safe, "sc://spark.example:1/;use_ssl=true"], access=BackendAccess(token_file))
    assert [(event["event"], event["backends"]) for event in logs] == [("backend_token_exposed", [exposed])]
    await backends.close()


async def test_backend_is_called_over_tls(fake: FakeBackend, authority: CertificateAuthority, token_file: Path) -> None:
    access = BackendAccess(token_file, ca=authority.certificate)
    with TlsTerminator(fake.address, authority.server()) as terminator:
        backends = Backends([terminator.address], access=access)
        assert await config(only(backends)) == b"x"
        await backends.close()
    assert terminator.uses_only_tls
    assert terminator.alpn == ["h2"]
    assert not any(TOKEN.encode() in each for each in terminator.first_bytes)
    assert fake.tokens == [f"Bearer {TOKEN}"]


async def test_client_certificate_is_presented_to_the_backend(
    fake: FakeBackend, authority: CertificateAuthority
) -> None:
    own = authority.client("lodge")
    with TlsTerminator(fake.address, authority.server(), authority.certificate) as terminator:
        without = BackendAccess(ca=authority.certificate)
        for access, is_accepted in (
            (without, False),
            (replace(without, certificate=own.certificate, key=own.key), True),
        ):
            backends = Backends([terminator.address], access=access)
            if is_accepted:
                assert await config(only(backends)) == b"x"
            else:
                with pytest.raises(aio.AioRpcError):
                    await config(only(backends))
            await backends.close()
    assert terminator.client_names == ["lodge"]


async def test_backend_with_an_unknown_certificate_gets_nothing(
    fake: FakeBackend, authority: CertificateAuthority, tmp_path: Path, token_file: Path
) -> None:
    other = CertificateAuthority(tmp_path, "Other")
    for certificate in (other.server(), authority.server(["elsewhere"]), authority.server(valid_for=-DAY / 2)):
        with TlsTerminator(fake.address, certificate) as terminator:
            backends = Backends([terminator.address], access=BackendAccess(token_file, ca=authority.certificate))
            with pytest.raises(aio.AioRpcError) as refused:
                await config(only(backends))
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
            await backends.close()
    assert fake.calls == []


async def test_changed_ca_is_used_and_running_calls_continue(
    fake: FakeBackend, authority: CertificateAuthority, tmp_path: Path
) -> None:
    other, ca = CertificateAuthority(tmp_path, "Other"), tmp_path / "backends.crt"
    ca.write_bytes(authority.certificate.read_bytes())
    with (
        TlsTerminator(fake.address, authority.server()) as before,
        TlsTerminator(fake.address, other.server()) as after,
    ):
        backends = Backends([before.address, after.address], access=BackendAccess(ca=ca))
        old, new = (backends._by_address[each.address] for each in (before, after))
        running = old.stream(SERVICE + "Upload")()
        await running.write(b"1")
        assert await running.read() == b"1"
        with pytest.raises(aio.AioRpcError):
            await config(new)
        ca.write_bytes(other.certificate.read_bytes())
        await backends.reload_credentials()
        assert await config(new) == b"x"
        with pytest.raises(aio.AioRpcError):
            await config(old)
        await running.write(b"2")
        assert await running.read() == b"2", "a running call keeps its connection"
        running.cancel()
        await backends.close()


async def test_adding_the_token_costs_little() -> None:
    """The wrapper costs a few function calls, without the call itself."""

    def nothing(request: bytes, metadata: Any = None, timeout: float | None = None) -> None: ...

    own = partial(BackendCredentials(BackendAccess(tokens={"sc://h:1": TOKEN})).metadata, "sc://h:1")
    call = add_metadata(lambda _: nothing, own)("/method")
    metadata = tuple((f"key-{number}", "value") for number in range(5))
    assert count_calls(lambda: call(b"x", metadata=metadata, timeout=1.0)) < MOST_CALLS


@pytest.mark.parametrize(
    ("address", "canonical"),
    [
        ("sc://h:1", "sc://h:1"),
        ("sc://h:1/", "sc://h:1"),
        ("sc://h:1/;use_ssl=false", "sc://h:1"),
        ("sc://h:1/;use_ssl=true", "sc://h:1/;use_ssl=true"),
        ("sc://h:1/;use_ssl=True;", "sc://h:1/;use_ssl=true"),
        ("sc://[::1]:1/;use_ssl=true", "sc://[::1]:1/;use_ssl=true"),
    ],
)
def test_address_has_a_canonical_form(address: str, canonical: str) -> None:
    assert str(BackendAddress.parse(address)) == canonical


@pytest.mark.parametrize(
    "address",
    [
        *("http://h:1", "sc://h", "sc://:1", "sc://h:x", "sc://h:1/path", "sc://h:1?a=b", "sc://h:1#a"),
        *("sc://user:secret@h:1", "sc://h:1/;token=secret", "sc://h:1/;use_ssl=true;token=secret"),
        *("sc://h:1/;use_ssl", "sc://h:1/;use_ssl=yes", "sc://h:1/;use_ssl=true;use_ssl=false"),
    ],
)
def test_address_of_another_form_is_refused_without_its_secrets(address: str) -> None:
    with pytest.raises(BackendAddressError) as refused:
        BackendAddress.parse(address)
    assert "secret" not in str(refused.value)
