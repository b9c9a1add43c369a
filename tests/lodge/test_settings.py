import re
from datetime import timedelta
from pathlib import Path

import pytest

from gateway.config import Limits
from lodge.command_errors import SettingError
from lodge.reaper_process import environment_for
from lodge.serve import config_for
from lodge.settings import ReapSettings
from lodge.workspace_settings import workspaces_from
from tests.lodge.arguments import read

pytestmark = pytest.mark.usefixtures("no_settings_outside")


def file(content: str) -> str:
    Path("lodge.yaml").write_text(content)
    return "--config=lodge.yaml"


def test_defaults_are_those_of_the_reference() -> None:
    settings = read()
    assert settings.listen == "127.0.0.1:15002"
    assert settings.backend == ()
    assert settings.workspace == {}
    assert settings.default_temporary_workspace == "dfs.tmp"
    assert settings.session_idle_timeout == timedelta(minutes=60)
    assert settings.lease_duration == timedelta(seconds=15)
    assert settings.grace_period == timedelta(seconds=60)
    assert settings.reaper is True
    assert settings.log_level == "info"
    assert settings.log_query_text is False
    assert settings.max_message_bytes == 128 * 1024 * 1024
    assert settings.spark_driver_memory == "2g"
    assert settings.writable_workspace == ()
    assert settings.max_session_tables is settings.max_session_bytes is None
    assert settings.max_principal_tables is settings.max_principal_bytes is None
    assert settings.detached_timeout == timedelta(minutes=5)
    assert settings.impersonation is False
    assert settings.principal_backend == {}
    assert settings.records == "files"
    assert settings.kubeconfig is settings.namespace is None
    assert settings.instance == "lodge"
    assert settings.removals == 4
    assert settings.resync_period == timedelta(minutes=5)
    assert settings.mass_expiry_share == 1.0
    assert settings.mass_expiry_minimum == 20
    assert settings.metrics_listen is None
    assert settings.leader_election is False
    assert settings.pod_name is settings.pod_uid is settings.node_name is None


def test_records_on_kubernetes_enable_leader_election_and_mass_expiry() -> None:
    settings = read("--records", "kubernetes", model=ReapSettings)
    assert settings.leader_election is True
    assert settings.mass_expiry_share == 0.5
    settings = read("--records", "kubernetes", "--no-leader-election", "--mass-expiry-share", "1", model=ReapSettings)
    assert settings.leader_election is False
    assert settings.mass_expiry_share == 1.0


def test_leader_election_needs_kubernetes() -> None:
    with pytest.raises(
        SettingError, match=r"\[True\] of the setting leader_election is not valid: it needs --records kubernetes"
    ):
        read("--leader-election", model=ReapSettings)


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("records", "etcd", "Input should be 'files' or 'kubernetes'"),
        ("instance", "Lodge", "at most 40 lower-case letters"),
        ("instance", "a" * 41, "at most 40 lower-case letters"),
        ("namespace", "a_b", "at most 63 lower-case letters"),
        ("mass-expiry-share", "0", "greater than 0"),
        ("mass-expiry-share", "1.5", "less than or equal to 1"),
        ("mass-expiry-minimum", "0", "greater than or equal to 1"),
        ("removals", "0", "greater than or equal to 1"),
        ("metrics-listen", "9090", "it must be HOST:PORT"),
    ],
)
def test_bad_reaper_setting_is_refused_alone(option: str, value: str, reason: str) -> None:
    with pytest.raises(SettingError) as refused:
        read(f"--{option}={value}")
    [line] = str(refused.value).splitlines()
    assert line.startswith(f"The value [{value}] of the setting {option.replace('-', '_')} is not valid: ")
    assert reason in line


def test_option_overrides_variable_and_variable_overrides_file(monkeypatch: pytest.MonkeyPatch) -> None:
    config = file("listen: h:1\nlog_level: error\ngrace_period: 7s\nworkspace: {a: file:///a}\n")
    monkeypatch.setenv("LODGE_LISTEN", "h:2")
    monkeypatch.setenv("LODGE_LOG_LEVEL", "warning")
    monkeypatch.setenv("LODGE_WORKSPACE", "b=file:///b")
    settings = read(config, "--listen", "h:3")
    assert settings.listen == "h:3"
    assert settings.log_level == "warning"
    assert settings.grace_period == timedelta(seconds=7)
    assert settings.workspace == {"b": "file:///b"}


def test_every_setting_can_be_an_option() -> None:
    settings = read(
        *("--backend", "sc://a:1", "--backend", "sc://b:2", "--workspace", "dfs=file:///x"),
        *("--workspace", "dfs.tmp=file:///y=z", "--no-reaper", "--log-query-text", "--max-message-bytes", "1MiB"),
        *("--session-idle-timeout", "1h30m", "--spark-driver-memory", "512m", "--log-level", "DEBUG"),
    )
    assert settings.backend == ("sc://a:1", "sc://b:2")
    assert settings.workspace == {"dfs": "file:///x", "dfs.tmp": "file:///y=z"}
    assert (settings.reaper, settings.log_query_text) == (False, True)
    assert settings.max_message_bytes == 1024 * 1024
    assert settings.session_idle_timeout == timedelta(minutes=90)
    assert (settings.spark_driver_memory, settings.log_level) == ("512m", "debug")
    settings = read(
        *("--writable-workspace", "a", "--writable-workspace", "b.c", "--max-session-tables", "0"),
        *("--max-session-bytes", "10GiB", "--max-principal-tables", "7", "--max-principal-bytes", "5"),
        *("--detached-timeout", "30s", "--impersonation"),
        *("--principal-backend", "ada=sc://h:1", "--principal-backend", "bob=sc://h:2"),
    )
    assert settings.writable_workspace == ("a", "b.c")
    assert (settings.max_session_tables, settings.max_session_bytes) == (0, 10 * 1024**3)
    assert (settings.max_principal_tables, settings.max_principal_bytes) == (7, 5)
    assert settings.detached_timeout == timedelta(seconds=30)
    assert settings.impersonation is True
    assert settings.principal_backend == {"ada": "sc://h:1", "bob": "sc://h:2"}


def test_variables_contain_lists_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LODGE_BACKEND", "sc://a:1, sc://b:2")
    monkeypatch.setenv("LODGE_WORKSPACE", "dfs=file:///x,dfs.tmp=file:///y")
    monkeypatch.setenv("LODGE_REAPER", "false")
    monkeypatch.setenv("LODGE_WRITABLE_WORKSPACE", "dfs, a")
    monkeypatch.setenv("LODGE_PRINCIPAL_BACKEND", "ada=sc://a:1, x=y=sc://b:2")
    monkeypatch.setenv("LODGE_MAX_SESSION_BYTES", "1KiB")
    settings = read()
    assert settings.writable_workspace == ("dfs", "a")
    assert settings.principal_backend == {"ada": "sc://a:1", "x=y": "sc://b:2"}
    assert settings.max_session_bytes == 1024
    assert settings.backend == ("sc://a:1", "sc://b:2")
    assert settings.workspace == {"dfs": "file:///x", "dfs.tmp": "file:///y"}
    assert settings.reaper is False


def test_file_contains_lists_mappings_and_keys_like_options() -> None:
    settings = read(file("backend: [sc://a:1, sc://b:2]\nworkspace:\n  dfs: file:///x\nlease-duration: 2.5\n"))
    assert settings.backend == ("sc://a:1", "sc://b:2")
    assert settings.workspace == {"dfs": "file:///x"}
    assert settings.lease_duration == timedelta(seconds=2.5)
    settings = read(
        file(
            "writable-workspace: [a, b]\nprincipal_backend: {ada: 'sc://a:1'}\nmax_session_tables: 3\n"
            "max_principal_bytes: 10MiB\nimpersonation: yes\ndetached_timeout: 1m\n"
        )
    )
    assert settings.writable_workspace == ("a", "b")
    assert settings.principal_backend == {"ada": "sc://a:1"}
    assert (settings.max_session_tables, settings.max_principal_bytes) == (3, 10 * 1024**2)
    assert (settings.impersonation, settings.detached_timeout) == (True, timedelta(minutes=1))


def test_empty_file_changes_nothing() -> None:
    assert read(file("")) == read()


def test_variable_may_name_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    file("listen: h:1\n")
    monkeypatch.setenv("LODGE_CONFIG", "lodge.yaml")
    assert read().listen == "h:1"


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("500ms", 0.5), ("5m", 300), ("1h", 3600), ("15", 15), ("0.5", 0.5)]
)
def test_duration_is_a_number_with_a_unit_or_of_seconds(text: str, seconds: float) -> None:
    assert read("--lease-duration", text).lease_duration == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("listen", "15002"),
        ("listen", "host:99999"),
        ("listen", ""),
        ("listen", "host:1/path"),
        ("backend", "http://h:1"),
        ("backend", "sc://h"),
        ("backend", "sc://h:1/path"),
        ("workspace", "file:///x"),
        ("workspace", "a name=file:///x"),
        ("session-idle-timeout", "soon"),
        ("lease-duration", "0"),
        ("lease-duration", "-5s"),
        ("lease-duration", "1s--2s"),
        ("lease-duration", "1.2.3s"),
        ("grace-period", "3mm"),
        ("grace-period", "nan"),
        ("grace-period", "9999999999999h"),
        ("log-level", "loud"),
        ("max-message-bytes", "0"),
        ("max-message-bytes", "3GiB"),
        ("spark-driver-memory", "much"),
        ("max-session-tables", "-1"),
        ("max-session-tables", "many"),
        ("max-session-bytes", "-1"),
        ("max-principal-bytes", "10 bananas"),
        ("detached-timeout", "0"),
        ("principal-backend", "sc://h:1"),
        ("principal-backend", "=sc://h:1"),
    ],
)
def test_bad_value_is_refused_with_key_and_instruction(option: str, value: str) -> None:
    with pytest.raises(SettingError) as refused:
        read(f"--{option}={value}")
    key = option.replace("-", "_")
    message = str(refused.value)
    assert re.match(rf"The value \[.*\] of the setting {key} is not valid: ", message)
    assert value in message
    assert f"--{option}, LODGE_{key.upper()} or {key} in the --config file" in message
    assert "\n" not in message


def test_bad_principal_backend_is_refused_with_its_value() -> None:
    with pytest.raises(
        SettingError, match=r"\[http://h:1\] of the setting principal_backend .*: it must be sc://HOST:PORT"
    ):
        read("--principal-backend", "ada=http://h:1")


def test_each_bad_value_has_its_own_line() -> None:
    with pytest.raises(SettingError) as refused:
        read("--listen=x", "--log-level=y")
    assert len(str(refused.value).splitlines()) == 2


def test_refusal_masks_credentials_in_an_address() -> None:
    with pytest.raises(SettingError) as refused:
        read("--backend", "sc://ada:hidden@h:1/;token=hidden")
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("listn: h:1", "[listn]"),
        ("1: h", "[lodge.yaml]"),
        ("lease-duration: 1s\nlease_duration: 2s", "[lease_duration]"),
        ("listen: 15002", "[15002]"),
        ("backend:", "The setting backend is not valid"),
        ("lease_duration: true", "The value [True] of the setting lease_duration is not valid"),
        ("reaper: perhaps", "[perhaps]"),
        ("- listen", "[lodge.yaml]"),
        ("only text", "[lodge.yaml]"),
        ("listen: [", "[lodge.yaml]"),
    ],
)
def test_bad_file_is_refused_with_its_error(content: str, named: str) -> None:
    with pytest.raises(SettingError) as refused:
        read(file(content))
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


def test_missing_file_is_refused_with_its_name() -> None:
    with pytest.raises(SettingError, match=r"\[none\.yaml\]"):
        read("--config=none.yaml")


def test_one_file_serves_both_commands() -> None:
    settings = read(file("listen: h:1\ngrace_period: 7s\n"), model=ReapSettings)
    assert settings.grace_period == timedelta(seconds=7)


def test_reaper_is_off_by_default_in_kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert read().reaper is False
    assert read("--reaper").reaper is True


def test_service_variables_of_kubernetes_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LODGE_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("LODGE_PORT", "tcp://10.0.0.1:15002")
    assert read() == read()


def test_default_workspaces_are_current_and_state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    workspaces = workspaces_from(read())
    assert workspaces.by_name["dfs"].root == tmp_path
    assert workspaces.temporary.root == tmp_path / "state" / "lodge" / "dfs.tmp"
    assert workspaces.temporary.root.stat().st_mode & 0o777 == 0o700


def test_relative_state_directory_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert workspaces_from(read()).temporary.root == tmp_path / "home" / ".local" / "state" / "lodge" / "dfs.tmp"


def test_named_workspace_is_never_created(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(SettingError, match=r"\[dfs\.tmp\] does not exist"):
        workspaces_from(read("--workspace", f"dfs.tmp={missing.as_uri()}"))
    assert not missing.exists()


def test_default_temporary_workspace_must_exist_among_workspaces(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"\[dfs\.tmp\] is not among the workspaces \[dfs\]"):
        workspaces_from(read("--workspace", f"dfs={tmp_path.as_uri()}"))


def test_writable_workspace_must_exist_and_be_writable(tmp_path: Path) -> None:
    uris = ("--workspace", f"dfs.tmp={tmp_path.as_uri()}", "--workspace", f"a={tmp_path.as_uri()}")
    workspaces = workspaces_from(read(*uris))
    assert {name: one.is_writable for name, one in workspaces.by_name.items()} == {"dfs.tmp": True, "a": False}
    workspaces = workspaces_from(read(*uris, "--writable-workspace", "a"))
    assert {name: one.is_writable for name, one in workspaces.by_name.items()} == {"dfs.tmp": True, "a": True}
    with pytest.raises(
        SettingError, match=r"\[A\] is not among the workspaces \[dfs\.tmp\], \[a\].*--writable-workspace"
    ):
        workspaces_from(read(*uris, "--writable-workspace", "A"))


def test_gateway_config_contains_limits_and_backends(tmp_path: Path) -> None:
    given = read(
        *("--workspace", f"dfs.tmp={tmp_path.as_uri()}", "--backend", "sc://h:1", "--max-session-tables", "3"),
        *("--max-session-bytes", "1KiB", "--max-principal-tables", "4", "--detached-timeout", "7s"),
        *("--principal-backend", "ada=sc://h:2"),
    )
    config = config_for(given, workspaces_from(given), None)
    assert config.limits == Limits(session_tables=3, session_bytes=1024, principal_tables=4, principal_bytes=None)
    assert config.detached_timeout_seconds == 7
    assert (config.impersonation, config.principal_backends) == (False, {"ada": "sc://h:2"})


def test_reaper_process_gets_the_same_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    awkward = tmp_path / "a, b=ü%"
    awkward.mkdir()
    monkeypatch.setenv("LODGE_CONFIG", "gone.yaml")
    given = read(
        file(f"workspace: {{'scratch': '{awkward.as_uri()}'}}\n"),
        *("--default-temporary-workspace=scratch", "--lease-duration=1500ms", "--grace-period=2m"),
        *("--log-level=debug",),
    )
    for name, value in environment_for(given, workspaces_from(given)).items():
        monkeypatch.setenv(name, value)
    read_back = read(model=ReapSettings)
    assert workspaces_from(read_back) == workspaces_from(given)
    for name in set(ReapSettings.model_fields) - {"workspace"}:
        assert getattr(read_back, name) == getattr(given, name)
