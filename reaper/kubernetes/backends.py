"""The availability of backends, determined from their pods, without I/O.

If the Spark driver of a session is gone, the views and cached data of the session are lost. The status of the session
shows this to operators. The reaper does not delete anything because of it.

Guarantees:

1. The availability of an address is determined only if the API shows to which pods the address leads. The address must
   be the address of a pod in this namespace, the name of a Service in this namespace, or the name of a pod of such a
   Service.
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
    """A pod behind a Service.

    Attributes:
        hostname: The host name of the pod in the Service. Empty if the pod has no host name.
        node: The name of the pod's node. Empty if unknown.
        is_ready: Whether the pod accepts connections.
    """

    hostname: str
    node: str
    is_ready: bool


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The pods in an EndpointSlice.

    Attributes:
        service: The name of the Service.
        endpoints: The pods behind the Service.
    """

    service: str
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True)
class Availability:
    """The availability of a backend.

    Attributes:
        is_available: Whether the API shows a pod that can serve requests.
        reason: The reason in one word.
        message: The reason in a sentence.
    """

    is_available: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Namespace:
    """The state of a namespace. A part is None if it cannot be read.

    Attributes:
        name: The name of the namespace.
        pods: The pods, by name.
        nodes: Whether each node answers, by name.
        slices: The EndpointSlices, by name.
    """

    name: str
    pods: Mapping[str, PodState] | None
    nodes: Mapping[str, bool] | None
    slices: Mapping[str, Endpoints] | None

    def is_silent(self, node: str) -> bool:
        """Return whether a node is known not to answer."""
        return self.nodes is not None and node != "" and not self.nodes.get(node, False)


def parse_endpoints(found: JsonObject) -> Endpoints:
    """Return the pods in an EndpointSlice object."""
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
    """Return the availability of a backend, or None if it is unknown.

    Args:
        address: The address of the backend, in the form ``sc://host:port``.
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
            return Availability(True, "PodFound", f"The backend runs in the pod {name}.")
    name, pod = found[0]
    if pod.has_ended:
        return Availability(False, "PodEnded", f"The pod {name} of the backend has ended.")
    return Availability(False, "NodeLost", f"The node {pod.node} of the backend's pod {name} does not answer.")


def _of_service(service: str, hostname: str, namespace: Namespace) -> Availability | None:
    slices = [found for found in (namespace.slices or {}).values() if found.service == service]
    if not slices:
        return None
    endpoints = [one for found in slices for one in found.endpoints if hostname in {"", one.hostname}]
    what = f"the Service {service}" if not hostname else f"the pod name {hostname} of the Service {service}"
    if any(one.is_ready and not namespace.is_silent(one.node) for one in endpoints):
        return Availability(True, "PodReady", f"A pod behind {what} of the backend is ready.")
    if not endpoints:
        return Availability(False, "NoPod", f"There is no pod behind {what} of the backend.")
    lost = sorted({one.node for one in endpoints if namespace.is_silent(one.node)})
    if lost:
        return Availability(False, "NodeLost", f"Nodes of pods behind {what} do not answer: {', '.join(lost)}.")
    return Availability(False, "NoPodReady", f"No pod behind {what} of the backend is ready.")


def _service_and_pod(host: str, namespace: Namespace) -> tuple[str, str] | None:
    """Split a DNS name of this namespace into the names of the Service and the pod.

    The name of the pod may be empty.
    """
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
