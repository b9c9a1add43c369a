"""What each pod may do at the Kubernetes API, tried with the pod's own token."""

from itertools import product

import pytest
from kubernetes.client import ApiClient, AuthorizationV1Api, Configuration

from tests.helm.audit import AuditLog
from tests.installation.installation import Installation

FILE = "/var/run/secrets/kubernetes.io/serviceaccount/token"
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
RESOURCES = (
    "/configmaps",
    "/endpoints",
    "/events",
    "/namespaces",
    "/nodes",
    "/persistentvolumeclaims",
    "/persistentvolumes",
    "/pods",
    "/pods/eviction",
    "/pods/exec",
    "/pods/log",
    "/secrets",
    "/serviceaccounts",
    "/serviceaccounts/token",
    "/services",
    "admissionregistration.k8s.io/validatingwebhookconfigurations",
    "apiextensions.k8s.io/customresourcedefinitions",
    "apps/daemonsets",
    "apps/deployments",
    "apps/statefulsets",
    "authentication.k8s.io/tokenreviews",
    "authorization.k8s.io/subjectaccessreviews",
    "batch/jobs",
    "certificates.k8s.io/certificatesigningrequests",
    "coordination.k8s.io/leases",
    "discovery.k8s.io/endpointslices",
    "events.k8s.io/events",
    "networking.k8s.io/networkpolicies",
    "policy/poddisruptionbudgets",
    "rbac.authorization.k8s.io/clusterrolebindings",
    "rbac.authorization.k8s.io/roles",
    "sparklodge.io/connectsessions",
    "sparklodge.io/connectsessions/status",
    "storage.k8s.io/storageclasses",
)
ALLOWED = {
    "gateway": (
        "sparklodge.io/connectsessions: get list watch create patch delete",
        "coordination.k8s.io/leases: list create patch delete",
        "/configmaps: create",
    ),
    "reaper": (
        "sparklodge.io/connectsessions: get list watch patch delete",
        "sparklodge.io/connectsessions/status: patch",
        "coordination.k8s.io/leases: list watch create delete",
        "/configmaps: create",
        "/pods: list watch",
        "discovery.k8s.io/endpointslices: list watch",
        "events.k8s.io/events: create",
    ),
    "spark": ("/pods: get list watch create delete deletecollection",),
}
"""In the namespace of the release."""

ALLOWED_IN_CLUSTER = {
    "gateway": ("authentication.k8s.io/tokenreviews: create",),
    "reaper": ("/nodes: list watch",),
    "spark": (),
}
NAMED = {
    "gateway": ("/configmaps lodge-roots: get update",),
    "reaper": ("/configmaps lodge-roots: get update", "coordination.k8s.io/leases lodge-reaper: get update"),
    "spark": (),
}
OTHERS = ("/configmaps lodge-config", "/configmaps lodge-spark", "coordination.k8s.io/leases lodge-gateway")


def parse(lines: tuple[str, ...]) -> set[tuple[str, str]]:
    pairs = (line.rsplit(": ", 1) for line in lines)
    return {(resource, verb) for resource, verbs in pairs for verb in verbs.split()}


class Account:
    """The account of a pod, with the token from the pod's file system."""

    def __init__(self, installation: Installation, component: str) -> None:
        pod = installation.pods(component)[0].metadata.name
        settings = Configuration()
        known = installation.cluster.client.configuration
        settings.host, settings.ssl_ca_cert = known.host, known.ssl_ca_cert
        settings.api_key = {"authorization": f"Bearer {installation.kubectl('exec', pod, '--', 'cat', FILE)}"}
        self._api = AuthorizationV1Api(ApiClient(settings))

    def may(self, verb: str, resource: str, namespace: str) -> bool:
        """Return what the API server answers to the pod.

        Args:
            verb: The verb.
            resource: The group and the resource, and perhaps the name of an object.
            namespace: The namespace. Permissions in the whole cluster apply to it too.
        """
        kind, _, name = resource.partition(" ")
        group, kind = kind.split("/", 1)
        kind, _, part = kind.partition("/")
        attributes = {"verb": verb, "group": group, "resource": kind, "subresource": part, "name": name}
        review = {"spec": {"resourceAttributes": {**attributes, "namespace": namespace}}}
        return bool(self._api.create_self_subject_access_review(review).status.allowed)


@pytest.fixture(params=list(ALLOWED))
def component(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_pods_may_do_only_what_they_need(installation: Installation, component: str) -> None:
    account = Account(installation, component)
    table = set(product(RESOURCES, VERBS))
    everywhere = parse(ALLOWED_IN_CLUSTER[component])
    scopes = {installation.namespace: parse(ALLOWED[component]) | everywhere, "default": everywhere}
    for namespace, expected in scopes.items():
        assert {pair for pair in table if account.may(pair[1], pair[0], namespace)} == expected


def test_pods_may_use_only_their_own_named_objects(installation: Installation, component: str) -> None:
    account = Account(installation, component)
    named = {*(line.rsplit(": ", 1)[0] for lines in NAMED.values() for line in lines), *OTHERS}
    everywhere = parse(ALLOWED[component])
    expected = parse(NAMED[component]) | {
        (resource, verb) for resource in named for verb in VERBS if (resource.split()[0], verb) in everywhere
    }
    # Kubernetes does not look at names of objects that a request creates.
    table = [(resource, verb) for resource, verb in product(named, VERBS)]
    assert {(what, verb) for what, verb in table if account.may(verb, what, installation.namespace)} == expected


def test_executors_have_no_token(installation: Installation) -> None:
    for pod in installation.pods("spark-executor"):
        found = installation.kubectl("exec", pod.metadata.name, "--", "sh", "-c", f"ls {FILE} 2>&1 || true")
        assert "No such file" in found


def test_no_request_of_lodge_was_forbidden(installation: Installation, audit: AuditLog, component: str) -> None:
    requests = audit.requests(installation.namespace, f"lodge-{component}")
    assert requests
    assert not [str(request.permission) for request in requests if request.is_forbidden]
