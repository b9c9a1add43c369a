"""NetworkPolicies as rules for iptables.

The rules of a node decide about new connections to and from the pods of the node. A pod that a policy selects for a
direction is isolated in this direction: it has only the connections that a policy allows.

The rules form one chain without branches. It marks each packet that an isolated pod sends or receives, removes the mark
if a policy allows the packet, and drops the packets whose mark remains.

Not supported: IPv6, and pods in the network of their node. Open connections continue when a policy closes them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, ip_network
from typing import Any, Literal

Json = Mapping[str, Any]
"""An object of the Kubernetes API."""

CHAIN = "NETWORK-POLICIES"
_EVERYWHERE = IPv4Network("0.0.0.0/0")
_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class _Direction:
    """A direction of connections, as seen from an isolated pod.

    Attributes:
        policy_type: Its name in ``policyTypes``.
        field: The rules of a policy.
        peers: The peers of a rule.
        own: The option of iptables for the address of the isolated pod.
        other: The option of iptables for the address of its peer.
        mark: The mark of packets that are not allowed.
    """

    policy_type: Literal["Ingress", "Egress"]
    field: str
    peers: str
    own: str
    other: str
    mark: int


_INGRESS = _Direction("Ingress", "ingress", "from", own="-d", other="-s", mark=0x10000)
_EGRESS = _Direction("Egress", "egress", "to", own="-s", other="-d", mark=0x20000)
_MARKS = _INGRESS.mark | _EGRESS.mark


@dataclass(frozen=True, slots=True)
class _Peer:
    """An address that may connect, and the pod that has it."""

    network: IPv4Network
    pod: Json | None = None


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects of a cluster that decide about connections."""

    pods: Sequence[Json]
    namespaces: Sequence[Json]
    policies: Sequence[Json]

    def connected_pods(self) -> Iterator[Json]:
        """Return the pods that have an address of their own."""
        for pod in self.pods:
            status = pod.get("status", {})
            if status.get("podIP") and status.get("phase") not in _ENDED and not pod["spec"].get("hostNetwork"):
                yield pod

    def policies_of(self, pod: Json, direction: _Direction) -> Sequence[Json]:
        """Return the policies that isolate a pod in a direction."""
        return [
            policy
            for policy in self.policies
            if policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
            and direction.policy_type in policy["spec"]["policyTypes"]
            and _matches(policy["spec"].get("podSelector", {}), pod)
        ]

    def peers(self, rule: Json, direction: _Direction, namespace: str) -> Iterator[_Peer]:
        """Return the peers that a rule of a policy in a namespace allows."""
        if not rule.get(direction.peers):
            yield _Peer(_EVERYWHERE)
        for peer in rule.get(direction.peers) or ():
            if "ipBlock" in peer:
                yield from (_Peer(network) for network in _networks(peer["ipBlock"]))
            else:
                yield from (
                    _Peer(_address(pod), pod)
                    for pod in self.connected_pods()
                    if pod["metadata"]["namespace"] in self._namespaces(peer, namespace)
                    and _matches(peer.get("podSelector", {}), pod)
                )

    def _namespaces(self, peer: Json, own: str) -> Sequence[str]:
        if "namespaceSelector" not in peer:
            return [own]
        return [each["metadata"]["name"] for each in self.namespaces if _matches(peer["namespaceSelector"], each)]


def write_rules(objects: Objects, node: str) -> Sequence[str]:
    """Return the rules of a node, as lines for ``iptables-restore``."""
    rules = ["-m conntrack --ctstate ESTABLISHED,RELATED -j RETURN", f"-j MARK --set-xmark 0x0/{_MARKS:#x}"]
    for pod in objects.connected_pods():
        if pod["spec"].get("nodeName") == node:
            rules += _rules_of_pod(objects, pod, _INGRESS)
            rules += _rules_of_pod(objects, pod, _EGRESS)
    rules.append(f"-m mark ! --mark 0x0/{_MARKS:#x} -j DROP")
    return [f"-A {CHAIN} {rule}" for rule in rules]


def _rules_of_pod(objects: Objects, pod: Json, direction: _Direction) -> Iterator[str]:
    policies = objects.policies_of(pod, direction)
    own = f"{direction.own} {_address(pod)}"
    if policies:
        yield f"{own} -j MARK --set-xmark {direction.mark:#x}/{direction.mark:#x}"
    for policy in policies:
        for rule in policy["spec"].get(direction.field) or ():
            for peer in objects.peers(rule, direction, policy["metadata"]["namespace"]):
                target = pod if direction is _INGRESS else peer.pod
                for ports in _ports(rule, target):
                    yield f"{own} {direction.other} {peer.network}{ports} -j MARK --set-xmark 0x0/{direction.mark:#x}"


def _ports(rule: Json, target: Json | None) -> Iterator[str]:
    """Return the options of iptables for the ports of a rule.

    Args:
        rule: The rule.
        target: The pod that listens, which gives names to its ports; None for an address outside the cluster.
    """
    if not rule.get("ports"):
        yield ""
    for port in rule.get("ports") or ():
        protocol, first = port.get("protocol", "TCP"), port.get("port")
        if isinstance(first, str):
            numbers = [str(number) for number in _named_ports(target, first, protocol)]
        elif first is None:
            numbers = ["0:65535"]
        else:
            numbers = [f"{first}:{port.get('endPort', first)}"]
        yield from (f" -p {protocol.lower()} --dport {number}" for number in numbers)


def _named_ports(pod: Json | None, name: str, protocol: str) -> Iterator[int]:
    for container in pod["spec"]["containers"] if pod else ():
        for port in container.get("ports") or ():
            if port.get("name") == name and port.get("protocol", "TCP") == protocol:
                yield port["containerPort"]


def _networks(block: Json) -> Sequence[IPv4Network]:
    """Return the addresses of an ``ipBlock`` without its exceptions."""
    networks = [network for network in [ip_network(block["cidr"], strict=False)] if isinstance(network, IPv4Network)]
    for text in block.get("except") or ():
        exception = ip_network(text, strict=False)
        if isinstance(exception, IPv4Network):
            networks = [part for network in networks for part in _without(network, exception)]
    return networks


def _without(network: IPv4Network, exception: IPv4Network) -> Sequence[IPv4Network]:
    if network.subnet_of(exception):
        return []
    return list(network.address_exclude(exception)) if exception.subnet_of(network) else [network]


def _address(pod: Json) -> IPv4Network:
    return IPv4Network(pod["status"]["podIP"])


def _matches(selector: Json, thing: Json) -> bool:
    """Return whether a label selector matches an object."""
    labels = thing["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items()) and all(
        _meets(labels.get(term["key"]), term["operator"], term.get("values") or ())
        for term in selector.get("matchExpressions") or ()
    )


def _meets(value: str | None, operator: str, values: Sequence[str]) -> bool:
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[operator]
