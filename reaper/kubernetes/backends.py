"""Whether the pods behind a backend's address are there: no I/O.

Why it exists: a session whose Spark driver is gone has lost its views and cached data; an operator who looks at the
session should see that. Nothing is deleted for it.

Guarantees:

1. An address is judged only where the API tells which pods it leads to: the address of a pod of this namespace, the
   name of a Service of this namespace, or of one pod of it. Of any other, nothing is said.
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
    """What is kept of a pod behind a Service.

    Attributes:
        hostname: Its own name in the Service; empty if it has none.
        node: Where it runs; empty if that is not told.
        is_ready: Whether it takes connections.
    """

    hostname: str
    node: str
    is_ready: bool


@dataclass(frozen=True, slots=True)
class Endpoints:
    """What is kept of an EndpointSlice."""

    service: str
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a backend is there.

    Attributes:
        is_available: It is, as far as the API tells.
        reason: In one word.
        message: For people.
    """

    is_available: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Namespace:
    """What is known of a namespace; None where it cannot be seen.

    Attributes:
        name: Of it.
        pods: By name.
        nodes: Whether each node answers, by name.
        slices: EndpointSlices, by name.
    """

    name: str
    pods: Mapping[str, PodState] | None
    nodes: Mapping[str, bool] | None
    slices: Mapping[str, Endpoints] | None

    def is_silent(self, node: str) -> bool:
        return self.nodes is not None and node != "" and not self.nodes.get(node, False)


def parse_endpoints(found: JsonObject) -> Endpoints:
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
    """Whether a backend is there; None if that cannot be known.

    Args:
        address: ``sc://host:port``.
        namespace: What is known.
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
    """What a name within the cluster leads to: a Service of this namespace, and the name of a pod of it or nothing."""
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
