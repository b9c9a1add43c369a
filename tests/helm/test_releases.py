"""Releases in a real cluster: what operators do with helm, and the result."""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from kubernetes.client import AppsV1Api, CustomObjectsApi, PolicyV1Api, RbacAuthorizationV1Api
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient

from tests.fixture_types import WaitUntil
from tests.helm.cases import CASES, EVERYTHING
from tests.helm.chart import CHART, MINIMAL, HelmError, with_values
from tests.helm.guides import GUIDES, examples
from tests.helm.releases import CLAIM, Releases, persistent_volume

LODGE_KIND = ("sparklodge.io", "v1alpha1")


def test_installation_works_under_restricted_pod_security(releases: Releases) -> None:
    output = releases.install()
    assert f"sc://lodge.{releases.namespace}.svc:15002/;use_ssl=true;token=$TOKEN" in output
    assert f"kubectl --namespace {releases.namespace} port-forward service/lodge 15002" in output
    for component in ("gateway", "reaper"):
        pods = releases.pods(component)
        assert [pod.status.phase for pod in pods] == ["Running", "Running"]
        assert {pod.spec.node_name for pod in pods} == {"node-1", "node-2"}
        claims = {volume.persistent_volume_claim.claim_name for pod in pods for volume in pod.spec.volumes[2:3]}
        assert claims == {CLAIM}
        (account,) = {pod.spec.service_account_name for pod in pods}
        assert account == f"lodge-{component}"


def test_service_selects_gateways_and_their_port(releases: Releases) -> None:
    releases.install()
    service = releases.core.read_namespaced_service("lodge", releases.namespace)
    selector = ",".join(f"{key}={value}" for key, value in service.spec.selector.items())
    pods = releases.core.list_namespaced_pod(releases.namespace, label_selector=selector).items
    assert {pod.metadata.name for pod in pods} == releases.names("gateway")
    (port,) = service.spec.ports
    assert (port.port, port.app_protocol) == (15002, "grpc")
    assert (port.target_port, 15002) in {(each.name, each.container_port) for each in pods[0].spec.containers[0].ports}


@pytest.mark.slow
def test_upgrade_replaces_pods_only_if_configuration_changed(releases: Releases) -> None:
    releases.install()
    before = releases.names("gateway") | releases.names("reaper")
    releases.upgrade(MINIMAL)
    assert releases.names("gateway") | releases.names("reaper") == before
    releases.upgrade(with_values(MINIMAL, {"gateway": {"replicas": 3}}))
    assert releases.names("gateway") > before & releases.names("gateway")
    assert len(releases.names("gateway")) == 3
    releases.upgrade(with_values(MINIMAL, {"config": {"grace_period": "2m"}}))
    assert not before & (releases.names("gateway") | releases.names("reaper"))
    assert releases.configuration()["grace_period"] == "2m"


@pytest.mark.slow
def test_upgrade_keeps_the_certificate(releases: Releases) -> None:
    releases.install()
    before, pods = releases.certificate(), releases.names("gateway")
    output = releases.upgrade(with_values(MINIMAL, {"gateway": {"service": {"annotations": {"a": "b"}}}}))
    assert releases.certificate() == before
    assert releases.names("gateway") == pods
    assert "get secret lodge-self-signed" in output
    releases.core.delete_namespaced_secret("lodge-self-signed", releases.namespace)
    releases.upgrade(MINIMAL)
    renewed = releases.certificate()
    assert renewed.keys() == before.keys()
    assert all(renewed[key] != before[key] for key in before)


PREVIOUS_OBJECTS = {
    *((kind, f"lodge-{each}") for kind in ("Deployment", "PodDisruptionBudget") for each in ("gateway", "reaper")),
    *((kind, f"lodge-{each}") for kind in ("Role", "RoleBinding", "ServiceAccount") for each in ("gateway", "reaper")),
    ("ConfigMap", "lodge-config"),
    ("Service", "lodge"),
}
"""The objects of the first chart, which had no authentication, without those for nodes."""


@pytest.mark.slow
def test_upgrade_from_a_release_without_authentication(releases: Releases) -> None:
    nodes = {(kind, f"{releases.namespace}-lodge-reaper-nodes") for kind in ("ClusterRole", "ClusterRoleBinding")}
    tokens = {(kind, f"{releases.namespace}-lodge-gateway-tokens") for kind in ("ClusterRole", "ClusterRoleBinding")}
    as_before = with_values(MINIMAL, CASES["no authentication"])
    output = releases.install(values=as_before)
    assert "WARNING" in output
    assert objects(releases) == PREVIOUS_OBJECTS | nodes
    releases.upgrade(MINIMAL)
    assert objects(releases) - PREVIOUS_OBJECTS - nodes - tokens == {
        ("Secret", "lodge-self-signed"),
        ("NetworkPolicy", "lodge-gateway"),
        ("NetworkPolicy", "lodge-reaper"),
    }
    assert objects(releases) >= PREVIOUS_OBJECTS | nodes | tokens
    assert releases.configuration()["authentication"] == [{"kind": "kubernetes", "audiences": ["lodge"]}]
    releases.helm("rollback", "lodge", "1", "--wait")
    assert objects(releases) == PREVIOUS_OBJECTS | nodes
    assert releases.configuration()["allow_unauthenticated"] is True


def objects(releases: Releases) -> set[tuple[str, str]]:
    """Return the kind and the name of each object of the release."""
    manifests = yaml.safe_load_all(releases.manifest())
    return {(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests if manifest}


@pytest.mark.slow
def test_rollback_restores_previous_objects(releases: Releases) -> None:
    releases.install()
    before = releases.configuration()
    releases.upgrade(with_values(MINIMAL, {"config": {"log_level": "debug"}, "reaper": {"replicas": 1}}))
    assert releases.configuration() != before
    assert len(releases.pods("reaper")) == 1
    releases.helm("rollback", "lodge", "--wait")
    assert releases.configuration() == before
    assert len(releases.pods("reaper")) == 2


@pytest.mark.slow
def test_failed_upgrade_keeps_pods_running_and_can_be_rolled_back(releases: Releases, wait_until: WaitUntil) -> None:
    releases.install()
    before, configuration = _running(releases), releases.configuration()
    nowhere = {"nodeSelector": {"disk": "none"}}
    changes = {"config": {"log_level": "debug"}, "gateway": nowhere, "reaper": nowhere}
    wrong = with_values(MINIMAL, {**changes, "crds": {"upgrade": False}})  # its pod would also run nowhere
    with pytest.raises(HelmError, match="lodge-gateway"):
        releases.upgrade(wrong, timeout_seconds=20)
    wait_until(lambda: releases.names("gateway") - before, "the new pods exist, but cannot run")
    assert _running(releases) == before
    releases.helm("rollback", "lodge", "--wait")
    assert _running(releases) == before
    assert releases.configuration() == configuration
    releases.upgrade(with_values(MINIMAL, {"config": {"log_level": "debug"}}))
    assert not before & _running(releases)
    assert releases.configuration()["log_level"] == "debug"


def test_uninstall_leaves_only_sessions_and_claim(releases: Releases) -> None:
    values = with_values(MINIMAL, {"volume": {"existingClaim": "", "create": True, "storageClassName": "static"}})
    releases.cluster.apply([persistent_volume(f"new-{releases.namespace}", {})])
    releases.install(values=values)
    session = _session("lodge")
    releases.cluster.apply([session], releases.namespace)
    releases.helm("uninstall", "lodge", "--wait")
    selector = "app.kubernetes.io/managed-by=Helm"
    rights = RbacAuthorizationV1Api(releases.cluster.client)
    apps, policy = AppsV1Api(releases.cluster.client), PolicyV1Api(releases.cluster.client)
    for listing in (
        apps.list_namespaced_deployment,
        policy.list_namespaced_pod_disruption_budget,
        rights.list_namespaced_role,
        rights.list_namespaced_role_binding,
        releases.core.list_namespaced_service,
        releases.core.list_namespaced_service_account,
        releases.core.list_namespaced_config_map,
    ):
        assert not listing(releases.namespace, label_selector=selector).items
    cluster_roles = rights.list_cluster_role(label_selector=selector).items
    assert not [role for role in cluster_roles if releases.namespace in role.metadata.name]
    claims = releases.core.list_namespaced_persistent_volume_claim(releases.namespace, label_selector=selector).items
    assert [claim.metadata.name for claim in claims] == ["lodge-workspace"]
    kept = CustomObjectsApi(releases.cluster.client).list_namespaced_custom_object(
        *LODGE_KIND, releases.namespace, "connectsessions"
    )
    assert [item["metadata"]["name"] for item in kept["items"]] == [session["metadata"]["name"]]


def test_two_releases_share_a_namespace(releases: Releases) -> None:
    releases.install("lodge")
    releases.install("etl")
    assert len(releases.pods("gateway", "lodge")) == len(releases.pods("gateway", "etl-lodge")) == 2
    releases.helm("uninstall", "etl", "--wait")
    assert len(releases.pods("gateway", "lodge")) == 2


def test_drain_respects_disruption_budget(releases: Releases, wait_until: WaitUntil) -> None:
    releases.install(values=with_values(MINIMAL, {"gateway": {"podDisruptionBudget": {"maxUnavailable": 0}}}))
    policy = PolicyV1Api(releases.cluster.client)

    def allows(number: int) -> bool:
        status = policy.read_namespaced_pod_disruption_budget("lodge-gateway", releases.namespace).status
        return status is not None and status.disruptions_allowed == number and status.current_healthy == 2

    wait_until(lambda: allows(0), "the budget counts two gateways")
    with pytest.raises(ApiException, match="disruption budget"):
        _evict(releases, min(releases.names("gateway")))
    releases.upgrade(MINIMAL)
    wait_until(lambda: allows(1), "the budget permits one eviction")
    _evict(releases, min(releases.names("gateway")))


@pytest.mark.slow
def test_reapplied_definition_still_belongs_to_helm(releases: Releases) -> None:
    """Apply the definition by server-side apply, as the documentation describes.

    The command is `kubectl apply --server-side --force-conflicts --field-manager helm`.
    """
    releases.install()
    definitions = DynamicClient(releases.cluster.client).resources.get(kind="CustomResourceDefinition")
    definition = yaml.safe_load((CHART / "crds" / "connectsessions.yaml").read_text())
    definition["metadata"]["labels"]["applied"] = "again"
    definitions.server_side_apply(body=definition, field_manager="helm", force_conflicts=True)
    releases.install("another")


def _running(releases: Releases) -> frozenset[str]:
    pods = (*releases.pods("gateway"), *releases.pods("reaper"))
    return frozenset(pod.metadata.name for pod in pods if pod.status.phase == "Running")


def _evict(releases: Releases, pod: str) -> None:
    body = {"metadata": {"name": pod, "namespace": releases.namespace}}
    releases.core.create_namespaced_pod_eviction(pod, releases.namespace, body)


def _session(instance: str) -> Mapping[str, Any]:
    return {
        "apiVersion": "/".join(LODGE_KIND),
        "kind": "ConnectSession",
        "metadata": {"name": f"{instance}-{40 * 'a'}", "finalizers": ["sparklodge.io/session-location"]},
        "spec": {
            "format": 2,
            "instance": instance,
            "revision": 16 * "a",
            "summary": {"gateway": "", "tables": 0, "bytes": 0},
            "sessionUuid": "00000000-0000-4000-8000-000000000001",
            "principal": "ann",
            "clientSessionId": "00000000-0000-4000-8000-000000000002",
            "backend": "sc://spark:15002",
            "phase": "Active",
            "createdAt": "2026-01-01T00:00:00+00:00",
            "holders": [],
            "tables": [],
            "answers": [],
            "writes": [],
        },
    }


@pytest.mark.slow
@pytest.mark.usefixtures("definitions")
def test_api_server_accepts_objects_for_proxies_and_monitoring(releases: Releases) -> None:
    values = with_values(
        MINIMAL, *(values for page in ("proxy", "monitor") for _, values in examples(GUIDES / f"{page}.md"))
    )
    releases.install(values=values)
    assert {kind for kind, _ in objects(releases)} >= OPTIONAL_KINDS | {"BackendTLSPolicy"}
    of_gateway = {key: EVERYTHING["gateway"][key] for key in ("autoscaling", "ingress", "route")}
    values = {**MINIMAL, "monitoring": EVERYTHING["monitoring"], "gateway": of_gateway}
    releases.upgrade(values)
    assert {kind for kind, _ in objects(releases)} >= OPTIONAL_KINDS | {"HorizontalPodAutoscaler"}


OPTIONAL_KINDS = {"Ingress", "GRPCRoute", "PodMonitor", "PrometheusRule"}


@pytest.mark.slow
def test_autoscaler_takes_over_without_stopping_gateways(releases: Releases) -> None:
    deployments = AppsV1Api(releases.cluster.client)
    releases.install()
    before = releases.names("gateway")
    deployments.patch_namespaced_deployment_scale("lodge-gateway", releases.namespace, {"spec": {"replicas": 3}})
    autoscaling = {"enabled": True, "minReplicas": 3}
    releases.upgrade(with_values(MINIMAL, {"gateway": {"autoscaling": autoscaling}}))
    assert deployments.read_namespaced_deployment("lodge-gateway", releases.namespace).spec.replicas == 3
    releases.upgrade(with_values(MINIMAL, {"gateway": {"autoscaling": {**autoscaling, "cpu": "800m"}}}))
    assert deployments.read_namespaced_deployment("lodge-gateway", releases.namespace).spec.replicas == 3
    assert before < releases.names("gateway")
