"""Releases in a real cluster: what operators do with helm, and the result."""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from kubernetes.client import AppsV1Api, CustomObjectsApi, PolicyV1Api, RbacAuthorizationV1Api
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient

from tests.cluster.cluster import Cluster
from tests.fixture_types import WaitUntil
from tests.helm.cases import CASES, EVERYTHING
from tests.helm.chart import CERTIFIED, CHART, MINIMAL, Helm, HelmError, Values, with_values
from tests.helm.guides import GUIDES, examples
from tests.helm.releases import CLAIM, Releases, persistent_volume

WITHOUT_JOB: Values = with_values(CERTIFIED, {"crds": {"upgrade": False}})
"""Values without the Job for the definition, which takes as long as the release."""

LODGE_KIND = ("sparklodge.io", "v1alpha1")


def test_default_release_runs_restricted_and_is_upgraded_and_rolled_back(releases: Releases) -> None:
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
    _assert_service_selects_gateways(releases)
    assert "lodge-definition" not in releases.manifest()
    assert not releases.pods("definition")
    _assert_upgrades_replace_pods_only_if_configuration_changed(releases)


def _assert_service_selects_gateways(releases: Releases) -> None:
    service = releases.core.read_namespaced_service("lodge", releases.namespace)
    selector = ",".join(f"{key}={value}" for key, value in service.spec.selector.items())
    pods = releases.core.list_namespaced_pod(releases.namespace, label_selector=selector).items
    assert {pod.metadata.name for pod in pods} == releases.names("gateway")
    (port,) = service.spec.ports
    assert (port.port, port.app_protocol) == (15002, "grpc")
    assert (port.target_port, 15002) in {(each.name, each.container_port) for each in pods[0].spec.containers[0].ports}


def _assert_upgrades_replace_pods_only_if_configuration_changed(releases: Releases) -> None:
    configuration, certificate = releases.configuration(), releases.certificate()
    before = releases.names("gateway") | releases.names("reaper")
    output = releases.upgrade(MINIMAL)
    assert releases.names("gateway") | releases.names("reaper") == before
    assert releases.certificate() == certificate
    assert "get secret lodge-self-signed" in output
    releases.upgrade(with_values(MINIMAL, {"gateway": {"replicas": 3}}))
    assert releases.names("gateway") > before & releases.names("gateway")
    assert len(releases.names("gateway")) == 3
    releases.core.delete_namespaced_secret("lodge-self-signed", releases.namespace)
    releases.upgrade(with_values(MINIMAL, {"config": {"grace_period": "2m"}, "reaper": {"replicas": 1}}))
    assert not before & (releases.names("gateway") | releases.names("reaper"))
    assert releases.configuration() != configuration
    assert releases.configuration()["grace_period"] == "2m"
    assert len(releases.pods("reaper")) == 1
    renewed = releases.certificate()
    assert renewed.keys() == certificate.keys()
    assert all(renewed[key] != certificate[key] for key in certificate)
    releases.helm("rollback", "lodge", "1", "--wait")
    assert releases.configuration() == configuration
    assert len(releases.pods("reaper")) == 2


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
    as_before = with_values(CASES["no authentication"], {"crds": {"upgrade": False}})
    output = releases.install(values=as_before)
    assert "WARNING" in output
    assert objects(releases) == PREVIOUS_OBJECTS | nodes
    releases.upgrade(with_values(MINIMAL, {"crds": {"upgrade": False}}))
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
def test_failed_upgrade_keeps_pods_running_and_can_be_rolled_back(releases: Releases, wait_until: WaitUntil) -> None:
    releases.install(values=WITHOUT_JOB)
    before, configuration = _running(releases), releases.configuration()
    nowhere = {"nodeSelector": {"disk": "none"}}
    changed = with_values(WITHOUT_JOB, {"config": {"log_level": "debug"}})
    with pytest.raises(HelmError, match="lodge-gateway"):
        releases.upgrade(with_values(changed, {"gateway": nowhere, "reaper": nowhere}), timeout_seconds=20)
    wait_until(lambda: releases.names("gateway") - before, "the new pods exist, but cannot run")
    assert _running(releases) == before
    releases.helm("rollback", "lodge", "--wait")
    assert _running(releases) == before
    assert releases.configuration() == configuration
    releases.upgrade(changed)
    assert not before & _running(releases)
    assert releases.configuration()["log_level"] == "debug"


def test_two_releases_share_a_namespace_and_leave_only_sessions_and_claim(releases: Releases) -> None:
    """Apply the definition between the releases by server-side apply, as the documentation describes.

    The command is `kubectl apply --server-side --force-conflicts --field-manager helm`.
    """
    new_claim = {"volume": {"existingClaim": "", "create": True, "storageClassName": "static"}}
    releases.cluster.apply([persistent_volume(f"new-{releases.namespace}", {})])
    releases.install("lodge", with_values(WITHOUT_JOB, new_claim))
    definitions = DynamicClient(releases.cluster.client).resources.get(kind="CustomResourceDefinition")
    definition = yaml.safe_load((CHART / "crds" / "connectsessions.yaml").read_text())
    definition["metadata"]["labels"]["applied"] = "again"
    definitions.server_side_apply(body=definition, field_manager="helm", force_conflicts=True)
    releases.install("etl")
    assert len(releases.pods("gateway", "lodge")) == len(releases.pods("gateway", "etl-lodge")) == 2
    releases.helm("uninstall", "etl", "--wait")
    assert len(releases.pods("gateway", "lodge")) == 2
    session = _session("lodge")
    releases.cluster.apply([session], releases.namespace)
    releases.helm("uninstall", "lodge", "--wait")
    _assert_only_sessions_and_claim_are_left(releases, session)


def _assert_only_sessions_and_claim_are_left(releases: Releases, session: Mapping[str, Any]) -> None:
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


@pytest.mark.slow
def test_autoscaler_takes_over_and_drain_respects_disruption_budget(releases: Releases, wait_until: WaitUntil) -> None:
    deployments, policy = AppsV1Api(releases.cluster.client), PolicyV1Api(releases.cluster.client)

    def allows(number: int, healthy: int) -> bool:
        status = policy.read_namespaced_pod_disruption_budget("lodge-gateway", releases.namespace).status
        return status is not None and (status.disruptions_allowed, status.current_healthy) == (number, healthy)

    releases.install(values=with_values(WITHOUT_JOB, {"gateway": {"podDisruptionBudget": {"maxUnavailable": 0}}}))
    wait_until(lambda: allows(0, 2), "the budget counts two gateways")
    before = releases.names("gateway")
    with pytest.raises(ApiException, match="disruption budget"):
        _evict(releases, min(before))
    deployments.patch_namespaced_deployment_scale("lodge-gateway", releases.namespace, {"spec": {"replicas": 3}})
    autoscaling = {"enabled": True, "minReplicas": 3}
    for change in ({}, {"cpu": "800m"}):
        releases.upgrade(with_values(WITHOUT_JOB, {"gateway": {"autoscaling": {**autoscaling, **change}}}))
        assert deployments.read_namespaced_deployment("lodge-gateway", releases.namespace).spec.replicas == 3
    assert before < releases.names("gateway")
    wait_until(lambda: allows(1, 3), "the budget permits one eviction")
    _evict(releases, min(before))


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
def test_api_server_accepts_objects_for_proxies_and_monitoring(chart_cluster: Cluster, helm: Helm) -> None:
    of_guides = (values for page in ("proxy", "monitor") for _, values in examples(GUIDES / f"{page}.md"))
    of_gateway = {key: EVERYTHING["gateway"][key] for key in ("autoscaling", "ingress", "route")}
    everything = {"monitoring": EVERYTHING["monitoring"], "gateway": of_gateway}
    namespace = chart_cluster.namespace()
    for values, kind in (
        (with_values(CERTIFIED, *of_guides), "BackendTLSPolicy"),
        ({**CERTIFIED, **everything}, "HorizontalPodAutoscaler"),
    ):
        manifests = helm.template(values, "--no-hooks", namespace=namespace)
        assert {each["kind"] for each in manifests} >= OPTIONAL_KINDS | {kind}
        chart_cluster.try_to_apply(manifests, namespace)


OPTIONAL_KINDS = {"Ingress", "GRPCRoute", "PodMonitor", "PrometheusRule"}
