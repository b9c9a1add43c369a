"""The objects that the chart renders from values."""

import tomllib
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from lodge.settings import ServeSettings
from scripts.chart_values import leaves
from tests.helm.cases import CASES, EVERYTHING, IN_A_BUCKET
from tests.helm.chart import (
    BUNDLED,
    CERTIFIED,
    CHART,
    MINIMAL,
    Helm,
    Manifest,
    Values,
    configuration,
    find_object,
    of_kind,
    with_values,
)
from tests.helm.schemas import conform
from tests.helm.settings import read_settings

REPOSITORY = CHART.parents[1]


every_case = pytest.mark.parametrize("values", CASES.values(), ids=CASES.keys())


def test_helm_lint_accepts_chart(helm: Helm) -> None:
    for values in (MINIMAL, EVERYTHING):
        output = helm.run("lint", "--strict", CHART, values=values)
        assert "1 chart(s) linted, 0 chart(s) failed" in output


@pytest.mark.slow
def test_kubernetes_knows_every_object(helm: Helm, schemas: Path) -> None:
    cases = {name: helm.template_all(values) for name, values in CASES.items()}
    for name, manifests in cases.items():
        kinds = {manifest["kind"] for manifest in manifests}
        assert {"Deployment", "Service", "ConfigMap", "CustomResourceDefinition"} <= kinds, name
    assert not conform(list(chain.from_iterable(cases.values())), schemas)


def test_kubeconform_finds_wrong_field(helm: Helm, schemas: Path) -> None:
    manifests = [dict(manifest) for manifest in helm.template(MINIMAL)]
    deployment = next(manifest for manifest in manifests if manifest["kind"] == "Deployment")
    deployment["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    assert "readynessProbe" in conform(manifests, schemas)


@every_case
def test_names_are_unique_and_objects_are_labelled(helm: Helm, values: Values) -> None:
    manifests = [each for each in helm.template_all(values) if each["kind"] != "CustomResourceDefinition"]
    names = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests]
    assert len(set(names)) == len(names)
    for manifest in manifests:
        labels = manifest["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == yaml.safe_load(configuration(manifests))["instance"]
        assert "namespace" not in manifest["metadata"]


@every_case
def test_pods_are_restricted_and_match_their_selectors(helm: Helm, values: Values) -> None:
    manifests = helm.template_all(values)
    for deployment in of_kind(manifests, "Deployment"):
        pod = deployment["spec"]["template"]
        assert pod["metadata"]["labels"].items() >= deployment["spec"]["selector"]["matchLabels"].items()
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        container, *extra = pod["spec"]["containers"]
        for each in (container, *extra, *pod["spec"].get("initContainers", ())):
            assert each["securityContext"]["readOnlyRootFilesystem"] is True
            assert each["securityContext"]["allowPrivilegeEscalation"] is False
            assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
        probes = (container["startupProbe"], container["readinessProbe"], container["livenessProbe"])
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert all(_probed_port(probe, ports) in ports.values() for probe in probes)


@every_case
def test_lodge_accepts_configuration(helm: Helm, tmp_path: Path, values: Values) -> None:
    manifests = helm.template_all(values)
    settings = _settings_of(manifests, tmp_path)
    assert settings.records == "kubernetes"
    assert settings.namespace == "here"
    assert settings.reaper is False
    assert settings.leader_election is True
    assert settings.backend == (*_bundled_servers(manifests), *values.get("backend", {}).get("addresses", ()))
    container = _container(manifests, "gateway", settings.instance)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert settings.listen.endswith(f":{ports['grpc']}")
    metrics = next(entry["value"] for entry in container["env"] if entry["name"] == "LODGE_METRICS_LISTEN")
    assert metrics.endswith(f":{ports['metrics']}")
    has_certificate_port = settings.tls is not None and settings.tls.client_certificate_listen is not None
    assert has_certificate_port == ("grpc-mtls" in ports)
    if settings.tls is not None and settings.tls.client_certificate_listen is not None:
        assert settings.tls.client_certificate_listen.endswith(f":{ports['grpc-mtls']}")


def test_every_setting_reaches_lodge(helm: Helm, tmp_path: Path) -> None:
    settings = _settings_of(helm.template(EVERYTHING), tmp_path)
    defaults = _settings_of(helm.template(MINIMAL), tmp_path)
    same = {name for name in EVERYTHING["config"] if getattr(settings, name) == getattr(defaults, name)}
    assert same == {"default_temporary_workspace", "leader_election"}


def test_grace_period_of_gateways_includes_the_drain(helm: Helm, tmp_path: Path) -> None:
    values = with_values(CERTIFIED, {"gateway": {"drainSeconds": 600, "preStopSeconds": 7}})
    manifests = helm.template(values)
    settings = _settings_of(manifests, tmp_path)
    assert settings.drain_timeout.total_seconds() == 600
    pod = find_object(manifests, "Deployment", f"{settings.instance}-gateway")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 617


OF_THE_CHART = {
    "admins",
    "allow_unauthenticated",
    "authentication",
    "backend",
    "drain_timeout",
    "instance",
    "listen",
    "metrics_listen",
    "namespace",
    "reaper",
    "records",
    "tls",
    "workspace",
}
"""Settings that the chart sets itself."""

OF_SECRETS = {"backend_ca", "backend_certificate", "backend_key", "backend_token_file"}
"""Settings that the chart sets if there is a Secret."""

OF_THE_POD = {"node_name", "pod_name", "pod_uid"}
"""Settings that Kubernetes passes to each pod as environment variables."""

NOT_IN_PODS = {"impersonation", "kubeconfig", "reaper_metrics_listen", "spark_driver_memory"}
"""Settings for other ways to run Lodge."""


def test_schema_has_exactly_the_other_settings(helm: Helm) -> None:
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    known = set(schema["properties"]["config"]["properties"])
    assert known == set(ServeSettings.model_fields) - OF_THE_CHART - OF_SECRETS - OF_THE_POD - NOT_IN_PODS
    manifests = helm.template(MINIMAL)
    assert set(yaml.safe_load(configuration(manifests))) == OF_THE_CHART | {"audit_log"}
    everything = yaml.safe_load(configuration(helm.template(EVERYTHING)))
    assert set(everything) == OF_THE_CHART | OF_SECRETS | set(EVERYTHING["config"])
    variables = {f"LODGE_{name.upper()}" for name in OF_THE_POD}
    for component, more in (("gateway", {"LODGE_METRICS_LISTEN"}), ("reaper", set())):
        assert {entry["name"] for entry in _container(manifests, component)["env"]} == variables | more


def test_schema_has_exactly_the_values() -> None:
    values = dict(leaves(yaml.safe_load((CHART / "values.yaml").read_text())))
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    assert _paths(schema, schema["definitions"]) == set(values)
    assert _open_objects(schema) == OPEN_OBJECTS


def test_case_of_all_values_differs_from_defaults() -> None:
    values = dict(leaves(yaml.safe_load((CHART / "values.yaml").read_text())))
    everything = {path: _at(EVERYTHING, path) for path in values}
    same = {path for path, value in values.items() if everything[path] == value}
    assert (
        same
        == {
            "volume.existingClaim",  # excludes volume.create
            *(f"spark.{key}" for key in SAME_OF_COMPONENTS),
            *(f"spark.executor.{key}" for key in SAME_OF_COMPONENTS[1:]),
            "volume.accessModes",
            "volume.mountPath",
            *(f"{each}.{key}" for each in ("gateway", "reaper") for key in SAME_OF_COMPONENTS),
            "rbac.create",
            "rbac.nodes",
            "authentication.allowUnauthenticated",
            "networkPolicy.enabled",
            "tls.enabled",
        }
    )


SAME_OF_COMPONENTS = ("podDisruptionBudget.enabled", "serviceAccount.create", "serviceAccount.name")


OPEN_OBJECTS = {
    "affinity",
    "behavior",
    "containers",
    "global",
    "jwtMethods",
    "lifecycle",
    "objects",
    "podSecurityContext",
    "securityContext",
    "topologySpreadConstraints",
    "valueFrom",
    "volumeMounts",
    "volumes",
}
"""Values in Kubernetes' own form, which Kubernetes checks."""


def test_chart_has_version_of_lodge() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert chart["appVersion"] == project["version"]


def test_pods_are_replaced_only_when_configuration_changes(helm: Helm) -> None:
    templates = [
        [deployment["spec"]["template"] for deployment in of_kind(helm.template(values), "Deployment")]
        for values in (
            CERTIFIED,
            with_values(CERTIFIED, {"gateway": {"replicas": 3, "service": {"port": 80}}, "rbac": {"nodes": False}}),
            with_values(CERTIFIED, {"config": {"grace_period": "2m"}}),
        )
    ]
    assert templates[0] == templates[1]
    assert all(before != after for before, after in zip(templates[0], templates[2], strict=True))


def test_chart_labels_take_precedence(helm: Helm) -> None:
    theirs = {"app.kubernetes.io/name": "theirs", "app.kubernetes.io/component": "theirs"}
    values = with_values(CERTIFIED, {"labels": theirs, "gateway": {"podLabels": theirs, "service": {"labels": theirs}}})
    manifests = helm.template(values)
    assert {manifest["metadata"]["labels"]["app.kubernetes.io/name"] for manifest in manifests} == {"lodge"}
    for deployment in of_kind(manifests, "Deployment"):
        pod = deployment["spec"]["template"]["metadata"]["labels"]
        assert pod["app.kubernetes.io/component"] == deployment["metadata"]["name"].removeprefix("lodge-")


def test_names_stay_within_limits(helm: Helm, tmp_path: Path) -> None:
    release = "a" * 39 + ".bcdefghijklm"
    manifests = helm.template(MINIMAL, release=release)
    instance = _settings_of(manifests, tmp_path).instance
    assert instance == "a" * 39
    for manifest in manifests:
        assert len(manifest["metadata"]["name"]) <= 63
        assert all(len(str(value)) <= 63 for value in manifest["metadata"]["labels"].values())


def test_global_registry_precedes_every_image(helm: Helm) -> None:
    values = with_values(BUNDLED, {"image": {"tag": "1"}, "spark": {"image": {"tag": "2"}}})
    assert _images(helm.template(values)) == {"lodge:1", "lodge-spark:2"}
    for registry in ("mirror.example.com:5000/cache", "mirror.example.com:5000/cache/"):
        manifests = helm.template(with_values(values, {"global": {"imageRegistry": registry}}))
        assert _images(manifests) == {
            "mirror.example.com:5000/cache/lodge:1",
            "mirror.example.com:5000/cache/lodge-spark:2",
        }


@pytest.mark.parametrize(
    ("release", "name"), [("lodge", "lodge"), ("my-lodge", "my-lodge"), ("etl", "etl-lodge"), ("lodge.eu", "lodge-eu")]
)
def test_name_contains_lodge_once(helm: Helm, release: str, name: str) -> None:
    assert of_kind(helm.template(CERTIFIED, release=release), "Service")[0]["metadata"]["name"] == name


_ODD_POD: Values = {"serviceAccount": {"name": "7"}, "priorityClassName": "0", "nodeSelector": {"1": "2"}}
ODD_TEXTS: Values = {
    "fullnameOverride": "yes",
    "labels": {"true": "1"},
    "annotations": {"2": "null"},
    "image": {"repository": "12", "tag": "30"},
    "imagePullSecrets": [{"name": "1"}],
    "volume": {"existingClaim": "123", "subPath": "2024", "storageClassName": "true", "size": "100"},
    "s3": {
        "credentials": {
            "secretName": "1",
            "accessKeyIdKey": "2",
            "secretAccessKeyKey": "no",
            "sessionTokenKey": "null",
        }
    },
    "gateway": {**_ODD_POD, "service": {"appProtocol": "1.5"}},
    "reaper": _ODD_POD,
}
"""Texts that YAML reads as another type unless they are quoted."""


@pytest.mark.parametrize("create", [False, True])
def test_text_stays_text(helm: Helm, schemas: Path, create: bool) -> None:
    odd = with_values(CERTIFIED, ODD_TEXTS, {"volume": {"create": True, "existingClaim": ""}} if create else {})
    manifests = helm.template(odd, namespace="2024")
    assert not conform(manifests, schemas)
    spec = find_object(manifests, "Deployment", "yes-gateway")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["image"] == "12:30"
    assert container["volumeMounts"][2]["subPath"] == "2024"
    assert spec["volumes"][2]["persistentVolumeClaim"] == {"claimName": "yes-workspace" if create else "123"}
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        subjects = [subject for binding in of_kind(manifests, kind) for subject in binding["subjects"]]
        names = {"7", "yes-definition"} if kind == "ClusterRoleBinding" else {"7"}
        assert {(each["name"], each["namespace"]) for each in subjects} == {(name, "2024") for name in names}


@pytest.mark.parametrize(("component", "command"), [("gateway", "serve"), ("reaper", "reap")])
def test_pods_have_extra_parts(helm: Helm, component: str, command: str) -> None:
    deployment = find_object(helm.template(EVERYTHING), "Deployment", f"front-{component}")
    assert deployment["metadata"]["annotations"]["example.com/restart"] == "on-change"
    pod = deployment["spec"]["template"]["spec"]
    assert [each["name"] for each in pod["initContainers"]] == ["first"]
    own, beside = pod["containers"]
    assert (own["name"], beside["name"]) == (component, "beside")
    assert own["args"] == [command, "--config", "/etc/lodge/lodge.yaml", "--log-level", "debug"]
    assert own["envFrom"] == EVERYTHING[component]["extraEnvFrom"]
    assert own["lifecycle"] == EVERYTHING[component]["lifecycle"]
    assert {"raw", "scratch"} <= {volume["name"] for volume in pod["volumes"]}
    assert {"/mnt/raw", "/scratch"} <= {mount["mountPath"] for mount in own["volumeMounts"]}


def test_spark_pods_have_extra_parts(helm: Helm) -> None:
    manifests = helm.template(EVERYTHING)
    server = find_object(manifests, "StatefulSet", "front-spark")
    assert server["metadata"]["annotations"]["example.com/restart"] == "on-change"
    executor = yaml.safe_load(find_object(manifests, "ConfigMap", "front-spark")["data"]["executor.yaml"])
    for pod, names in ((server["spec"]["template"], ["spark", "beside"]), (executor, ["executor"])):
        assert [each["name"] for each in pod["spec"]["initContainers"]] == ["first"]
        assert [each["name"] for each in pod["spec"]["containers"]] == names
        assert pod["spec"]["containers"][0]["envFrom"] == EVERYTHING["spark"]["extraEnvFrom"]


@pytest.mark.parametrize(
    ("gateway", "lifecycle"),
    [
        ({}, {"preStop": {"sleep": {"seconds": 5}}}),
        ({"preStopSeconds": 0}, None),
        ({"lifecycle": {"stopSignal": "SIGTERM"}}, {"preStop": {"sleep": {"seconds": 5}}, "stopSignal": "SIGTERM"}),
        ({"lifecycle": {"preStop": {"sleep": {"seconds": 9}}}}, {"preStop": {"sleep": {"seconds": 9}}}),
    ],
)
def test_gateway_waits_before_it_stops_unless_values_say_otherwise(
    helm: Helm, gateway: Values, lifecycle: Mapping[str, Any] | None
) -> None:
    manifests = helm.template(with_values(CERTIFIED, {"gateway": gateway}))
    assert _container(manifests, "gateway").get("lifecycle") == lifecycle
    assert "lifecycle" not in _container(manifests, "reaper")


def test_extra_objects_are_templates(helm: Helm) -> None:
    manifests = helm.template(EVERYTHING, release="etl")
    assert find_object(manifests, "ConfigMap", "front-more")["data"] == {"release": "etl"}
    assert find_object(manifests, "Secret", "text")["metadata"]["labels"] == {"app.kubernetes.io/instance": "front"}


def test_spread_constraint_keeps_own_selector(helm: Helm) -> None:
    spread = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}
    own = {"matchLabels": {"team": "data"}}
    constraints = [{**spread, "labelSelector": own}, {**spread, "labelSelector": {}}, spread]
    manifests = helm.template(with_values(CERTIFIED, {"gateway": {"topologySpreadConstraints": constraints}}))
    deployment = find_object(manifests, "Deployment", "lodge-gateway")["spec"]
    rendered = deployment["template"]["spec"]["topologySpreadConstraints"]
    assert [each["labelSelector"] for each in rendered] == [own, {}, deployment["selector"]]
    assert all(each.items() >= spread.items() for each in rendered)


def test_autoscaler_decides_about_replicas(helm: Helm) -> None:
    assert find_object(helm.template(MINIMAL), "Deployment", "lodge-gateway")["spec"]["replicas"] == 2
    manifests = helm.template(with_values(CERTIFIED, {"gateway": {"autoscaling": {"enabled": True}}}))
    deployment = find_object(manifests, "Deployment", "lodge-gateway")
    assert "replicas" not in deployment["spec"]
    (autoscaler,) = of_kind(manifests, "HorizontalPodAutoscaler")
    target = autoscaler["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", "lodge-gateway")
    (metric,) = (metric["containerResource"] for metric in autoscaler["spec"]["metrics"])
    assert metric["container"] == deployment["spec"]["template"]["spec"]["containers"][0]["name"]
    assert metric["target"] == {"type": "AverageValue", "averageValue": "600m"}
    assert autoscaler["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"] == 600


def test_autoscaler_can_use_other_metrics_alone(helm: Helm) -> None:
    autoscaling = {**EVERYTHING["gateway"]["autoscaling"], "cpu": ""}
    manifests = helm.template(with_values(CERTIFIED, {"gateway": {"autoscaling": autoscaling}}))
    (autoscaler,) = of_kind(manifests, "HorizontalPodAutoscaler")
    assert autoscaler["spec"]["metrics"] == autoscaling["metrics"]


def test_ingress_and_route_lead_to_the_grpc_port(helm: Helm) -> None:
    manifests = helm.template(EVERYTHING)
    (service,) = (each for each in of_kind(manifests, "Service") if each["metadata"]["name"] == "front")
    ports = {port["name"]: port["port"] for port in service["spec"]["ports"]}
    (ingress,) = of_kind(manifests, "Ingress")
    assert [rule["host"] for rule in ingress["spec"]["rules"]] == ["lodge.example.com", "*.lodge.example.com"]
    for rule in ingress["spec"]["rules"]:
        (path,) = rule["http"]["paths"]
        assert path["backend"]["service"] == {"name": "front", "port": {"name": "grpc"}}
    (route,) = of_kind(manifests, "GRPCRoute")
    (rule,) = route["spec"]["rules"]
    assert rule["backendRefs"] == [{"name": "front", "port": ports["grpc"]}]
    assert rule["filters"] == EVERYTHING["gateway"]["route"]["filters"]
    assert not {"Ingress", "GRPCRoute"} & {each["kind"] for each in helm.template(MINIMAL)}


def test_default_workspace_can_be_removed(helm: Helm, tmp_path: Path) -> None:
    bucket = "s3://bucket/lodge"
    values: Values = {
        "backend": MINIMAL["backend"],
        "workspaces": {"dfs.tmp": None, "s3.tmp": bucket},
        "config": {"default_temporary_workspace": "s3.tmp"},
    }
    settings = _settings_of(helm.template(values), tmp_path)
    assert settings.workspace == {"s3.tmp": bucket}
    assert settings.default_temporary_workspace == "s3.tmp"


def test_raw_files_can_be_in_any_storage(helm: Helm, tmp_path: Path) -> None:
    lakes = {"s3": "s3://lake", "gs": "gs://lake/raw", "azure": "abfss://c@account.dfs.core.windows.net/raw"}
    settings = _settings_of(helm.template(with_values(CERTIFIED, {"workspaces": lakes})), tmp_path)
    assert {name: settings.workspace[name] for name in lakes} == lakes


def test_bucket_needs_no_volume_and_reads_credentials_from_secret(helm: Helm) -> None:
    manifests = helm.template(IN_A_BUCKET)
    for deployment in of_kind(manifests, "Deployment"):
        spec = deployment["spec"]["template"]["spec"]
        assert [volume["name"] for volume in spec["volumes"] if volume["name"] != "secrets"] == ["config", "tmp"]
        (container,) = spec["containers"]
        secrets = {
            entry["name"]: entry["valueFrom"]["secretKeyRef"]
            for entry in container["env"]
            if "secretKeyRef" in entry.get("valueFrom", {})
        }
        assert secrets == {
            name: {"name": "bucket-of-lodge", "key": name} for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        }


def test_few_permissions_need_a_cluster_role(helm: Helm) -> None:
    cluster_roles = of_kind(helm.template(MINIMAL), "ClusterRole")
    rules = {role["metadata"]["name"]: role["rules"] for role in cluster_roles}
    assert rules == {
        "default-lodge-gateway-tokens": [
            {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}
        ],
        "default-lodge-reaper-nodes": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}],
        "default-lodge-definition": [
            {
                "apiGroups": ["apiextensions.k8s.io"],
                "resources": ["customresourcedefinitions"],
                "resourceNames": ["connectsessions.sparklodge.io"],
                "verbs": ["get", "patch"],
            }
        ],
    }
    bindings = of_kind(helm.template(MINIMAL), "ClusterRoleBinding")
    assert {(each["roleRef"]["name"], subject["name"]) for each in bindings for subject in each["subjects"]} == {
        ("default-lodge-gateway-tokens", "lodge-gateway"),
        ("default-lodge-reaper-nodes", "lodge-reaper"),
        ("default-lodge-definition", "lodge-definition"),
    }
    for role in (*of_kind(helm.template(MINIMAL), "Role"), *cluster_roles):
        for rule in role["rules"]:
            assert "*" not in (*rule["apiGroups"], *rule["resources"], *rule["verbs"])
    without = helm.template(
        with_values(CASES["no authentication"], {"rbac": {"nodes": False}, "crds": {"upgrade": False}})
    )
    assert not of_kind(without, "ClusterRole")
    assert not of_kind(without, "ClusterRoleBinding")


def test_kept_claim_outlives_release(helm: Helm) -> None:
    for keep, policy in ((True, "keep"), (False, None)):
        values = with_values(CASES["new claim"], {"volume": {"keep": keep}})
        (claim,) = of_kind(helm.template(values), "PersistentVolumeClaim")
        assert claim["metadata"].get("annotations", {}).get("helm.sh/resource-policy") == policy


def _bundled_servers(manifests: Sequence[Manifest]) -> Sequence[str]:
    """Return the addresses of the Services that lead to one server of the bundled Spark."""
    return [
        f"sc://{service['metadata']['name']}.here.svc:{service['spec']['ports'][0]['port']}"
        for service in of_kind(manifests, "Service")
        if "statefulset.kubernetes.io/pod-name" in service["spec"]["selector"]
    ]


def _settings_of(manifests: Sequence[Manifest], directory: Path) -> ServeSettings:
    return read_settings(configuration(manifests), directory)


def _container(manifests: Sequence[Manifest], component: str, instance: str = "lodge") -> Mapping[str, Any]:
    deployment = find_object(manifests, "Deployment", f"{instance}-{component}")
    found: Mapping[str, Any] = deployment["spec"]["template"]["spec"]["containers"][0]
    return found


def _images(manifests: Sequence[Manifest]) -> set[str]:
    """Return the images of all pods, including executors."""
    containers = [
        container
        for kind in ("Deployment", "StatefulSet")
        for workload in of_kind(manifests, kind)
        for container in workload["spec"]["template"]["spec"]["containers"]
    ]
    properties = [
        line.partition("=")
        for config in of_kind(manifests, "ConfigMap")
        for line in config["data"].get("spark.properties", "").splitlines()
    ]
    of_executors = {image for name, _, image in properties if name == "spark.kubernetes.container.image"}
    assert len(of_executors) == 1
    return {container["image"] for container in containers} | of_executors


def _probed_port(probe: Mapping[str, Any], ports: Mapping[str, int]) -> int:
    port: int | str = probe["grpc"]["port"] if "grpc" in probe else probe["httpGet"]["port"]
    return ports[port] if isinstance(port, str) else port


def _at(values: Values, path: str) -> Any:
    for key in path.split("."):
        values = values[key]
    return values


def _paths(schema: Mapping[str, Any], definitions: Mapping[str, Any], prefix: str = "") -> set[str]:
    """Return the paths of all values in a schema, in the form of `leaves`."""
    found = set()
    for name, part in schema["properties"].items():
        inner = definitions[part["$ref"].rpartition("/")[2]] if "$ref" in part else part
        path = f"{prefix}{name}"
        if "properties" in inner and name not in {"config", "issuerRef", "resources"}:
            found |= _paths(inner, definitions, f"{path}.")
        else:
            found.add(path)
    return found


def _open_objects(schema: Mapping[str, Any], name: str = "") -> set[str]:
    """Return the names of the schema's parts that allow any content."""
    found = set()
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        inner = schema.get("additionalProperties")
        if inner is None:
            found.add(name)
        else:
            found |= _open_objects(inner, name)
    if "items" in schema:
        found |= _open_objects(schema["items"], name)
    for part in ("properties", "definitions"):
        for key, value in schema.get(part, {}).items():
            found |= _open_objects(value, key)
    return found
