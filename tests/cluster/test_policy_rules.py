"""NetworkPolicies become the rules that their specification describes."""

import pytest

from tests.cluster.machines.policy_rules import Json, Objects, write_rules

NODE = "node-1"
BEFORE, AFTER = 2, 1
"""The number of rules before and after the rules of pods."""


def pod(name: str, address: str, namespace: str = "lodge", **changes: object) -> Json:
    ports = [{"name": "grpc", "containerPort": 15002}, {"name": "metrics", "containerPort": 9090, "protocol": "TCP"}]
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {"nodeName": NODE, "containers": [{"ports": ports}]} | changes,
        "status": {"podIP": address, "phase": "Running"},
    }


def policy(selector: Json, **rules: object) -> Json:
    types = [kind for kind in ("Ingress", "Egress") if kind.lower() in rules]
    spec = {"podSelector": selector, "policyTypes": types, **rules}
    return {"metadata": {"name": "policy", "namespace": "lodge"}, "spec": spec}


def namespace(name: str, **labels: str) -> Json:
    return {"metadata": {"name": name, "labels": labels}}


SPARK, GATEWAY, CLIENT = pod("spark", "10.244.1.2"), pod("gateway", "10.244.2.3"), pod("client", "10.244.1.4", "team")
NAMESPACES = [namespace("lodge"), namespace("team", team="data")]
OF_SPARK = {"matchLabels": {"app": "spark"}}


def rules(*policies: Json, pods: tuple[Json, ...] = (SPARK, GATEWAY, CLIENT)) -> list[str]:
    """Return the rules that isolate or allow, without those of every node."""
    lines = write_rules(Objects(pods, NAMESPACES, policies), NODE)
    return [line.removeprefix("-A NETWORK-POLICIES ") for line in lines[BEFORE:-AFTER]]


BLOCK_TO_SPARK = "-d 10.244.1.2/32 -j MARK --set-xmark 0x10000/0x10000"
BLOCK_FROM_SPARK = "-s 10.244.1.2/32 -j MARK --set-xmark 0x20000/0x20000"


def to_spark(conditions: str) -> str:
    return f"-d 10.244.1.2/32 -s {conditions} -j MARK --set-xmark 0x0/0x10000"


def from_spark(conditions: str) -> str:
    return f"-s 10.244.1.2/32 -d {conditions} -j MARK --set-xmark 0x0/0x20000"


def test_pods_without_policy_are_open():
    assert rules() == []
    assert rules(policy({"matchLabels": {"app": "other"}}, ingress=[])) == []


def test_policy_without_rules_closes_a_direction():
    assert rules(policy(OF_SPARK, ingress=[])) == [BLOCK_TO_SPARK]
    assert rules(policy(OF_SPARK, ingress=[], egress=[])) == [BLOCK_TO_SPARK, BLOCK_FROM_SPARK]


def test_empty_rule_allows_everything():
    assert rules(policy(OF_SPARK, ingress=[{}])) == [BLOCK_TO_SPARK, to_spark("0.0.0.0/0")]


@pytest.mark.parametrize(
    ("peer", "addresses"),
    [
        ({"podSelector": {"matchLabels": {"app": "gateway"}}}, ["10.244.2.3/32"]),
        ({"podSelector": {}}, ["10.244.1.2/32", "10.244.2.3/32"]),
        ({"podSelector": {"matchLabels": {"app": "client"}}}, []),
        ({"namespaceSelector": {"matchLabels": {"team": "data"}}}, ["10.244.1.4/32"]),
        ({"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "client"}}}, ["10.244.1.4/32"]),
        (
            {"podSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["spark"]}]}},
            ["10.244.2.3/32"],
        ),
        ({"podSelector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}}, []),
        ({"ipBlock": {"cidr": "10.0.0.0/30", "except": ["10.0.0.0/31"]}}, ["10.0.0.2/31"]),
        ({"ipBlock": {"cidr": "10.0.0.0/30", "except": ["10.0.0.0/24"]}}, []),
        ({"ipBlock": {"cidr": "fd00::/8"}}, []),
    ],
)
def test_rule_allows_its_peers(peer, addresses):
    assert rules(policy(OF_SPARK, ingress=[{"from": [peer]}])) == [BLOCK_TO_SPARK, *map(to_spark, addresses)]


@pytest.mark.parametrize(
    ("port", "conditions"),
    [
        ({"port": 7078, "protocol": "TCP"}, ["-p tcp --dport 7078:7078"]),
        ({"port": 1, "endPort": 15001, "protocol": "TCP"}, ["-p tcp --dport 1:15001"]),
        ({"port": "grpc", "protocol": "TCP"}, ["-p tcp --dport 15002"]),
        ({"port": "unknown", "protocol": "TCP"}, []),
        ({"protocol": "UDP"}, ["-p udp --dport 0:65535"]),
    ],
)
def test_rule_allows_its_ports(port, conditions):
    allowed = [to_spark(f"0.0.0.0/0 {condition}") for condition in conditions]
    assert rules(policy(OF_SPARK, ingress=[{"ports": [port]}])) == [BLOCK_TO_SPARK, *allowed]


def test_egress_names_the_ports_of_the_peer():
    rule = {"to": [{"podSelector": {"matchLabels": {"app": "gateway"}}}], "ports": [{"port": "metrics"}]}
    assert rules(policy(OF_SPARK, egress=[rule])) == [BLOCK_FROM_SPARK, from_spark("10.244.2.3/32 -p tcp --dport 9090")]


def test_each_node_decides_only_about_its_own_pods():
    elsewhere = pod("spark", "10.244.2.2", nodeName="node-2")
    in_network_of_node = pod("spark", "10.231.1.11", hostNetwork=True)
    ended = SPARK | {"status": {"podIP": "10.244.1.9", "phase": "Succeeded"}}
    assert rules(policy(OF_SPARK, ingress=[]), pods=(elsewhere, in_network_of_node, ended)) == []
