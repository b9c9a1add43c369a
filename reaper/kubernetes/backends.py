"""The availability of backends, from the pods behind their addresses: no I/O.

A session whose Spark driver is gone has lost its views and cached data. The session's status shows that to operators.
The reaper deletes nothing for it.

Guarantees:

1. An address is judged only if the API shows which pods it leads to: the address of a pod in this namespace, the name
   of a Service in this namespace, or the name of one pod of such a Service.
2. A backend is unavailable if none of its pods is ready on a node that answers.

Sources: Kubernetes, "DNS for Services and Pods"; discovery.k8s.io/v1 EndpointSlice.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from reaper.kubernetes.hosts import PodState
from workspace.kubernetes.api_server import JsonObject

SERVICE_LABEL = "kubernetes.io/service-name"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One pod behind a Service.

    Attributes:
        hostname: The name of the pod in the Service; empty if it has none.
        node: The node of the pod; empty if unknown.
        is_ready: Whether the pod accepts connections.
    """

    hostname: str
    node: str
    is_ready: bool


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The pods of an EndpointSlice.

    Attributes:
        service: The name of the Service.
        endpoints: Its pods.
    """

    service: str
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a backend is available.

    Attributes:
        is_available: Whether the API shows a pod that can serve.
        reason: The reason in one word.
        message: The reason in a sentence.
    """

    is_available: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Namespace:
    """The state of a namespace; a part that cannot be read is None.

    Attributes:
        name: The name of the namespace.
        pods: The pods by name.
        nodes: Whether each node answers, by name.
        slices: The EndpointSlices by name.
    """

    name: str
    pods: Mapping[str, PodState] | None
    nodes: Mapping[str, bool] | None
    slices: Mapping[str, Endpoints] | None

    def is_silent(self, node: str) -> bool:
        """Return whether a node is known not to answer."""
        return self.nodes is not None and node != "" and not self.nodes.get(node, False)


def parse_endpoints(found: JsonObject) -> Endpoints:
    """Return the pods of an EndpointSlice."""
    return Endpoints(
        service=str((found["metadata"].get("labels") or {}).get(SERVICE_LABEL, "")),
        endpoints=tuple(
            Endpoint(
                hostname=str(endpoint.get("hostname") or ""),
                node=str(endpoint.get("nodeName") or ""),
                is_ready=(endpoint.get("conditions") or {}).get("ready") is not False,
            )
            for endpoint in found.get("endpoints") or ()
        ),
    )


def availability(address: str, namespace: Namespace) -> Availability | None:
    """Return whether a backend is available, or None if that is unknown.

    Args:
        address: The address ``sc://host:port`` of the backend.
        namespace: The state of the namespace.
    """
    host = urlsplit(address).hostname or ""
    if _is_ip(host):
        return _of_pod(host, namespace)
    names = _service_and_pod(host, namespace)
    return None if names is None else _of_service(*names, namespace)


def _of_pod(host: str, namespace: Namespace) -> Availability | None:
    found = [(name, pod) for name, pod in (namespace.pods or {}).items() if pod.address == host]
    if not found:
        return None
    for name, pod in found:
        if not pod.has_ended and not namespace.is_silent(pod.node):
            return Availability(True, "PodFound", f"The backend runs in pod {name}.")
    name, pod = found[0]
    if pod.has_ended:
        return Availability(False, "PodEnded", f"The backend's pod {name} has ended.")
    return Availability(False, "NodeLost", f"Node {pod.node} of the backend's pod {name} does not answer.")


def _of_service(service: str, hostname: str, namespace: Namespace) -> Availability | None:
    slices = [found for found in (namespace.slices or {}).values() if found.service == service]
    if not slices:
        return None
    endpoints = [one for found in slices for one in found.endpoints if hostname in {"", one.hostname}]
    what = f"Service {service}" if not hostname else f"pod {hostname} of Service {service}"
    if any(one.is_ready and not namespace.is_silent(one.node) for one in endpoints):
        return Availability(True, "PodReady", f"A pod behind the backend's {what} is ready.")
    if not endpoints:
        return Availability(False, "NoPod", f"There is no pod behind the backend's {what}.")
    lost = sorted({one.node for one in endpoints if namespace.is_silent(one.node)})
    if lost:
        return Availability(False, "NodeLost", f"Nodes of the backend's {what} do not answer: {', '.join(lost)}.")
    return Availability(False, "NoPodReady", f"No pod behind the backend's {what} is ready.")


def _service_and_pod(host: str, namespace: Namespace) -> tuple[str, str] | None:
    """Split a DNS name of this namespace into the Service and the pod, which may be empty."""
    match host.split("."):
        case [service]:
            return service, ""
        case [service, name] if name == namespace.name:
            return service, ""
        case [pod, service] if service in _services(namespace.slices):
            return service, pod
        case [service, name, "svc", *_] if name == namespace.name:
            return service, ""
        case [pod, service, name, *rest] if name == namespace.name and rest[:1] in ([], ["svc"]):
            return service, pod
        case _:
            return None


def _services(slices: Mapping[str, Endpoints] | None) -> Sequence[str]:
    found: Iterable[Endpoints] = (slices or {}).values()
    return [one.service for one in found]


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
