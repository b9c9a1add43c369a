"""A real ``lodge serve`` with authentication: its start, its reload, and what reaches the backend."""

import json
import os
import re
import signal
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from pyspark.sql.connect.proto import base_pb2

from tests.cluster.ports import free_port
from tests.fixture_types import Eventually
from tests.gateway.test_pass_through import EchoBackend, echo_server
from tests.identity.methods import change_token, create_token
from tests.identity.provider import IdentityProvider
from tests.watched import gateway_of

CONFIG = "/spark.connect.SparkConnectService/Config"
CALL_SECONDS = 30


@pytest.fixture(scope="module")
def backend() -> Iterator[tuple[EchoBackend, int]]:
    recording = EchoBackend()
    server, port = echo_server(recording)
    server.start()
    yield recording, port
    server.stop(None)


class Serving:
    """A ``lodge serve`` with a configuration file, in front of the recording backend."""

    def __init__(self, lodge: Any, directory: Path, backend_port: int, eventually: Eventually) -> None:
        self._lodge = lodge
        self._eventually = eventually
        self._backend_port = backend_port
        self.directory = directory
        self.config = directory / "lodge.yaml"
        self.log_file = directory / "log"
        self.tokens = directory / "tokens.yaml"
        (directory / "root").mkdir()

    def write(self, *lines: str) -> None:
        root = (self.directory / "root").as_uri()
        common = [f"backend: ['sc://127.0.0.1:{self._backend_port}']", f"workspace: {{dfs.tmp: '{root}'}}"]
        self.config.write_text("\n".join([*common, "audit_log: none", "reaper: false", *lines]))

    def start(self, *options: str) -> None:
        arguments = ("serve", f"--config={self.config}", "--listen=127.0.0.1:0", *options)
        self.process = self._lodge.start(*arguments, log=self.log_file)
        ready = re.match(r"Lodge is ready at sc://(\S+)", self.process.stdout.readline())
        assert ready, self.log_file.read_text()
        self.address = ready[1]

    def call(self, token: str | None = None, *, user: str = "mallory", key: str = "authorization") -> None:
        """Call the gateway.

        Raises:
            grpc.RpcError: If the call fails.
        """
        request = base_pb2.ConfigRequest(session_id=str(uuid.uuid4()), user_context={"user_id": user})
        metadata = [] if token is None else [(key, f"Bearer {token}")]
        with grpc.insecure_channel(self.address) as channel:
            channel.unary_unary(CONFIG)(request.SerializeToString(), metadata=metadata, timeout=CALL_SECONDS)

    def accepts(self, token: str) -> bool:
        try:
            self.call(token)
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.UNAUTHENTICATED, error
            return False
        return True

    def reload(self, event: str) -> dict[str, Any]:
        """Send SIGHUP and return the next log line with an event."""
        count = len(self.lines(event))
        self.process.send_signal(signal.SIGHUP)
        self._eventually(lambda: len(self.lines(event)) > count, f"{event} is logged")
        return self.lines(event)[-1]

    def lines(self, event: str) -> list[dict[str, Any]]:
        whole = [line for line in self.log_file.read_text().splitlines(keepends=True) if line.endswith("\n")]
        lines = [json.loads(line) for line in whole if line.startswith("{")]
        return [line for line in lines if line["event"] == event]


@pytest.fixture
def serving(lodge: Any, tmp_path: Path, backend: tuple[EchoBackend, int], eventually: Eventually) -> Serving:
    return Serving(lodge, tmp_path, backend[1], eventually)


def test_only_valid_tokens_reach_the_backend(
    serving: Serving, backend: tuple[EchoBackend, int], eventually: Eventually
) -> None:
    recording, _ = backend
    ada, bob = create_token(serving.tokens, "ada"), create_token(serving.tokens, "bob")
    serving.write(f"authentication: [{{kind: tokens, file: {serving.tokens}}}]", "log_level: debug")
    serving.start()
    reached = len(recording.metadata)
    for wrong in (None, ada[:-1], "x", "a.b.c"):
        with pytest.raises(grpc.RpcError) as refused:
            serving.call(wrong)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert "[LODGE_UNAUTHENTICATED]" in refused.value.details()
    assert len(recording.metadata) == reached
    for key in ("authorization", "authentication"):
        serving.call(ada, key=key)
    assert len(recording.metadata) == reached + 2
    assert not any("auth" in name for metadata in recording.metadata[reached:] for name in metadata)
    assert serving.accepts(bob)
    change_token(serving.tokens, bob)
    eventually(lambda: not serving.accepts(bob), "the revoked token is refused")
    assert serving.accepts(ada)
    log = serving.log_file.read_text()
    assert ada not in log
    assert bob not in log
    assert {line["principal"] for line in serving.lines("session_started")} == {"ada", "bob"}


@pytest.mark.slow
def test_broken_source_ends_no_login_when_the_gateway_is_replaced(serving: Serving, eventually: Eventually) -> None:
    token = create_token(serving.tokens, "ada")
    provider = IdentityProvider(serving.directory, algorithms=["EdDSA"])
    jwt = f"{{kind: jwt, jwks: '{provider.jwks_file.as_uri()}', issuer: '{provider.issuer}', audience: lodge}}"
    serving.write(f"authentication: [{{kind: tokens, file: {serving.tokens}}}, {jwt}]")
    serving.start()
    valid = serving.tokens.read_text()
    serving.tokens.write_text("tokens: [")
    provider.jwks_file.unlink()
    for started in (2, 3):
        os.kill(gateway_of(serving.process.pid), signal.SIGKILL)
        eventually(lambda count=started: len(serving.lines("gateway_started")) == count, "the gateway is replaced")
        assert serving.accepts(token)
        assert serving.accepts(provider.token("ada"))
        assert not serving.accepts(token[:-1] + ("a" if token[-1] != "a" else "b"))
        assert len(serving.lines("authentication_source_failed")) >= 2 * (started - 1)
    serving.tokens.write_text(valid)
    change_token(serving.tokens, token)
    eventually(lambda: not serving.accepts(token), "the file is read again, without the token")


@pytest.mark.slow
def test_reload_changes_methods_and_keeps_them_if_it_is_refused(serving: Serving) -> None:
    token = create_token(serving.tokens, "ada")
    provider = IdentityProvider(serving.directory, algorithms=["EdDSA"])
    tokens = f"{{kind: tokens, file: {serving.tokens}}}"
    jwt = f"{{kind: jwt, jwks: '{provider.jwks_file.as_uri()}', issuer: '{provider.issuer}', audience: lodge}}"
    serving.write(f"authentication: [{tokens}]")
    serving.start()
    assert serving.accepts(token)
    assert not serving.accepts(provider.token("ada"))
    serving.write(f"authentication: [{tokens}, {jwt}]")
    assert serving.reload("configuration_reloaded")["changed"] == ["authentication: tokens -> tokens, jwt"]
    assert serving.accepts(token)
    assert serving.accepts(provider.token("ada"))
    for lines, reason in (
        ((f"authentication: [{tokens}, {jwt.replace('jwks.json', 'missing.json')}]",), "missing.json] cannot be read"),
        ((f"authentication: [{{kind: tokens, file: {serving.directory}/none}}]",), "none] cannot be read"),
        (("authentication: [{kind: ldap}]",), "unknown kind"),
        (("authentication: [{kind: certificate}]",), "client_ca"),
    ):
        serving.write(*lines)
        rejected = serving.reload("configuration_rejected")
        assert rejected["level"] == "error"
        assert reason in rejected["reason"]
        assert serving.accepts(token)
        assert serving.accepts(provider.token("ada"))
    serving.write(f"authentication: [{jwt}]")
    serving.reload("configuration_reloaded")
    assert not serving.accepts(token)
    assert serving.accepts(provider.token("ada"))


def test_damaged_configuration_keeps_the_methods_and_the_gateway(serving: Serving) -> None:
    token = create_token(serving.tokens, "ada")
    serving.write(f"authentication: [{{kind: tokens, file: {serving.tokens}}}]")
    serving.start()
    for content, reason in (
        ("", "every client could act as any user"),
        ("admins: [ops", "is not valid YAML"),
        ("admins: " + "[" * 3000, "nested too deeply"),
        ('authentication: [{kind: tokens, file: "/tokens\\0"}]', "null byte"),
    ):
        serving.config.write_text(content)
        assert reason in serving.reload("configuration_rejected")["reason"]
        assert serving.accepts(token)
        assert not serving.accepts("wrong")
    assert serving.process.poll() is None


@pytest.mark.parametrize(
    ("lines", "options", "problem"),
    [
        (
            ("authentication: [{kind: tokens, file: /none}]",),
            (),
            r"Method 1 \(tokens\) of the setting authentication cannot be used: .*/none",
        ),
        (
            (),
            ("--listen=0.0.0.0:0",),
            r"The address \[0.0.0.0:0\] of the setting listen can be reached from other hosts",
        ),
        ((), ("--listen=[::]:0",), r"The address \[\[::\]:0\] of the setting listen can be reached from other hosts"),
    ],
)
def test_start_without_usable_method_is_refused(
    serving: Serving, lodge: Any, lines: tuple[str, ...], options: tuple[str, ...], problem: str
) -> None:
    serving.write(*lines)
    done = lodge.run("serve", f"--config={serving.config}", *options)
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("lodge: ")]
    assert re.search(problem, line)


def test_unauthenticated_gateway_warns_and_shows_in_metrics(serving: Serving) -> None:
    serving.write("allow_unauthenticated: true")
    metrics = f"127.0.0.1:{free_port()}"
    serving.start("--listen=0.0.0.0:0", f"--metrics-listen={metrics}")
    assert [line["level"] for line in serving.lines("unauthenticated_clients_allowed")] == ["warning"]
    with urllib.request.urlopen(f"http://{metrics}/metrics") as answer:
        assert "lodge_gateway_unauthenticated_allowed 1.0" in answer.read().decode()
    serving.call()
