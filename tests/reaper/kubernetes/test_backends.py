"""The availability of backends; see the guarantees of :mod:`reaper.kubernetes.backends`."""

from typing import Any

import pytest

from reaper.kubernetes.backends import Endpoint, Endpoints, Namespace, availability, parse_endpoints
from reaper.kubernetes.hosts import PodState

NODES = {"here": True, "lost": False}
READY = Endpoint("", "here", is_ready=True)


def cluster(*endpoints: Endpoint, **parts: Any) -> Namespace:
    """Return the state of namespace ``ns`` with a Service ``spark``."""
    defaults: dict[str, Any] = {"name": "ns", "pods": {}, "nodes": NODES}
    return Namespace(slices={"spark-1": Endpoints("spark", endpoints)}, **(defaults | parts))


def reason(address: str, namespace: Namespace) -> str | None:
    found = availability(f"sc://{address}:15002", namespace)
    return None if found is None else found.reason


@pytest.mark.parametrize("host", ["spark", "spark.ns", "spark.ns.svc", "spark.ns.svc.cluster.local"])
def test_service_is_found_by_each_of_its_names(host: str) -> None:
    assert reason(host, cluster(READY)) == "PodReady"
    assert reason(host, cluster()) == "NoPod"


@pytest.mark.parametrize("host", ["pod-0.spark", "pod-0.spark.ns", "pod-0.spark.ns.svc.cluster.local"])
def test_pod_of_a_service_is_found_by_each_of_its_names(host: str) -> None:
    one, other = Endpoint("pod-0", "here", is_ready=True), Endpoint("pod-1", "here", is_ready=True)
    assert reason(host, cluster(one, other)) == "PodReady"
    assert reason(host, cluster(other)) == "NoPod"


@pytest.mark.parametrize("host", ["elsewhere", "spark.other", "spark.other.svc", "spark.example.com", "10.0.0.9"])
def test_guarantee_1_other_addresses_are_unknown(host: str) -> None:
    assert reason(host, cluster(READY)) is None


def test_guarantee_1_unreadable_state_is_unknown() -> None:
    nothing = Namespace("ns", None, None, None)
    assert reason("spark", nothing) is None
    assert reason("10.0.0.1", nothing) is None


def test_guarantee_2_service_needs_one_ready_pod_on_a_node_that_answers() -> None:
    lost, starting = Endpoint("", "lost", is_ready=True), Endpoint("", "here", is_ready=False)
    assert reason("spark", cluster(lost, starting, READY)) == "PodReady"
    assert reason("spark", cluster(lost)) == "NodeLost"
    assert reason("spark", cluster(starting)) == "NoPodReady"
    assert reason("spark", cluster(lost, nodes=None)) == "PodReady"


def test_guarantee_2_pod_must_run_on_a_node_that_answers() -> None:
    def of_pod(node: str, *, has_ended: bool = False) -> str | None:
        pods = {"spark-0": PodState("uid", node, "10.0.0.1", has_ended)}
        return reason("10.0.0.1", cluster(pods=pods))

    assert of_pod("here") == "PodFound"
    assert of_pod("lost") == "NodeLost"
    assert of_pod("here", has_ended=True) == "PodEnded"


def test_endpoint_slice_is_parsed() -> None:
    found = {
        "metadata": {"name": "spark-1", "labels": {"kubernetes.io/service-name": "spark"}},
        "endpoints": [
            {"addresses": ["10.0.0.1"], "hostname": "pod-0", "nodeName": "here", "conditions": {"ready": False}},
            {"addresses": ["10.0.0.2"]},
        ],
    }
    expected = (Endpoint("pod-0", "here", is_ready=False), Endpoint("", "", is_ready=True))
    assert parse_endpoints(found) == Endpoints("spark", expected)
    assert parse_endpoints({"metadata": {"name": "x"}}) == Endpoints("", ())
