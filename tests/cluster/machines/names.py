"""Names of Services and pods inside the cluster, by CoreDNS in the namespace of the control plane."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.cluster.builds import program
from tests.cluster.kubeconfig import Server
from tests.cluster.machines.network import DNS_SERVICE, Network
from tests.cluster.machines.permissions import grant
from tests.cluster.processes import Process

USER = "coredns"
_RULES = (
    {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
)
_CONFIGURATION = """
.:53 {{
    errors
    ready :8181
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {kubeconfig}
    }}
    cache 5
}}
"""


def dns_server(network: Network, server: Server, token: str, directory: Path) -> Process:
    """Return the process of CoreDNS."""
    kubeconfig = server.write_kubeconfig(directory / "coredns.kubeconfig", {"token": token})
    configuration = directory / "Corefile"
    configuration.write_text(_CONFIGURATION.format(kubeconfig=kubeconfig))
    command = [*network.prefix_command, program("coredns"), "-conf", configuration]
    log = directory / "coredns.log"
    return Process(command, log, is_ready=lambda: "CoreDNS-" in log.read_text())


def dns_objects(network: Network) -> Sequence[Mapping[str, Any]]:
    """Return the Service of the DNS server, and the permissions that the server needs."""
    ports = [("dns", "UDP"), ("dns-tcp", "TCP")]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {
            "clusterIP": DNS_SERVICE,
            "ports": [{"name": name, "port": 53, "protocol": protocol} for name, protocol in ports],
        },
    }
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kube-dns",
            "namespace": "kube-system",
            "labels": {"kubernetes.io/service-name": "kube-dns"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [network.control_plane]}],
        "ports": [{"name": name, "port": 53, "protocol": protocol} for name, protocol in ports],
    }
    return [*grant(USER, _RULES), service, endpoints]
