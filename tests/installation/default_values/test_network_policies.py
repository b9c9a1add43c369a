"""Which connections the NetworkPolicies allow, tried from pods on real nodes."""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from kubernetes.client import V1Pod

from tests.installation.installation import IMAGES, Installation, is_ready, wait_until

SECONDS = 60.0
CONNECT = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor

def connect(address):
    try:
        socket.create_connection(address, timeout=3).close()
    except TimeoutError:
        return "closed"
    except ConnectionRefusedError:
        return "refused"
    return "open"

with ThreadPoolExecutor(20) as threads:
    print(json.dumps(list(threads.map(connect, json.loads(sys.argv[1])))))
"""
CLIENTS, METRICS, SPARK, DRIVER, BLOCKS = 15002, 9090, 15002, 7078, 7079
OPEN = {
    "stranger": {("gateway", CLIENTS), ("gateway", METRICS), ("reaper", METRICS)},
    "elsewhere": {("gateway", CLIENTS), ("gateway", METRICS), ("reaper", METRICS)},
    "gateway": {("gateway", CLIENTS), ("gateway", METRICS), ("reaper", METRICS), ("spark", SPARK)},
    "reaper": {("gateway", CLIENTS), ("gateway", METRICS), ("reaper", METRICS), ("spark", SPARK)},
    "spark": {("gateway", CLIENTS), ("gateway", METRICS), ("reaper", METRICS), ("spark-executor", BLOCKS)},
    "spark-executor": {
        ("gateway", CLIENTS),
        ("gateway", METRICS),
        ("reaper", METRICS),
        ("spark", DRIVER),
        ("spark", BLOCKS),
        ("spark-executor", BLOCKS),
    },
}
"""The connections that are open, by the pod that connects. All other connections of `PORTS` are closed."""

PORTS = {
    "gateway": (CLIENTS, METRICS, 8080),
    "reaper": (METRICS, 8080),
    "spark": (SPARK, DRIVER, BLOCKS, 4040),
    "spark-executor": (BLOCKS, 8080),
}


@pytest.fixture(scope="module")
def sources(installation: Installation) -> Iterator[dict[str, V1Pod]]:
    """A pod of each kind, and pods that do not belong to Lodge, in its namespace and in another one."""
    elsewhere = installation.cluster.namespace("elsewhere")
    strangers = [("stranger", installation.namespace), ("elsewhere", elsewhere)]
    for name, namespace in strangers:
        installation.core.create_namespaced_pod(namespace, stranger(name))
    wait_until(
        lambda: all(is_ready(installation.core.read_namespaced_pod(*each)) for each in strangers),
        "the strangers run",
        SECONDS,
    )
    pods = {component: installation.pods(component)[0] for component in PORTS}
    yield pods | {name: installation.core.read_namespaced_pod(name, namespace) for name, namespace in strangers}
    installation.core.delete_namespaced_pod("stranger", installation.namespace, grace_period_seconds=0)
    installation.cluster.delete_namespace(elsewhere)


def stranger(name: str) -> dict[str, object]:
    container = {
        "name": "stranger",
        "image": f"{IMAGES['image']['repository']}:0.1.0",
        "command": ["sleep", "1000"],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    context = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    spec = {"containers": [container], "securityContext": context, "terminationGracePeriodSeconds": 0}
    return {"metadata": {"name": name}, "spec": spec}


def test_only_listed_connections_are_open(installation: Installation, sources: dict[str, V1Pod]) -> None:
    with ThreadPoolExecutor(len(OPEN)) as threads:  # closed connections take seconds
        tried = {source: threads.submit(try_connections, installation, sources[source]) for source in OPEN}
    for source, connections in tried.items():
        states = connections.result()
        assert "refused" not in states.values(), source
        assert {each for each, state in states.items() if state == "open"} == OPEN[source] & states.keys(), source


def try_connections(installation: Installation, pod: V1Pod) -> dict[tuple[str, int], str]:
    """Return what happens when a pod connects to the ports of a pod of each kind."""
    targets = {component: other(installation.pods(component), pod) for component in PORTS}
    connections = [(component, port) for component, ports in PORTS.items() if targets[component] for port in ports]
    addresses = [(targets[component].status.pod_ip, port) for component, port in connections]
    command = ["exec", pod.metadata.name, "--", "python3", "-c", CONNECT, json.dumps(addresses)]
    states = json.loads(installation.kubectl("--namespace", pod.metadata.namespace, *command))
    return dict(zip(connections, states, strict=True))


def other(pods: Sequence[V1Pod], source: V1Pod) -> V1Pod | None:
    """Return a pod that is not the source itself."""
    return next((pod for pod in pods if pod.metadata.name != source.metadata.name), None)
