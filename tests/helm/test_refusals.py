"""Values that the chart does not take: the refusal names the value, and what the templates refuse has a way out."""

from typing import Any

import pytest

from tests.helm.chart import CHART, MINIMAL, Helm, HelmError, Values, with_values

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
    "a duration without a unit that exists": ("config.lease_duration", "15 minutes"),
    "a share of more than all": ("config.mass_expiry_share", 1.5),
    "a log level that does not exist": ("config.log_level", "loud"),
    "a size that is none": ("config.max_session_bytes", "much"),
    "a workspace in an unknown place": ("workspaces", {"dfs.tmp": "hdfs://name-node/tmp"}),
    "a workspace with a relative path": ("workspaces", {"dfs.tmp": "file://tmp"}),
    "an access mode for one": ("volume.accessModes", ["ReadOnlyMany"]),
    "a size of a volume that is none": ("volume.size", "big"),
    "a volume of a name that is taken": ("extraVolumes", [{"name": "config", "emptyDir": {}}]),
    "a name that is too long": ("fullnameOverride", "a" * 41),
    "a name with capitals": ("fullnameOverride", "Lodge"),
    "a digest that is none": ("image.digest", "sha256:abc"),
    "a pull policy that does not exist": ("image.pullPolicy", "Sometimes"),
    "a secret without a name": ("imagePullSecrets", ["registry"]),
    "a budget of a half": ("gateway.podDisruptionBudget.maxUnavailable", 0.5),
    "a label that is no text": ("labels", {"number": 1}),
    "a switch that is a text": ("rbac.create", "yes"),
    "a variable without a name": ("gateway.extraEnv", [{"value": "x"}]),
}


@pytest.mark.parametrize(("path", "value"), WRONG.values(), ids=WRONG.keys())
def test_the_schema_names_what_is_wrong(helm: Helm, path: str, value: object) -> None:
    message = _refusal(helm, with_values(MINIMAL, _at(path, value)))
    assert "values don't meet the specifications of the schema(s)" in message
    parent, _, key = path.rpartition(".")
    assert f"/{path.replace('.', '/')}" in message or (f"at '{parent and '/' + parent}'" in message and key in message)


LACKING: dict[str, tuple[Values, str, str]] = {
    "no backend": ({"backend": {"addresses": []}}, "backend.addresses is empty", "sc://"),
    "no volume": (
        {"volume": {"existingClaim": ""}},
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
    "a bucket for anything else": (
        {"workspaces": {"dfs": "s3://bucket/files"}},
        "workspaces has [dfs] at [s3://bucket/files]",
        "file:/// URI",
    ),
    "no time to stop": ({"gateway": {"preStopSeconds": 60}}, "gateway.terminationGracePeriodSeconds", "leave time"),
    "no service account": (
        {"reaper": {"serviceAccount": {"create": False}}},
        "reaper.serviceAccount.name is empty",
        "name the service account",
    ),
}


@pytest.mark.parametrize(("values", "what", "way_out"), LACKING.values(), ids=LACKING.keys())
def test_a_refusal_has_a_way_out(helm: Helm, values: Values, what: str, way_out: str) -> None:
    message = _refusal(helm, with_values(MINIMAL, values))
    assert what in message
    assert way_out in message


def _refusal(helm: Helm, values: Values) -> str:
    with pytest.raises(HelmError) as refused:
        helm.run("template", "lodge", CHART, values=values)
    return str(refused.value)


def _at(path: str, value: object) -> Values:
    for key in reversed(path.split(".")):
        value = {key: value}
    assert isinstance(value, dict)
    return value
