"""The chart refuses wrong values, and each refusal names the value and a fix."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from lodge.command_errors import SettingError
from lodge.settings import ServeSettings
from tests.helm.chart import BACKEND, CERTIFIED, CHART, MINIMAL, Helm, HelmError, Values, configuration, with_values
from tests.helm.settings import read_settings

WRONG: dict[str, tuple[str, Any]] = {
    "an unknown value": ("replicas", 3),
    "an unknown value further down": ("gateway.replica", 3),
    "an address without a scheme": ("backend.addresses", ["spark:15002"]),
    "an address without a port": ("backend.addresses", ["sc://spark"]),
    "an address with parameters": ("backend.addresses", ["sc://spark:15002/;token=abc"]),
    "one address for a list": ("backend.addresses", "sc://spark:15002"),
    "a negative number": ("gateway.replicas", -1),
    "a number as a text": ("reaper.replicas", "two"),
    "a privileged port": ("gateway.port", 443),
    "a port that is none": ("gateway.service.port", 70000),
    "a setting that Lodge does not know": ("config.lease", "15s"),
    "a setting that the chart decides": ("config.records", "files"),
    "an address with a port that is none": ("backend.addresses", ["sc://spark:65536"]),
    "a workspace in an unknown place": ("workspaces", {"dfs.tmp": "ftp://host/tmp"}),
    "a workspace with a relative path": ("workspaces", {"dfs.tmp": "file://tmp"}),
    "an unknown source of the certificate": ("tls.source", "vault"),
    "a method that does not exist": ("authentication.ldap", {}),
    "a method without an issuer": ("authentication.jwt", [{"jwks": "file:///jwks", "audience": "lodge"}]),
    "an audience that is no text": ("authentication.kubernetes.audiences", [7]),
    "a secret with a path for a key": ("authentication.tokens.key", "../tokens"),
    "an administrator with a comma": ("admins", ["ops,dev"]),
    "clients that are no list": ("networkPolicy.clients", {"podSelector": {}}),
    "an access mode for one": ("volume.accessModes", ["ReadOnlyMany"]),
    "a size of a volume that is none": ("volume.size", "big"),
    "a volume of a name that is taken": ("extraVolumes", [{"name": "config", "emptyDir": {}}]),
    "a name that is too long": ("fullnameOverride", "a" * 41),
    "a name with capitals": ("fullnameOverride", "Lodge"),
    "a digest that is none": ("image.digest", "sha256:abc"),
    "a pull policy that does not exist": ("image.pullPolicy", "Sometimes"),
    "a secret without a name": ("imagePullSecrets", ["registry"]),
    "a budget of a half": ("gateway.podDisruptionBudget.maxUnavailable", 0.5),
    "a registry with a scheme": ("global.imageRegistry", "https://registry.example.com"),
    "a label that is no text": ("labels", {"number": 1}),
    "a switch that is a text": ("rbac.create", "yes"),
    "an undecided switch": ("spark.enabled", "perhaps"),
    "no server": ("spark.replicas", 0),
    "memory in another notation": ("spark.memory", "2Gi"),
    "a property of another program": ("spark.config", {"hadoop.x": "1"}),
    "a property with two lines": ("spark.config", {"spark.x": "1\nspark.y=2"}),
    "no executors": ("spark.executor.instances", 0),
    "a timeout without a unit": ("spark.executor.dynamicAllocation.idleTimeout", "60"),
    "a container without an image": ("gateway.initContainers", [{"name": "wait"}]),
    "a second container of the same name": ("reaper.extraContainers", [{"name": "reaper", "image": "tool"}]),
    "a volume of a gateway with a name that is taken": ("gateway.extraVolumes", [{"name": "tmp", "emptyDir": {}}]),
    "options in one text": ("gateway.extraArgs", "--log-level debug"),
    "an object without a kind": ("extraObjects", [{"metadata": {"name": "x"}}]),
    "a port in the name of a host": ("gateway.ingress.hosts", ["lodge.example.com:443"]),
    "a target of the processor that is none": ("gateway.autoscaling.cpu", "60%"),
    "an interval without a unit": ("monitoring.podMonitor.interval", "30"),
    "an alert of another program": ("monitoring.rules.disabled", ["Watchdog"]),
    "a variable without a name": ("gateway.extraEnv", [{"value": "x"}]),
}


def _separate() -> Sequence[Sequence[tuple[str, Any]]]:
    """Return the wrong values in sets, in which no path begins another one. Helm names all wrong values of a set."""
    sets: list[list[tuple[str, Any]]] = []
    for path, value in WRONG.values():
        first = next((each for each in sets if not any(_overlap(path, other) for other, _ in each)), None)
        if first is None:
            sets.append(first := [])
        first.append((path, value))
    return sets


def _overlap(path: str, other: str) -> bool:
    return path == other or path.startswith(f"{other}.") or other.startswith(f"{path}.")


@pytest.mark.parametrize("wrong", _separate(), ids=lambda wrong: f"{len(wrong)} values")
def test_schema_names_wrong_values(helm: Helm, wrong: Sequence[tuple[str, Any]]) -> None:
    message = _refusal(helm, with_values(MINIMAL, *(_at(path, value) for path, value in wrong)))
    assert "values don't meet the specifications of the schema(s)" in message
    lines = message.splitlines()
    for path, _ in wrong:
        parent, _, key = path.rpartition(".")
        named, above = f"/{path.replace('.', '/')}", f"at '{parent and '/' + parent.replace('.', '/')}'"
        assert f"{named}'" in message or f"{named}/" in message or any(above in each and key in each for each in lines)


_DURATIONS = {
    "taken": (1, 0.5, 99999999, "20", "500ms", "0.001ms", "0.5s", "1h30m", "99999999d"),
    "refused": (0, -1, True, "0s", "0", "0m0.0s", "0.0001ms", "-5m", "1h30", "15 minutes", "s", "", "999999999999d"),
}
_SIZES = {
    "taken": (0, 1073741824, "0", "1000", "10B", "10K", "10GB", "10GiB", "1.5tib", "512 MiB"),
    "refused": (-1, "-1", "10Gi", "1.5Ki", "much", "GiB", "", "1 0", "10GiBs", f"{400 * '9'}GiB"),
}
_LIMITS = {"taken": (0, 1000, 2**53 - 1), "refused": (-1, 1.5, "many", [1])}
_COUNTS = {"taken": (1, 1000), "refused": (0, -1, 1.5, "many")}
_MEMORY_SIZES = {
    "taken": (1, 1073741824, "1", "1000", "10B", "10K", "1.5tib", "512 MiB"),
    "refused": (0, -1, "0", "0B", "-1", "10Gi", "much", "GiB", "", "1 0"),
}
_SWITCHES = {"taken": (True, False), "refused": ("perhaps", 2, [])}

SETTINGS: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "audit_log": {"taken": ("-", "none", "/var/log/lodge/audit.log"), "refused": ("", 7, ["-"])},
    "failed_logins_per_minute": _COUNTS,
    "max_connections": _COUNTS,
    "max_principal_requests_in_flight": _COUNTS,
    "max_principal_sessions": _COUNTS,
    "max_principal_statements": _COUNTS,
    "max_requests_in_flight": _COUNTS,
    "max_sessions": _COUNTS,
    "max_statements": _COUNTS,
    "new_sessions_per_minute": _COUNTS,
    "principal_new_sessions_per_minute": _COUNTS,
    "principal_requests_per_second": _COUNTS,
    "backend_keepalive": _DURATIONS,
    "connection_idle_timeout": _DURATIONS,
    "max_connection_age": _DURATIONS,
    "request_timeout": _DURATIONS,
    "max_principal_request_bytes_in_flight": _MEMORY_SIZES,
    "max_principal_response_bytes_in_flight": _MEMORY_SIZES,
    "max_request_bytes_in_flight": _MEMORY_SIZES,
    "max_response_bytes_in_flight": _MEMORY_SIZES,
    "default_temporary_workspace": {"taken": ("dfs.tmp",), "refused": (7, ["dfs.tmp"], True)},
    "detached_timeout": _DURATIONS,
    "grace_period": _DURATIONS,
    "leader_election": _SWITCHES,
    "lease_duration": _DURATIONS,
    "log_level": {"taken": ("debug", "error"), "refused": ("loud", "", 1)},
    "log_query_text": _SWITCHES,
    "mass_expiry_minimum": _COUNTS,
    "mass_expiry_share": {"taken": (1, 0.5, 0.0000001), "refused": (0, -0.5, 1.5, "most")},
    "max_message_bytes": {
        "taken": (1, 2**31 - 1, "999999999", "64 MiB", "2047.999MiB", "2047M", "1.999GiB", "2GB", "0.001k", "0.5GiB"),
        "refused": (0, -1, 2**31, "0", "0B", "0.0KiB", "0.9", "0.0001KiB", "2048MiB", "2GiB", "4GiB", "1TiB", "1Gi"),
    },
    "max_plan_bytes": _MEMORY_SIZES,
    "max_principal_bytes": _SIZES,
    "max_principal_tables": _LIMITS,
    "max_session_bytes": _SIZES,
    "max_session_tables": _LIMITS,
    "principal_backend": {
        "taken": ({}, {"ada": BACKEND, "bob@example.com": "sc://[fd00::7]:65535", "123": "sc://10.0.0.7:1"}),
        "refused": (
            ["ada"],
            {"ada": 15002},
            {"ada": [BACKEND]},
            *(
                {"ada": address}
                for address in (
                    "",
                    "spark:15002",
                    "sc://spark",
                    "sc://spark:0",
                    "sc://spark:65536",
                    "sc://spark:15002/;token=abc",
                    "sc://ada@spark:15002",
                    "sc://fd00::7:15002",
                )
            ),
        ),
    },
    "removals": _COUNTS,
    "resync_period": _DURATIONS,
    "session_idle_timeout": _DURATIONS,
    "spark_readers": _SWITCHES,
    "stall_limit": {**_DURATIONS, "taken": (2, 2.5, "20", "2000ms", "1m", "99999999d")},
    "writable_workspace": {"taken": ([], ["dfs", "raw"]), "refused": ([7], {"dfs": "dfs"}, 7)},
}
"""Values that both the chart's schema and Lodge accept, and values that both refuse."""


def _rounds(kind: str) -> Sequence[Mapping[str, Any]]:
    """Return sets of all settings, until each value of each setting was used."""
    turns = range(max(len(values[kind]) for values in SETTINGS.values()))
    return [{name: values[kind][turn % len(values[kind])] for name, values in SETTINGS.items()} for turn in turns]


def test_every_setting_has_values_to_try() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert set(SETTINGS) == set(schema["properties"]["config"]["properties"])


@pytest.mark.parametrize("config", _rounds("taken"))
def test_schema_accepts_what_lodge_accepts(helm: Helm, tmp_path: Path, config: Mapping[str, Any]) -> None:
    given = _read(config, tmp_path)
    rendered = read_settings(configuration(helm.template(with_values(CERTIFIED, {"config": config}))), tmp_path)
    assert {name: getattr(rendered, name) for name in config} == {name: getattr(given, name) for name in config}


@pytest.mark.parametrize("config", _rounds("refused"))
def test_schema_refuses_what_lodge_refuses(helm: Helm, tmp_path: Path, config: Mapping[str, Any]) -> None:
    with pytest.raises(SettingError) as refused:
        _read(config, tmp_path)
    lodge, schema = str(refused.value), _refusal(helm, with_values(CERTIFIED, {"config": config}))
    assert not {name: value for name, value in config.items() if f"of the setting {name} is" not in lodge}
    assert not {name: value for name, value in config.items() if not re.search(f"/config/{name}['/]", schema)}


LACKING: dict[str, tuple[Values, str, str]] = {
    "no backend": (
        {"backend": {"addresses": []}, "spark": {"enabled": False}},
        "backend.addresses is empty and spark.enabled is false",
        "spark.enabled to true",
    ),
    "a selector of pods without addresses": (
        {"backend": {"addresses": [], "podSelector": {"app": "spark"}}},
        "backend.podSelector is set",
        "Set backend.addresses",
    ),
    "one port of Spark for two purposes": (
        {"spark": {"enabled": True, "driverPort": 15002}},
        "spark.port, spark.driverPort and spark.blockManagerPort are [15002 15002 7079]",
        "must differ",
    ),
    "a property of Spark that the chart decides": (
        {"spark": {"enabled": True, "config": {"spark.driver.port": 7}}},
        "spark.config has [spark.driver.port]",
        "Remove it",
    ),
    "a token that clients could read": (
        {"spark": {"enabled": True, "config": {"spark.connect.authenticate.token": "x"}}},
        "spark.config has [spark.connect.authenticate.token]",
        "Remove it",
    ),
    "more executors than the maximum": (
        {"spark": {"enabled": True, "executor": {"dynamicAllocation": {"enabled": True, "minExecutors": 11}}}},
        "minExecutors is 11, but maxExecutors is 10",
        "at most maxExecutors",
    ),
    "no service account of Spark": (
        {"spark": {"enabled": True, "serviceAccount": {"create": False}}},
        "spark.serviceAccount.name is empty",
        "name of an existing service account",
    ),
    "no service account of executors": (
        {"spark": {"enabled": True, "executor": {"serviceAccount": {"create": False}}}},
        "spark.executor.serviceAccount.name is empty",
        "name of an existing service account",
    ),
    "no volume": (
        {"volume": {"existingClaim": "", "create": False}},
        "workspaces has [dfs.tmp] at [file:///workspace]",
        "volume.create",
    ),
    "a workspace beside the volume": (
        {"workspaces": {"dfs": "file:///workspaces"}},
        "workspaces has [dfs] at [file:///workspaces]",
        "extraVolumeMounts",
    ),
    "two claims": ({"volume": {"create": True}}, "volume.existingClaim is [files]", "one of them"),
    "no temporary workspace": (
        {"config": {"default_temporary_workspace": "s3.tmp"}},
        "workspaces has no [s3.tmp]",
        "config.default_temporary_workspace",
    ),
    "a default workspace that is not wanted": (
        {
            "volume": {"existingClaim": "", "create": False},
            "workspaces": {"s3.tmp": "s3://bucket/lodge"},
            "config": {"default_temporary_workspace": "s3.tmp"},
        },
        "workspaces has [dfs.tmp] at [file:///workspace]",
        "workspaces: {dfs.tmp: null}",
    ),
    "temporary tables in a storage for raw files": (
        {"workspaces": {"dfs.tmp": "gs://bucket/files"}},
        "workspaces has [dfs.tmp] at [gs://bucket/files]",
        "file:/// or s3:// URI",
    ),
    "no authentication": (
        {"authentication": {"kubernetes": {"enabled": False}}},
        "authentication has no method",
        "authentication.allowUnauthenticated to true",
    ),
    "authentication that is not needed": (
        {"authentication": {"allowUnauthenticated": True}},
        "authentication.allowUnauthenticated is true",
        "authentication.kubernetes.enabled to false",
    ),
    "no audience": (
        {"authentication": {"kubernetes": {"audiences": []}}},
        "authentication.kubernetes.audiences is empty",
        "[lodge]",
    ),
    "a stall limit that busy gateways reach": (
        {"config": {"stall_limit": "1s999ms"}},
        "config.stall_limit is [1s999ms]",
        "2s or more",
    ),
    "no certificate": ({"tls": {"source": "secret"}}, "tls.secretName is empty", "tls.source to auto"),
    "a certificate that is not used": (
        {"tls": {"secretName": "mine", "source": "self-signed"}},
        "tls.secretName is [mine]",
        "tls.source to secret",
    ),
    "a certificate without TLS": (
        {"tls": {"secretName": "mine", "enabled": False}},
        "tls.enabled is [false]",
        "tls.enabled to true",
    ),
    "no authority of clients": (
        {"authentication": {"certificate": {"enabled": True}}},
        "authentication.certificate.enabled is true",
        "tls.clientCa.secretName",
    ),
    "an authority without clients": (
        {"tls": {"clientCa": {"secretName": "clients"}}},
        "tls.clientCa.secretName is [clients]",
        "set it to true",
    ),
    "administrators whom anybody can be": (
        {
            "authentication": {"kubernetes": {"enabled": False}, "allowUnauthenticated": True},
            "admins": ["ops"],
        },
        "admins is set",
        "Configure a method",
    ),
    "one port for two purposes": (
        {"gateway": {"metricsPort": 15002}},
        "gateway.port, gateway.metricsPort",
        "must differ",
    ),
    "more gateways at least than at most": (
        {"gateway": {"autoscaling": {"enabled": True, "minReplicas": 11}}},
        "gateway.autoscaling.minReplicas is 11, but maxReplicas is 10",
        "set minReplicas to at most maxReplicas",
    ),
    "an autoscaler without a metric": (
        {"gateway": {"autoscaling": {"enabled": True, "cpu": ""}}},
        "there is no metric",
        "set gateway.autoscaling.cpu",
    ),
    "an ingress without a host": (
        {"gateway": {"ingress": {"enabled": True}}},
        "gateway.ingress.hosts is empty",
        "for example [lodge.example.com]",
    ),
    "a route without a gateway": (
        {"gateway": {"route": {"enabled": True}}},
        "gateway.route.parentRefs is empty",
        "set the Gateway",
    ),
    "no service account": (
        {"reaper": {"serviceAccount": {"create": False}}},
        "reaper.serviceAccount.name is empty",
        "name of an existing service account",
    ),
}


@pytest.mark.parametrize(("values", "what", "way_out"), LACKING.values(), ids=LACKING.keys())
def test_refusal_names_value_and_fix(helm: Helm, values: Values, what: str, way_out: str) -> None:
    message = _refusal(helm, with_values(MINIMAL if "tls" in values else CERTIFIED, values))
    assert what in message
    assert way_out in message


def _refusal(helm: Helm, values: Values) -> str:
    with pytest.raises(HelmError) as refused:
        helm.run("template", "lodge", CHART, values=values)
    return str(refused.value)


def _read(config: Mapping[str, Any], directory: Path) -> ServeSettings:
    return read_settings(yaml.safe_dump({**config, "records": "kubernetes"}), directory)


def _at(path: str, value: object) -> Values:
    for key in reversed(path.split(".")):
        value = {key: value}
    assert isinstance(value, dict)
    return value
