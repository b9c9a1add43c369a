"""The state of gateways, determined from their pods and nodes, without I/O.

The reaper notices that a gateway is silent only after the lease duration. The kubelet may report the end of the
gateway earlier. However, most of what Kubernetes reports does not prove that a process has ended.

Guarantees:

1. A replica counts as ended only if its own pod, identified by its UID, has ended permanently, and the kubelet itself
   reported the end of each container. If a controller declared the pod failed because its node is lost, the replica
   does not count as ended.
2. A replica is only doubted if its pod is missing or was replaced by a pod with the same name, or if its node is
   missing or not ready. A pod that was deleted by force may still be running.
3. If a part of the state cannot be read, nothing is concluded from it.

Sources: Kubernetes, "Pod Lifecycle"; KEP-3329 (pod garbage collection); "Non-graceful node shutdown".
"""

from collections.abc import Mapping
from dataclasses import dataclass

from reaper.snapshot_reader import Hosts
from workspace.identifiers import ReplicaId
from workspace.kubernetes.api_server import JsonObject
from workspace.kubernetes.leases import PodIdentity

_OVER = frozenset({"Succeeded", "Failed"})
_UNKNOWN_TO_KUBELET = "ContainerStatusUnknown"
_DECLARED = "DeletionByPodGC"


@dataclass(frozen=True, slots=True)
class PodState:
    """The state of a pod.

    Attributes:
        uid: The UID of the pod.
        node: The name of the pod's node. Empty if the pod has no node yet.
        address: The IP address of the pod. Empty if the pod has no address yet.
        has_ended: Whether the pod has ended; see guarantee 1.
    """

    uid: str
    node: str
    address: str
    has_ended: bool


def parse_pod(pod: JsonObject) -> PodState:
    """Return the state of a Pod object."""
    status = pod.get("status") or {}
    return PodState(
        uid=str(pod["metadata"]["uid"]),
        node=str((pod.get("spec") or {}).get("nodeName") or ""),
        address=str(status.get("podIP") or ""),
        has_ended=_has_ended(status),
    )


def is_node_ready(node: JsonObject) -> bool:
    """Return whether a Node object has the condition ``Ready``."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)


def hosts_of(
    replicas: Mapping[ReplicaId, PodIdentity], pods: Mapping[str, PodState] | None, nodes: Mapping[str, bool] | None
) -> Hosts:
    """Return the known state of the replicas' hosts.

    Args:
        replicas: The pod of each replica, according to the replica's lease.
        pods: The pods, by name. None if pods cannot be read.
        nodes: Whether each node answers, by name. None if nodes cannot be read.
    """
    ended, doubted = set[ReplicaId](), set[ReplicaId]()
    for replica, identity in replicas.items():
        pod = None if pods is None else pods.get(identity.name)
        is_own = pod is not None and pod.uid == identity.uid
        if pod is not None and is_own and pod.has_ended:
            ended.add(replica)
        elif (pods is not None and not is_own) or not _answers(identity.node, nodes):
            doubted.add(replica)
    return Hosts(frozenset(ended), frozenset(doubted))


def _answers(node: str, nodes: Mapping[str, bool] | None) -> bool:
    """Return whether a node answers. An unknown node counts as answering."""
    return nodes is None or not node or nodes.get(node, False)


def _has_ended(status: JsonObject) -> bool:
    containers = status.get("containerStatuses") or ()
    ends = [(container.get("state") or {}).get("terminated") for container in containers]
    is_reported = bool(ends) and all(end and end.get("reason") != _UNKNOWN_TO_KUBELET for end in ends)
    is_declared = any(condition.get("reason") == _DECLARED for condition in status.get("conditions") or ())
    return status.get("phase") in _OVER and is_reported and not is_declared
