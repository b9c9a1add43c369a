"""The settings of authentication: what is accepted, and how each mistake is explained."""

from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from lodge.authentication import check_listen_address, check_method_changes, log_risks, method_list, open_methods
from lodge.authentication_settings import CertificateSettings, JwtSettings, KubernetesSettings, TokensSettings
from lodge.command_errors import SettingError
from lodge.settings import ServeSettings
from tests.identity.provider import IdentityProvider
from tests.lodge.arguments import read

pytestmark = pytest.mark.usefixtures("no_settings_outside")

JWT = "kind: jwt, issuer: i, audience: a"


def read_file(content: str) -> ServeSettings:
    Path("lodge.yaml").write_text(content)
    return read("--config=lodge.yaml")


def methods(*entries: str) -> ServeSettings:
    return read_file("authentication:\n" + "".join(f"  - {{{entry}}}\n" for entry in entries))


def test_methods_of_the_file_are_read() -> None:
    settings = read_file(
        """
authentication:
  - {kind: tokens, file: /etc/lodge/tokens.yaml}
  - {kind: jwt, jwks: "file:///etc/lodge/jwks.json", issuer: "https://idp.example.com", audience: lodge,
     principal-claim: email, groups_claim: groups, algorithms: [ES256], leeway: 0, jwks_max_age: 1h}
  - {kind: kubernetes, audiences: [lodge], cache: 0s, principal_prefix: "k8s:"}
  - {kind: certificate, principal_from: dns, groups_from: organization}
tls: {certificate: /etc/lodge/tls.crt, key: /etc/lodge/tls.key, client_ca: /etc/lodge/clients.crt}
"""
    )
    tokens, jwt, kubernetes, certificate = settings.authentication
    assert isinstance(tokens, TokensSettings)
    assert tokens.file == Path("/etc/lodge/tokens.yaml")
    assert isinstance(jwt, JwtSettings)
    assert (jwt.audience, jwt.principal_claim, jwt.algorithms) == (("lodge",), "email", ("ES256",))
    assert (jwt.leeway.total_seconds(), jwt.jwks_max_age.total_seconds()) == (0, 3600)
    assert isinstance(kubernetes, KubernetesSettings)
    assert (kubernetes.audiences, kubernetes.cache.total_seconds()) == (("lodge",), 0)
    assert isinstance(certificate, CertificateSettings)
    assert (certificate.principal_from, certificate.groups_from) == (("dns",), "organization")


def test_option_and_variable_contain_the_same_list(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "[{kind: tokens, file: /a}, {kind: jwt, jwks: 'https://h/j', issuer: i, audience: [a, b]}]"
    expected = read(f"--authentication={text}").authentication
    assert [method.kind for method in expected] == ["tokens", "jwt"]
    monkeypatch.setenv("LODGE_AUTHENTICATION", text)
    assert read().authentication == expected


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        (["kind: ldap"], "method 1 has an unknown kind; the kinds are tokens, jwt, kubernetes, certificate"),
        (["file: /a"], "method 1 needs the key kind"),
        (["kind: tokens"], "method 1 (tokens) needs the key file"),
        (["kind: tokens, file: /a", "kind: tokens"], "method 2 (tokens) needs the key file"),
        (["kind: tokens, file: /a, path: /b"], "method 1 (tokens) has the unknown key path"),
        ([f"{JWT}"], "method 1 (jwt) needs the key jwks"),
        ([f"{JWT}, jwks: /etc/jwks.json"], "the key jwks of method 1 (jwt) is not valid: it must be the URL"),
        ([f"{JWT}, jwks: 'file://host/jwks.json'"], "the key jwks of method 1 (jwt) is not valid: it must be the URL"),
        ([f"{JWT}, jwks: 'ftp://h/jwks.json'"], "the key jwks of method 1 (jwt) is not valid: it must be the URL"),
        ([f"{JWT}, jwks: 'https://u:p@h/jwks.json'"], "it must be the URL"),
        ([f"{JWT}, jwks: 'https://h/j', algorithms: [RS256, HS256]"], "the algorithm [HS256] cannot be used"),
        ([f"{JWT}, jwks: 'https://h/j', algorithms: none"], "the algorithm [none] cannot be used"),
        ([f"{JWT}, jwks: 'https://h/j', algorithms: []"], "the key algorithms of method 1 (jwt) is not valid"),
        (
            [f"{JWT}, jwks: 'https://h/j', leeway: soon"],
            "the key leeway of method 1 (jwt) is not valid: it must be a dur",
        ),
        (["kind: jwt, jwks: 'https://h/j', issuer: '', audience: a"], "the key issuer of method 1 (jwt) is not valid"),
        (
            ["kind: jwt, jwks: 'https://h/j', issuer: i, audience: []"],
            "the key audience of method 1 (jwt) is not valid",
        ),
        (["kind: kubernetes"], "method 1 (kubernetes) needs the key audiences"),
        (["kind: kubernetes, audiences: [a], cache: 61s"], "the key cache of method 1 (kubernetes) is not valid"),
        (
            ["kind: certificate, principal_from: [ip]"],
            "the key principal_from.0 of method 1 (certificate) is not valid",
        ),
        (["kind: certificate, principal_from: [dns, dns]"], "it contains a value twice"),
        (["kind: kubernetes, audiences: [a]"] * 2, "the kind kubernetes may occur only once"),
        (["kind: tokens, file: /a"] * 2, "two methods have the file [/a]"),
        (
            [f"{JWT}, jwks: 'https://h/1'", f"{JWT}, jwks: 'https://h/2'"],
            "two methods have the issuer [i], so the first would refuse the tokens of the second",
        ),
    ],
)
def test_mistake_in_a_method_is_explained(entries: list[str], problem: str) -> None:
    with pytest.raises(SettingError) as error:
        methods(*entries)
    assert problem in str(error.value)
    assert "the setting authentication is not valid" in str(error.value)
    assert "authentication in the --config file" in str(error.value)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("value", ["7", "tokens", "{kind: tokens, file: /a}", "[tokens]", "[[]]", "[7]"])
def test_value_of_wrong_type_is_explained(value: str) -> None:
    with pytest.raises(SettingError, match=r"\{kind: tokens, file: /etc/lodge/tokens.yaml\}"):
        read_file(f"authentication: {value}")


def test_certificate_method_needs_client_ca() -> None:
    with pytest.raises(SettingError, match="the authentication method certificate needs client_ca"):
        methods("kind: certificate")


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (
            "kind: tokens, file: missing.yaml",
            r"cannot be used: The token file \[missing.yaml\] cannot be read: No such",
        ),
        (f"{JWT}, jwks: 'file:///missing.json'", r"cannot be used: The JWKS file \[/missing.json\] cannot be read: No"),
        (f"{JWT}, jwks: 'http://127.0.0.1:1/j'", r"cannot be used: The URL \[http://127.0.0.1:1/j\] cannot be read: "),
        (
            f"{JWT}, jwks: 'https://127.0.0.1:1/j', jwks_ca: none.crt",
            r"cannot be used: The CA file \[none.crt\] cannot be used: No such file",
        ),
    ],
)
def test_source_that_cannot_be_used_stops_the_start(entry: str, problem: str) -> None:
    with pytest.raises(SettingError, match=rf"Method 1 \(\w+\) of the setting authentication {problem}"):
        open_methods(methods(entry))


def test_kubernetes_needs_a_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = read("--authentication=[{kind: kubernetes, audiences: [a]}]", "--kubeconfig=missing")
    with pytest.raises(
        SettingError, match=r"Method 1 \(kubernetes\) of the setting authentication cannot be used: .*missing"
    ):
        open_methods(settings)


def test_method_that_stays_missing_is_logged_once(tmp_path: Path) -> None:
    settings, opened = methods("kind: tokens, file: tokens.yaml"), None
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            opened = open_methods(settings, opened, may_be_missing=True)
        Path("tokens.yaml").write_text("tokens: [")
        opened = open_methods(settings, opened, may_be_missing=True)
    assert [event["event"] for event in logs] == ["authentication_method_missing"] * 2, "two different reasons"
    Path("tokens.yaml").write_text("")
    assert not method_list(open_methods(settings, opened))[0].is_failing


def test_unchanged_methods_keep_their_state(tmp_path: Path) -> None:
    provider = IdentityProvider(tmp_path, algorithms=["EdDSA"])
    jwt = f"kind: jwt, issuer: i, audience: a, jwks: '{provider.jwks_file.as_uri()}'"
    Path("tokens.yaml").write_text("")
    opened = open_methods(methods(jwt))
    provider.jwks_file.unlink()
    again = open_methods(methods("kind: tokens, file: tokens.yaml", jwt), opened)
    assert method_list(again)[1] is method_list(opened)[0]


@pytest.mark.parametrize("listen", ["127.0.0.1:1", "127.1.2.3:1", "localhost:1", "[::1]:1", "[::ffff:127.0.0.1]:1"])
def test_loopback_needs_no_method(listen: str) -> None:
    check_listen_address(read(f"--listen={listen}"))


@pytest.mark.parametrize(
    "listen",
    ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "[2001:db8::1]:1", "0:1", "[::ffff:0.0.0.0]:1", "does-not-exist.invalid:1"],
)
def test_other_address_needs_a_method_or_the_option(listen: str) -> None:
    with pytest.raises(SettingError) as error:
        check_listen_address(read(f"--listen={listen}"))
    assert f"[{listen}]" in str(error.value)
    assert "--allow-unauthenticated" in str(error.value)
    check_listen_address(read(f"--listen={listen}", "--allow-unauthenticated"))
    check_listen_address(read(f"--listen={listen}", "--authentication=[{kind: tokens, file: /a}]"))


def test_option_contradicts_a_method() -> None:
    settings = read("--allow-unauthenticated", "--authentication=[{kind: tokens, file: /a}]")
    with pytest.raises(SettingError, match="authentication and allow_unauthenticated contradict each other"):
        check_listen_address(settings)


def test_reload_cannot_change_how_certificates_are_requested() -> None:
    tls = "--tls={certificate: a, key: b, client_ca: c}"
    tokens, only, both = (
        read("--authentication=[{kind: tokens, file: /a}]"),
        read("--authentication=[{kind: certificate}]", tls),
        read("--authentication=[{kind: certificate}, {kind: tokens, file: /a}]", tls),
    )
    for before, after in ((tokens, both), (both, tokens), (only, both), (both, only)):
        with pytest.raises(SettingError, match="This needs a restart"):
            check_method_changes(before, after)
    check_method_changes(both, both)


def test_reload_cannot_remove_all_methods() -> None:
    none, tokens = read(), read("--authentication=[{kind: tokens, file: /a}]")
    with pytest.raises(SettingError, match="every client could act as any user"):
        check_method_changes(tokens, none)
    check_method_changes(none, tokens)
    check_method_changes(none, none)


@pytest.mark.parametrize(
    ("arguments", "events"),
    [
        ([], []),
        (["--allow-unauthenticated", "--listen=0.0.0.0:1"], ["unauthenticated_clients_allowed"]),
        (["--authentication=[{kind: tokens, file: /a}]", "--listen=127.0.0.1:1"], []),
        (["--authentication=[{kind: tokens, file: /a}]", "--listen=0.0.0.0:1"], ["tokens_not_encrypted"]),
        (["--authentication=[{kind: tokens, file: /a}]", "--listen=0.0.0.0:1", "--tls={certificate: a, key: b}"], []),
        ([f"--authentication=[{{{JWT}, jwks: 'http://192.0.2.1/j'}}]"], ["jwks_not_encrypted"]),
        ([f"--authentication=[{{{JWT}, jwks: 'http://127.0.0.1:8080/j'}}]"], []),
        ([f"--authentication=[{{{JWT}, jwks: 'https://192.0.2.1/j'}}]"], []),
    ],
)
def test_start_warns_about_risks(arguments: list[str], events: list[str]) -> None:
    with capture_logs() as logs:
        log_risks(read(*arguments))
    assert [line["event"] for line in logs] == events
    assert all(line["log_level"] == "warning" for line in logs)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--admins=ops"], "it needs an authentication method"),
        (["--admins=group:", "--authentication=[{kind: tokens, file: /a}]"], "a group such as group:admins"),
        (["--admins=ops,", "--authentication=[{kind: tokens, file: /a}]"], "a group such as group:admins"),
    ],
)
def test_administrators_need_names_and_a_method(arguments: list[str], problem: str) -> None:
    with pytest.raises(SettingError, match="of the setting admins is not valid") as error:
        read(*arguments)
    assert problem in str(error.value)
    assert read("--admins=ops,group:admins", "--authentication=[{kind: tokens, file: /a}]").admins == (
        "ops",
        "group:admins",
    )
