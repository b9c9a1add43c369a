"""Gateways, pods and nodes; see the guarantees of :mod:`reaper.kubernetes.hosts`."""

from typing import Any

import pytest

from reaper.kubernetes.hosts import hosts_of, is_node_ready, parse_pod
from reaper.snapshot_reader import Hosts
from workspace.identifiers import ReplicaId
from workspace.kubernetes.leases import PodIdentity

GATEWAY = ReplicaId("gateway")
REPLICAS = {GATEWAY: PodIdentity("pod", "uid-1", "node")}
NODES = {"node": True}
UNKNOWN = Hosts()
ENDED = Hosts(ended=frozenset({GATEWAY}))
DOUBTED = Hosts(doubted=frozenset({GATEWAY}))


def a_pod(phase: str = "Running", *ends: dict[str, Any], uid: str = "uid-1", **status: Any) -> Any:
    """Return a pod with one container for each end; a container without an end is running."""
    states = [{"terminated": end} if end else {"running": {}} for end in ends]
    return {
        "metadata": {"name": "pod", "uid": uid},
        "spec": {"nodeName": "node"},
        "status": {"phase": phase, "podIP": "10.0.0.1", "containerStatuses": [{"state": s} for s in states], **status},
    }


END = {"exitCode": 137, "reason": "Error"}


@pytest.mark.parametrize(
    ("pod", "known"),
    [
        (a_pod("Running", {}), UNKNOWN),
        (a_pod("Failed", END), ENDED),
        (a_pod("Succeeded", END, END), ENDED),
        (a_pod("Running", END), UNKNOWN),
        (a_pod("Failed", END, {}), UNKNOWN),
        (a_pod("Failed"), UNKNOWN),
        (a_pod("Failed", {"exitCode": 137, "reason": "ContainerStatusUnknown"}), UNKNOWN),
        (a_pod("Failed", END, conditions=[{"type": "DisruptionTarget", "reason": "DeletionByPodGC"}]), UNKNOWN),
        (a_pod("Failed", END, uid="uid-2"), DOUBTED),
        (a_pod("Running", {}, uid="uid-2"), DOUBTED),
        (None, DOUBTED),
    ],
    ids=[
        "it runs",
        "its kubelet says that it failed",
        "its kubelet says that all containers ended",
        "its container will be started again",
        "one container still runs",
        "nobody tells of its containers",
        "the kubelet lost track of it",
        "a controller declared it failed",
        "a successor of its name failed",
        "a successor of its name runs",
        "it is gone",
    ],
)
def test_pod_has_ended_only_if_the_kubelet_reports_it(pod: Any, known: Hosts) -> None:
    pods = {} if pod is None else {"pod": parse_pod(pod)}
    assert hosts_of(REPLICAS, pods, NODES) == known


@pytest.mark.parametrize("nodes", [{}, {"node": False}])
def test_gateways_of_missing_or_silent_node_are_doubted(nodes: dict[str, bool]) -> None:
    assert hosts_of(REPLICAS, {"pod": parse_pod(a_pod("Running", {}))}, nodes) == DOUBTED
    assert hosts_of(REPLICAS, None, nodes) == DOUBTED
    assert hosts_of(REPLICAS, {"pod": parse_pod(a_pod("Failed", END))}, nodes) == ENDED


def test_guarantee_3_nothing_follows_from_unreadable_state() -> None:
    assert hosts_of(REPLICAS, None, None) == UNKNOWN
    assert hosts_of({}, {}, {}) == UNKNOWN
    assert hosts_of({GATEWAY: PodIdentity("pod", "uid-1", "")}, None, {}) == UNKNOWN


@pytest.mark.parametrize(("status", "answers"), [("True", True), ("False", False), ("Unknown", False)])
def test_node_answers_while_it_is_ready(status: str, answers: bool) -> None:
    conditions = [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": status}]
    assert is_node_ready({"status": {"conditions": conditions}}) == answers
    assert not is_node_ready({"status": {}})
