"""What remains after the last step of the tutorial. This runs last."""

from tests.installation.installation import Installation, wait_until
from tests.installation.tutorial import NAMESPACE, Tutorial, executed_blocks

SECONDS = 60.0
CLAIM = "persistentvolumeclaim/lodge-workspace"
REMAINS = {"configmap/lodge-roots", "lease.coordination.k8s.io/lodge-reaper", CLAIM}
"""As the guide says. The leases of gateways remain too, if the reaper stops before it has removed them."""

OF_LODGE = "app.kubernetes.io/instance=lodge,app.kubernetes.io/managed-by=lodge"
BEFORE = {
    "configmap/kube-root-ca.crt",
    "persistentvolumeclaim/raw-files",
    "serviceaccount/ada",
    "serviceaccount/default",
}
"""Objects that the release did not create."""


def test_uninstall_leaves_what_the_guide_says(installation: Installation, tutorial: Tutorial) -> None:
    abandoned = installation.connect()
    abandoned.sql("create temporary table t as select 1 as one").collect()
    abandoned.client.close()
    installation.core.delete_namespaced_service(installation.entrance, installation.namespace)
    installation.kubectl("scale", "deployment", "lodge-gateway", "--replicas", "0")
    installation.kubectl("delete", "connectsessions", "--field-selector", "spec.instance=lodge")
    workspace = installation.workspace()
    tutorial.run_until("To remove them all")
    wait_until(lambda: not installation.kubectl("get", "pods", "--output=name"), "all pods have stopped", SECONDS)
    leases = {name for name in remaining(installation) if name.startswith("lease.coordination.k8s.io/lodge-gateway-")}
    assert remaining(installation) == REMAINS | leases
    installation.kubectl("delete", "leases,configmaps", "--selector", OF_LODGE)
    assert remaining(installation) == {CLAIM}
    assert [path.name for path in workspace.iterdir()] == [".lodge"]
    cluster_wide = installation.kubectl(
        "get", "clusterroles,clusterrolebindings,crds,priorityclasses,persistentvolumes", "--output", "name"
    ).split()
    assert [name for name in cluster_wide if "lodge" in name] == [
        "customresourcedefinition.apiextensions.k8s.io/connectsessions.sparklodge.io"
    ]
    tutorial.finish()
    assert tutorial.executed == len(executed_blocks()) > 0
    assert NAMESPACE not in {each.metadata.name for each in installation.core.list_namespace().items}


def remaining(installation: Installation) -> set[str]:
    """Return all objects in the namespace that the release created, without those that report or are derived."""
    kinds = installation.kubectl("api-resources", "--namespaced", "--verbs=list", "--output=name").split()
    derived = {"events", "events.events.k8s.io", "pods.metrics.k8s.io", "endpoints"}
    found = installation.kubectl("get", ",".join(sorted({*kinds} - derived)), "--output=name", "--ignore-not-found")
    return set(found.split()) - BEFORE
