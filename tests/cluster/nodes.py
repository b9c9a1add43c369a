"""Simulated nodes, each with a process of its own.

A node can therefore fail while others live. All that the control plane sees is real: the node's lease stops, the node
becomes not ready and gets taints, and its pods are marked for deletion. They stay, because no kubelet ends them. Two
rules of Kubernetes matter:

- The default tolerations keep a pod on a failed node for 300 s. `Node.pod` accepts a shorter time.
- If *all* nodes are silent, the control plane assumes a fault of its own and evicts nothing. A test of eviction needs a
  second node that lives.
"""

from collections.abc import Mapping
from pathlib import Path

from kubernetes.client import ApiClient, CoreV1Api, V1Node, V1Pod

from tests.cluster.builds import program
from tests.cluster.control_plane import NODE_GRACE_SECONDS
from tests.cluster.processes import Process, wait_until

READY_SECONDS = 240.0
_STAGES = Path(__file__).with_name("nodes.yaml")


def is_ready(node: V1Node) -> bool:
    """Return whether the control plane considers a node ready."""
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions or ())


class Node:
    """A node of the cluster, created by `tests.cluster.cluster.Cluster.node`."""

    def __init__(self, name: str, client: ApiClient, kubeconfig: Path, directory: Path) -> None:
        self.name = name
        self._core = CoreV1Api(client)
        command = [
            program("kwok"),
            f"--kubeconfig={kubeconfig}",
            f"--config={_STAGES}",
            "--manage-all-nodes=false",
            f"--manage-single-node={name}",
            f"--node-lease-duration-seconds={NODE_GRACE_SECONDS}",
        ]
        self._kwok = Process(command, directory / f"node-{name}.log", is_ready=self.is_ready)

    def start(self) -> None:
        """Join the cluster and wait until the node is ready."""
        self._core.create_node({"metadata": {"name": self.name, "labels": {"kubernetes.io/hostname": self.name}}})
        self._kwok.start()

    def remove(self) -> None:
        """Leave the cluster for good, like a machine that is deleted."""
        self.kill()
        self._core.delete_node(self.name)

    def kill(self) -> None:
        """Stop the node's process, and leave its objects in the cluster."""
        self._kwok.kill()

    def fail(self) -> None:
        """Go silent. The cluster notices after `NODE_GRACE_SECONDS`."""
        self._kwok.pause()

    def recover(self) -> None:
        """Send heartbeats again, and catch up on missed work."""
        self._kwok.resume()

    def is_ready(self) -> bool:
        """Return whether the control plane considers the node ready."""
        return is_ready(self._core.read_node_status(self.name))

    def wait_until_ready(self) -> None:
        wait_until(self.is_ready, f"node {self.name} is ready", READY_SECONDS)

    def wait_until_lost(self) -> None:
        """Wait until the control plane has tainted the node as unreachable."""
        wait_until(self._is_lost, f"node {self.name} is not ready and unreachable", READY_SECONDS)

    def pod(
        self,
        namespace: str,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        service_account: str = "default",
        unreachable_seconds: int = 300,
    ) -> V1Pod:
        """Run a pod on this node.

        Args:
            namespace: The namespace.
            name: The name of the pod.
            labels: The labels of the pod.
            service_account: The name of its service account.
            unreachable_seconds: How long the pod stays after the control plane lost the node.

        Returns:
            The running pod.
        """
        tolerations = [
            {"key": f"node.kubernetes.io/{key}", "effect": "NoExecute", "tolerationSeconds": unreachable_seconds}
            for key in ("not-ready", "unreachable")
        ]
        spec = {
            "nodeName": self.name,
            "serviceAccountName": service_account,
            "containers": [{"name": "main", "image": "lodge.test/simulated"}],
            "tolerations": [{"operator": "Exists", **toleration} for toleration in tolerations],
        }
        self._core.create_namespaced_pod(
            namespace, {"metadata": {"name": name, "labels": dict(labels or {})}, "spec": spec}
        )
        wait_until(
            lambda: self._core.read_namespaced_pod(name, namespace).status.phase == "Running",
            f"pod {namespace}/{name} runs on node {self.name}",
            READY_SECONDS,
        )
        return self._core.read_namespaced_pod(name, namespace)

    def _is_lost(self) -> bool:
        taints = self._core.read_node(self.name).spec.taints or ()
        return not self.is_ready() and any(
            taint.key == "node.kubernetes.io/unreachable" and taint.effect == "NoExecute" for taint in taints
        )
