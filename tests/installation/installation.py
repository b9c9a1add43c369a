"""A release of the chart on real nodes, and its clients outside the cluster."""

import base64
import os
import subprocess
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kubernetes.client import ApiException, CoordinationV1Api, CoreV1Api, CustomObjectsApi, V1Pod
from pyspark.sql.connect.session import SparkSession

from tests.chaos.connections import SeveralAddresses, create_session
from tests.cluster import processes
from tests.cluster.builds import program
from tests.cluster.cluster import Cluster
from tests.cluster.machines.machine import Machine
from tests.helm.chart import CHART, Helm, HelmError, Values, with_values
from tests.helm.releases import RESTRICTED

NAME = "lodge"
AUDIENCE = "lodge"
INSTALL_SECONDS = 300
READY_SECONDS = 240.0
_POLL_SECONDS = 0.5
_TOKEN_SECONDS = 3600
_PATIENCE_SECONDS = 60.0
_GROUP = ("sparklodge.io", "v1alpha1", "connectsessions")

IMAGES: Values = {
    "volume": {"create": True},
    "image": {"repository": "lodge.test/lodge"},
    "spark": {"image": {"repository": "lodge.test/lodge-spark"}},
}
"""The values that name the images. A user needs no other values."""

_ENTRANCE = {
    "metadata": {"name": "entrance"},
    "spec": {
        "type": "NodePort",
        "selector": {"app.kubernetes.io/instance": NAME, "app.kubernetes.io/component": "gateway"},
        "ports": [{"port": 15002}],
    },
}
"""By default, the chart has only Services for clients in the cluster."""


class Installation:
    """A namespace in which only restricted pods may run, and a release in it.

    Args:
        cluster: A cluster with real nodes, which have the images.
        directory: A directory for helm's files.
        namespace: An existing namespace; empty for a new one.

    Attributes:
        namespace: The namespace.
        entrance: The Service through which clients outside the cluster connect.
        workspace_claim: The claim of the volume with the workspace.
    """

    def __init__(self, cluster: Cluster, directory: Path, namespace: str = "") -> None:
        self.cluster = cluster
        self.core = CoreV1Api(cluster.client)
        self.namespace = namespace or cluster.namespace("lodge")
        self.core.patch_namespace(self.namespace, {"metadata": {"labels": RESTRICTED}})
        self.leases = CoordinationV1Api(cluster.client)
        self.entrance, self.workspace_claim = NAME, f"{NAME}-workspace"
        self._helm = Helm(directory, cluster.kubeconfig)
        self._objects = CustomObjectsApi(cluster.client)

    def upgrade(self, *values: Values) -> str:
        """Install or upgrade the release, and return helm's output when every pod is ready."""
        return self.helm("upgrade", NAME, CHART, "--install", "--wait", values=with_values(IMAGES, *values))

    def rollback(self) -> str:
        return self.helm("rollback", NAME, "--wait")

    def helm(self, *arguments: str | Path, values: Values | None = None) -> str:
        """Run a helm command in the namespace."""
        options = ("--namespace", self.namespace)
        if arguments[0] != "get":
            options += ("--timeout", f"{INSTALL_SECONDS}s")
        try:
            return self._helm.run(*arguments, *options, values=values, seconds=INSTALL_SECONDS + 30)
        except HelmError as error:
            error.add_note(self.logs())
            raise

    def kubectl(self, *arguments: str, seconds: float = 60) -> str:
        """Run kubectl in the namespace, and return its output.

        Raises:
            subprocess.CalledProcessError: The command failed. Its notes have the error.
        """
        command = [program("kubectl"), "--namespace", self.namespace, *arguments]
        environment = os.environ | {"KUBECONFIG": str(self.cluster.kubeconfig)}
        result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds, check=False)
        if result.returncode:
            error = subprocess.CalledProcessError(result.returncode, command, result.stdout, result.stderr)
            error.add_note(f"{result.stdout}{result.stderr}")
            raise error
        return result.stdout

    def pods(self, component: str | None = None) -> Sequence[V1Pod]:
        """Return the pods that are not terminating."""
        selector = f"app.kubernetes.io/instance={NAME}"
        if component is not None:
            selector += f",app.kubernetes.io/component={component}"
        found = self.core.list_namespaced_pod(self.namespace, label_selector=selector).items
        return [pod for pod in found if pod.metadata.deletion_timestamp is None]

    def wait_until_ready(self) -> None:
        """Wait until each pod is ready, and none is terminating."""

        def is_complete() -> bool:
            pods = self.core.list_namespaced_pod(self.namespace).items
            return all(is_ready(pod) or pod.status.phase == "Succeeded" for pod in pods)

        wait_until(is_complete, f"all pods in {self.namespace} are ready", READY_SECONDS)

    def leader(self) -> V1Pod | None:
        """Return the pod of the reaper that acts; None between two of them."""
        holder = self.leases.read_namespaced_lease(f"{NAME}-reaper", self.namespace).spec.holder_identity or ""
        found = [pod for pod in self.pods("reaper") if holder.startswith(f"{pod.metadata.name}_")]
        return found[0] if found else None

    def claim(self, name: str) -> None:
        """Create a claim of a volume that all nodes share."""
        spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
        self.core.create_namespaced_persistent_volume_claim(self.namespace, {"metadata": {"name": name}, "spec": spec})

    def open_entrance(self) -> None:
        """Let clients outside the cluster connect to any gateway through any node."""
        self.core.create_namespaced_service(self.namespace, _ENTRANCE)
        self.entrance = "entrance"

    def workspace(self) -> Path:
        """Return the directory of the workspace, as the host of the nodes sees it."""
        return self.volume(self.workspace_claim)

    def volume(self, claim: str) -> Path:
        """Return the directory of a claim's volume, as the host of the nodes sees it."""
        name = self.core.read_namespaced_persistent_volume_claim(claim, self.namespace).spec.volume_name
        return Path(self.core.read_persistent_volume(name).spec.host_path.path)

    def session_locations(self) -> frozenset[str]:
        """Return the UUIDs of the sessions that have files in the workspace."""
        return frozenset(path.name for path in self.workspace().iterdir() if not path.name.startswith("."))

    def sessions(self) -> Sequence[Mapping[str, Any]]:
        """Return the ConnectSessions, as `kubectl get connectsessions` shows them."""
        group, version, plural = _GROUP
        found = self._objects.list_namespaced_custom_object(group, version, self.namespace, plural)
        items: Sequence[Mapping[str, Any]] = found["items"]
        return items

    def token(self, account: str) -> str:
        """Return a token of a service account, which is created if it does not exist."""
        try:
            self.core.create_namespaced_service_account(self.namespace, {"metadata": {"name": account}})
        except ApiException as error:
            if error.status != 409:
                raise
        request = {"spec": {"audiences": [AUDIENCE], "expirationSeconds": _TOKEN_SECONDS}}
        answer = self.core.create_namespaced_service_account_token(account, self.namespace, request)
        return str(answer.status.token)

    def authority(self) -> bytes:
        """Return the certificate authority of the gateways, as PEM."""
        secret = self.core.read_namespaced_secret(f"{NAME}-self-signed", self.namespace)
        return base64.b64decode(secret.data["ca.crt"])

    def connect(
        self, account: str = "default", session_id: str | None = None, machines: Sequence[Machine] = ()
    ) -> SparkSession:
        """Return a session of a client outside the cluster, before its first request.

        Args:
            account: The service account that the client is.
            session_id: The id of an existing session; None for a new one.
            machines: The nodes that the client tries, in this order; empty for all.
        """
        port = self.core.read_namespaced_service(self.entrance, self.namespace).spec.ports[0].node_port
        builder = SeveralAddresses(
            f"sc://localhost/;session_id={session_id or uuid.uuid4()}",
            [f"{machine.address}:{port}" for machine in machines or self.cluster.machines],
            self.authority(),
            self.token(account),
        )
        return create_session(builder, _PATIENCE_SECONDS)

    def logs(self) -> str:
        """Return the logs of all pods and the events, for the report of a failed test."""
        parts = []
        for pod in self.pods():
            try:
                log = self.core.read_namespaced_pod_log(pod.metadata.name, self.namespace, tail_lines=50)
            except ApiException as error:
                log = str(error.reason)
            parts.append(f"--- {pod.metadata.name} on {pod.spec.node_name}\n{log}")
        parts.append(self.kubectl("get", "pods,events", "--output", "wide"))
        return "\n".join(parts)


def wait_until(condition: Callable[[], object], what: str, seconds: float) -> None:
    """Wait until a condition holds. It is checked less often than elsewhere, because pods take seconds to change.

    Raises:
        ClusterError: The condition did not hold in time.
    """
    processes.wait_until(condition, what, seconds, _POLL_SECONDS)


def is_ready(pod: V1Pod) -> bool:
    """Return whether a pod is ready, and not terminating."""
    conditions = pod.status.conditions or ()
    ready = any(each.type == "Ready" and each.status == "True" for each in conditions)
    return ready and pod.metadata.deletion_timestamp is None
