"""The settings of connections with clients and backends."""

from pathlib import Path

import pytest
import structlog

from gateway.connections.backend_credentials import BackendAccess
from gateway.connections.listener import ConnectionLimits, ServerTls
from gateway.connections.tls import TlsFiles
from lodge.command_errors import SettingError
from lodge.connections import backend_access, connection_limits, server_tls
from lodge.reaper_process import environment_for
from lodge.settings import ReapSettings
from lodge.workspace_settings import workspaces_from
from tests.lodge.arguments import read

pytestmark = pytest.mark.usefixtures("no_settings_outside")

PAIR = "certificate: /c.crt, key: /c.key"
FILES = TlsFiles(Path("/c.crt"), Path("/c.key"))
WITH_CA = f"{PAIR}, client_ca: /ca.crt"
CERTIFICATE = "{kind: certificate}"
TOKENS = "{kind: tokens, file: /tokens.yaml}"


def file(content: str) -> str:
    Path("lodge.yaml").write_text(content)
    return "--config=lodge.yaml"


def test_tls_is_a_mapping_in_the_file_and_one_line_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read().tls is None
    in_file = read(file("tls:\n  certificate: /c.crt\n  key: /c.key\n"))
    as_option = read("--tls", f"{{{PAIR}}}")
    monkeypatch.setenv("LODGE_TLS", f"{{{PAIR}}}")
    assert in_file.tls == as_option.tls == read().tls
    assert server_tls(as_option, ()) == ServerTls(FILES)


def test_client_certificates_use_the_next_port_unless_they_are_the_only_method() -> None:
    both = read(file(f"tls: {{{WITH_CA}}}\nauthentication: [{CERTIFICATE}, {TOKENS}]\nlisten: '[::1]:7'\n"))
    tls = server_tls(both, {method.kind for method in both.authentication})
    assert tls is not None
    assert (tls.requires_client_certificate, tls.certificate_listen) == (False, "[::1]:8")
    chosen = read(file(f"tls: {{{WITH_CA}}}\nauthentication: [{CERTIFICATE}, {TOKENS}]\nlisten: '127.0.0.1:0'\n"))
    tls = server_tls(chosen, {method.kind for method in chosen.authentication})
    assert tls is not None
    assert tls.certificate_listen == "127.0.0.1:0"
    given = f"tls: {{{WITH_CA}, client-certificate-listen: '127.0.0.1:9'}}\nauthentication: [{CERTIFICATE}, {TOKENS}]\n"
    named = read(file(given))
    tls = server_tls(named, {method.kind for method in named.authentication})
    assert tls is not None
    assert tls.certificate_listen == "127.0.0.1:9"
    alone = read(file(f"tls: {{{WITH_CA}}}\nauthentication: [{CERTIFICATE}]\n"))
    tls = server_tls(alone, {method.kind for method in alone.authentication})
    assert tls is not None
    assert (tls.requires_client_certificate, tls.certificate_listen) == (True, None)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("tls: {certificate: /c.crt}", "the key key is missing"),
        ("tls: {key: /c.key}", "the key certificate is missing"),
        (f"tls: {{{PAIR}, kye: x}}", "the key kye is unknown"),
        ("tls: /c.crt", "it must be a mapping with the keys certificate and key"),
        ("tls: [a]", "it must be a mapping with the keys certificate and key"),
        (
            f"tls: {{{PAIR}, client_certificate_listen: x}}",
            "the key client_certificate_listen is not valid: it must be",
        ),
        (f"tls: {{{WITH_CA}}}", "client_ca needs the authentication method certificate"),
        (
            f"tls: {{{PAIR}, client_certificate_listen: 'h:1'}}\nauthentication: [{TOKENS}]",
            "client_certificate_listen needs the authentication method certificate",
        ),
        (f"tls: {{{PAIR}}}\nauthentication: [{CERTIFICATE}]", "the authentication method certificate needs client_ca"),
        (f"authentication: [{CERTIFICATE}]", "the authentication method certificate needs client_ca"),
        (
            f"tls: {{{WITH_CA}, client_certificate_listen: 'h:1'}}\nauthentication: [{CERTIFICATE}]",
            "remove client_certificate_listen",
        ),
    ],
)
def test_contradicting_tls_settings_are_refused(content: str, reason: str) -> None:
    with pytest.raises(SettingError, match=reason) as refused:
        read(file(content))
    assert "setting tls is not valid" in str(refused.value)


def test_limits_have_defaults_and_can_be_set() -> None:
    default = connection_limits(read(), 100_000)
    assert (default.connections, default.streams) == (4000, 1000)
    assert (default.idle_timeout_seconds, default.age_seconds) == (1800, 12 * 3600)
    limits = connection_limits(
        read(
            *("--max-connections=7", "--max-connection-age=9s"),
            "--connection-idle-timeout=10s",
        ),
        100_000,
    )
    assert limits == ConnectionLimits(connections=7, idle_timeout_seconds=10, age_seconds=9)


@pytest.mark.parametrize(("open_files", "connections"), [(1024, 512), (4096, 3584), (4512, 4000)])
def test_limit_of_connections_leaves_room_for_other_files(open_files: int, connections: int) -> None:
    with structlog.testing.capture_logs() as logs:
        assert connection_limits(read(), open_files).connections == connections
    assert [event["event"] for event in logs] == ["connection_limit_reduced"] * (connections < 4000)


def test_backend_access_comes_from_the_settings_of_both_commands() -> None:
    given = (
        *("--backend-token-file=/t", "--backend-ca=/ca", "--backend-certificate=/c", "--backend-key=/k"),
        "--backend=sc://h:1",
    )
    expected = BackendAccess(Path("/t"), ca=Path("/ca"), certificate=Path("/c"), key=Path("/k"))
    assert backend_access(read(*given)) == expected
    assert backend_access(read(*given, model=ReapSettings)) == expected


def test_reaper_process_gets_the_credentials_and_the_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    given = read(
        *("--backend-token-file=/t", "--backend-ca=/ca", "--backend-certificate=/c", "--backend-key=/k"),
        *("--backend=sc://h:1/;use_ssl=true", "--backend=sc://h:2", "--principal-backend=a=b=sc://h:3/;use_ssl=true"),
    )
    for name, value in environment_for(given, workspaces_from(given)).items():
        monkeypatch.setenv(name, value)
    read_back = read(model=ReapSettings)
    assert backend_access(read_back) == backend_access(given)
    assert read_back.backend == ("sc://h:1/;use_ssl=true", "sc://h:2")
    assert read_back.principal_backend == {"a=b": "sc://h:3/;use_ssl=true"}


@pytest.mark.parametrize("option", ["--backend-certificate=/c", "--backend-key=/k"])
def test_certificate_for_backends_needs_its_key(option: str) -> None:
    with pytest.raises(SettingError, match="set backend_certificate and backend_key"):
        read(option, "--backend=sc://h:1")


def test_token_in_the_address_of_a_backend_is_refused_and_masked() -> None:
    with pytest.raises(SettingError, match="backend_token_file") as refused:
        read("--backend=sc://h:1/;use_ssl=true;token=secret")
    assert "secret" not in str(refused.value)


def test_token_for_backends_needs_a_backend() -> None:
    with pytest.raises(SettingError, match="the local Spark has a token of its own"):
        read("--backend-token-file=/t")
