"""Permissions of the chart's service accounts, checked with their own tokens."""

from collections.abc import Callable
from http import HTTPStatus

import pytest
import yaml
from kubernetes import config

from tests.cluster.cluster import Cluster
from tests.cluster.processes import wait_until
from tests.helm.chart import CERTIFIED, CHART, Helm, Values, of_kind, with_values

SESSIONS = "/apis/sparklodge.io/v1alpha1/namespaces/{namespace}/connectsessions"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
CORE = "/api/v1/namespaces/{namespace}"
EVENTS = "/apis/events.k8s.io/v1/namespaces/{namespace}/events"

Forbidden = Callable[[str, str], bool]
"""Whether a request such as ``GET /api/v1/nodes`` is forbidden to an account."""

GRANT_SECONDS = 30.0
KINDS = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")


@pytest.fixture(scope="module")
def forbidden(chart_cluster: Cluster, helm: Helm) -> Forbidden:
    return _create_check(chart_cluster, helm, CERTIFIED)


def _create_check(cluster: Cluster, helm: Helm, values: Values) -> Forbidden:
    """Create the accounts of a release with their permissions, and return a check of single requests.

    Allowed requests name missing objects or are dry runs, so they change nothing.
    """
    namespace, elsewhere = cluster.namespace(), cluster.namespace("elsewhere")
    cluster.apply([yaml.safe_load((CHART / "crds" / "connectsessions.yaml").read_text())])
    manifests = helm.template(values, namespace=namespace)
    cluster.apply([each for kind in KINDS for each in of_kind(manifests, kind)], namespace)
    accounts = {name: cluster.service_account(namespace, f"lodge-{name}") for name in ("gateway", "reaper")}
    clients = {name: config.new_client_from_config(str(account.kubeconfig)) for name, account in accounts.items()}

    def is_forbidden(account: str, request: str) -> bool:
        method, _, path = request.format(namespace=namespace, elsewhere=elsewhere).partition(" ")
        client = clients[account]
        query = [] if method == "GET" else [("dryRun", "All")]
        headers = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
        path, _, is_watch = path.partition("?")
        if is_watch:
            query = [("watch", "1"), ("timeoutSeconds", "1")]
        body = None if method in {"GET", "DELETE"} else {}
        serialized = client.param_serialize(
            method, path, query_params=query, header_params=headers, body=body, auth_settings=["BearerToken"]
        )
        response = client.call_api(*serialized)
        response.read()
        return bool(response.status == HTTPStatus.FORBIDDEN)

    wait_until(lambda: not is_forbidden("reaper", f"GET {CORE}/pods"), "the permissions are known", GRANT_SECONDS)
    return is_forbidden


NEEDED_BY_BOTH = (
    f"GET {SESSIONS}",
    f"GET {SESSIONS}?watch",
    f"GET {SESSIONS}/x",
    f"PATCH {SESSIONS}/x",
    f"DELETE {SESSIONS}/x",
    f"GET {LEASES}",
    f"POST {LEASES}",
    f"DELETE {LEASES}/x",
    f"POST {CORE}/configmaps",
    f"GET {CORE}/configmaps/lodge-roots",
    f"PUT {CORE}/configmaps/lodge-roots",
)
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
NEEDED_BY_GATEWAY = (
    f"POST {REVIEWS}",
    f"POST {SESSIONS}",
    f"PATCH {LEASES}/x",
)
NEEDED_BY_REAPER = (
    f"PATCH {SESSIONS}/x/status",
    f"GET {LEASES}?watch",
    f"GET {LEASES}/lodge-reaper",
    f"PUT {LEASES}/lodge-reaper",
    f"GET {CORE}/pods",
    f"GET {CORE}/pods?watch",
    "GET /apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
    "GET /apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?watch",
    "GET /api/v1/nodes",
    "GET /api/v1/nodes?watch",
    f"POST {EVENTS}",
)

REFUSED_TO_BOTH = (
    "POST /apis/authorization.k8s.io/v1/subjectaccessreviews",
    f"GET {CORE}/secrets",
    f"GET {CORE}/secrets/x",
    f"GET {CORE}/configmaps",
    f"GET {CORE}/configmaps/lodge-config",
    f"PUT {CORE}/configmaps/lodge-config",
    f"DELETE {CORE}/configmaps/lodge-roots",
    f"POST {CORE}/pods",
    f"DELETE {CORE}/pods/x",
    f"POST {CORE}/pods/x/exec",
    f"POST {CORE}/pods/x/eviction",
    f"POST {CORE}/serviceaccounts/lodge-gateway/token",
    f"PUT {SESSIONS}/x",
    f"DELETE {SESSIONS}",
    f"DELETE {LEASES}",
    f"PUT {LEASES}/x",
    "GET /apis/sparklodge.io/v1alpha1/connectsessions",
    "GET /apis/sparklodge.io/v1alpha1/namespaces/{elsewhere}/connectsessions",
    "PATCH /apis/sparklodge.io/v1alpha1/namespaces/{elsewhere}/connectsessions/x",
    "DELETE /apis/sparklodge.io/v1alpha1/namespaces/{elsewhere}/connectsessions/x",
    "DELETE /apis/coordination.k8s.io/v1/namespaces/{elsewhere}/leases/x",
    "GET /api/v1/namespaces/{elsewhere}/pods",
    "GET /api/v1/namespaces",
    "PATCH /api/v1/nodes/node-1",
    "DELETE /api/v1/nodes/node-1",
    "PATCH /apis/apps/v1/namespaces/{namespace}/deployments/lodge-gateway",
    "PATCH /apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles/lodge-reaper",
    "GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/connectsessions.sparklodge.io",
)
REFUSED_TO_GATEWAY = (
    f"PATCH {SESSIONS}/x/status",
    f"GET {CORE}/pods",
    "GET /api/v1/nodes",
    f"POST {EVENTS}",
)
REFUSED_TO_REAPER = (
    f"POST {REVIEWS}",
    f"POST {SESSIONS}",
    f"PATCH {LEASES}/x",
    f"GET {LEASES}/x",
)


@pytest.mark.slow
def test_accounts_may_do_what_they_need(forbidden: Forbidden) -> None:
    gateway, reaper = NEEDED_BY_BOTH + NEEDED_BY_GATEWAY, NEEDED_BY_BOTH + NEEDED_BY_REAPER
    assert not [request for request in gateway if forbidden("gateway", request)]
    assert not [request for request in reaper if forbidden("reaper", request)]


def test_accounts_may_do_nothing_else(forbidden: Forbidden) -> None:
    gateway, reaper = REFUSED_TO_BOTH + REFUSED_TO_GATEWAY, REFUSED_TO_BOTH + REFUSED_TO_REAPER
    assert not [request for request in gateway if not forbidden("gateway", request)]
    assert not [request for request in reaper if not forbidden("reaper", request)]


@pytest.mark.slow
def test_reaper_without_node_permission_sees_no_nodes(chart_cluster: Cluster, helm: Helm) -> None:
    is_forbidden = _create_check(chart_cluster, helm, with_values(CERTIFIED, {"rbac": {"nodes": False}}))
    assert is_forbidden("reaper", "GET /api/v1/nodes")
    assert not is_forbidden("reaper", f"GET {CORE}/pods")
