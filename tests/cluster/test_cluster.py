"""The test cluster behaves as other tests expect."""

import json
import time
from pathlib import Path

import pytest
import yaml
from kubernetes import config
from kubernetes.client import CoreV1Api, VersionApi
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient
from urllib3.exceptions import HTTPError

from tests.cluster.accounts import REVOKED_SECONDS
from tests.cluster.control_plane import NODE_GRACE_SECONDS
from tests.cluster.processes import wait_until

READ_CONFIG_MAPS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}


def core(kubeconfig: Path) -> CoreV1Api:
    """Return a client that reads the kubeconfig file now."""
    return CoreV1Api(config.new_client_from_config(str(kubeconfig)))


def status_of(call, *arguments, **options) -> int:
    """Return the HTTP status of a refused call, or 200."""
    try:
        call(*arguments, **options)
    except ApiException as error:
        return error.status
    return 200


def test_api_is_kubernetes_own(cluster):
    version = VersionApi(cluster.client).get_code()
    assert (version.major, version.minor) == ("1", "37")


def test_foreign_certificate_authority_is_refused(cluster, tmp_path):
    other = yaml.safe_load(cluster.kubeconfig.read_text())
    del other["clusters"][0]["cluster"]["certificate-authority"]
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(other))
    with pytest.raises(HTTPError, match="certificate verify failed"):
        core(file).list_namespace()


def test_account_has_only_granted_permissions(cluster, namespace):
    elsewhere = cluster.namespace()
    account = cluster.service_account(namespace, "reader")
    api = core(account.kubeconfig)
    assert status_of(api.list_namespaced_config_map, namespace) == 403
    account.allow(READ_CONFIG_MAPS)
    wait_until(lambda: status_of(api.list_namespaced_config_map, namespace) == 200, "the permission is known", 10)
    assert status_of(api.create_namespaced_config_map, namespace, {"metadata": {"name": "a"}}) == 403
    assert status_of(api.list_namespaced_config_map, elsewhere) == 403
    account.allow_everywhere(READ_CONFIG_MAPS)
    wait_until(lambda: status_of(api.list_namespaced_config_map, elsewhere) == 200, "the permission is known", 10)


@pytest.mark.slow
def test_rotation_replaces_token(cluster, namespace, tmp_path):
    account = cluster.service_account(namespace, "reader")
    account.allow(READ_CONFIG_MAPS)
    old = cluster.server.write_kubeconfig(tmp_path / "old", {"token": account.token})
    wait_until(lambda: status_of(core(old).list_namespaced_config_map, namespace) == 200, "the permission is known", 10)
    account.rotate()
    assert status_of(core(account.kubeconfig).list_namespaced_config_map, namespace) == 200
    wait_until(
        lambda: status_of(core(old).list_namespaced_config_map, namespace) == 401,
        "the old token is refused",
        REVOKED_SECONDS + 10,
    )


@pytest.mark.slow
def test_restarted_api_server_keeps_address_and_objects(cluster, namespace):
    api = CoreV1Api(cluster.client)
    api.create_namespaced_config_map(namespace, {"metadata": {"name": "kept"}, "data": {"key": "value"}})
    account = cluster.service_account(namespace, "reader")
    account.allow(READ_CONFIG_MAPS)
    with cluster.api_server.stopped(), pytest.raises(HTTPError):
        api.list_namespace()
    assert core(account.kubeconfig).read_namespaced_config_map("kept", namespace).data == {"key": "value"}


def test_paused_api_server_does_not_answer(cluster):
    api = CoreV1Api(cluster.client)
    with cluster.api_server.paused(), pytest.raises(HTTPError):
        api.list_namespace(_request_timeout=0.5)
    api.list_namespace()


def test_objects_can_follow_their_definition_at_once(cluster, namespace):
    group, version = "lodge.test", "v1"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    thing = {"apiVersion": f"{group}/{version}", "kind": "Thing", "metadata": {"name": "first"}, "spec": {"size": 1}}
    cluster.apply([definition, thing], namespace)
    cluster.apply([thing | {"spec": {"size": 2}}], namespace)
    things = DynamicClient(cluster.client).resources.get(api_version=f"{group}/{version}", kind="Thing")
    assert things.get(name="first", namespace=namespace).spec.size == 2


@pytest.mark.slow
def test_failed_node_loses_its_pods_while_others_live(cluster, namespace, node):
    other = cluster.node()
    api = CoreV1Api(cluster.client)
    kept = other.pod(namespace, "kept", unreachable_seconds=1)
    node.pod(namespace, "lost", unreachable_seconds=1)
    node.fail()
    started = time.monotonic()
    node.wait_until_lost()
    assert time.monotonic() - started > NODE_GRACE_SECONDS / 2, "lost before its lease"
    wait_until(lambda: api.read_namespaced_pod("lost", namespace).metadata.deletion_timestamp, "the pod is evicted", 30)
    assert other.is_ready()
    assert api.read_namespaced_pod("kept", namespace).metadata.uid == kept.metadata.uid
    node.recover()
    node.wait_until_ready()
    wait_until(lambda: status_of(api.read_namespaced_pod, "lost", namespace) == 404, "the pod has ended", 30)
    other.remove()
