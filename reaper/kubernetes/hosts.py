"""What pods and nodes tell of the gateways that run there: no I/O.

Why it exists: a gateway that dies is found by its silence, which takes the whole lease duration. The kubelet, or the
silence of a whole node, may tell sooner; but most of what Kubernetes tells is no proof that a process has ended.

Guarantees:

1. A replica counts as ended only if its own pod, by uid, is over for good, and the kubelet itself reported the end of
   each of its containers. A pod that controllers declared failed, because its node is lost, does not count.
2. Anything less only makes it doubted: its pod is gone, or replaced by one of the same name, or its node is gone or
   does not report itself ready. Pods can be deleted by force, and live on.
3. Of what cannot be seen, nothing is concluded.

Sources: Kubernetes, "Pod Lifecycle"; KEP-3329 (pod garbage collection); "Non-graceful node shutdown".
"""

from collections.abc import Mapping
from dataclasses import dataclass

from reaper.snapshot_reader import Hosts
from workspace.kubernetes.api_server import JsonObject
from workspace.kubernetes.leases import PodIdentity
from workspace.records import ReplicaId

_OVER = frozenset({"Succeeded", "Failed"})
_UNKNOWN_TO_KUBELET = "ContainerStatusUnknown"
_DECLARED = "DeletionByPodGC"


@dataclass(frozen=True, slots=True)
class PodState:
    """What is kept of a pod.

    Attributes:
        uid: Which pod of its name it is.
        node: Where it runs; empty if nowhere yet.
        address: Its address; empty if it has none yet.
        has_ended: See guarantee 1.
    """

    uid: str
    node: str
    address: str
    has_ended: bool


def parse_pod(pod: JsonObject) -> PodState:
    status = pod.get("status") or {}
    return PodState(
        uid=str(pod["metadata"]["uid"]),
        node=str((pod.get("spec") or {}).get("nodeName") or ""),
        address=str(status.get("podIP") or ""),
        has_ended=_has_ended(status),
    )


def is_node_ready(node: JsonObject) -> bool:
    """Whether a node reports itself ready, and its reports come."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)


def hosts_of(
    replicas: Mapping[ReplicaId, PodIdentity],
    pods: Mapping[str, PodState] | None,
    nodes: Mapping[str, bool] | None,
) -> Hosts:
    """What is known of where replicas run.

    Args:
        replicas: The pod that each says it runs in.
        pods: The pods, by name; None if they cannot be seen.
        nodes: Whether each node answers, by name; None if they cannot be seen.
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
    """A node that is not known to be silent counts as answering."""
    return nodes is None or not node or nodes.get(node, False)


def _has_ended(status: JsonObject) -> bool:
    containers = status.get("containerStatuses") or ()
    ends = [(container.get("state") or {}).get("terminated") for container in containers]
    is_reported = bool(ends) and all(end and end.get("reason") != _UNKNOWN_TO_KUBELET for end in ends)
    is_declared = any(condition.get("reason") == _DECLARED for condition in status.get("conditions") or ())
    return status.get("phase") in _OVER and is_reported and not is_declared
