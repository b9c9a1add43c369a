"""The state of the cluster that the reaper needs in addition to session records.

The state consists of leases, pods, nodes and EndpointSlices. All of it comes from watches. Therefore, the load on the
API server does not increase with the number of sessions.

Guarantees:

1. If a part of the state may not be read or does not arrive, the reaper works without it.
2. Leases from the watch can only shorten the observed silence of a replica and never extend it
   (:mod:`reaper.snapshot_reader`).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial

from kubernetes.client import CoordinationV1Api, CoreV1Api, DiscoveryV1Api

from reaper.kubernetes.backends import Availability, Namespace, availability, parse_endpoints
from reaper.kubernetes.hosts import hosts_of, is_node_ready, parse_pod
from reaper.kubernetes.leader_election import lease_name
from reaper.kubernetes.object_cache import ObjectCache
from reaper.snapshot_reader import Hosts
from workspace.identifiers import ReplicaId
from workspace.kubernetes.api_server import JsonObject
from workspace.kubernetes.connection import Connection
from workspace.kubernetes.labels import INSTANCE_LABEL
from workspace.kubernetes.leases import KubernetesLeases
from workspace.leases import RenewalMark


class ClusterState:
    """The watched state of the cluster.

    Args:
        connection: The connection to the API server.
        leases: The leases of the gateways.
    """

    def __init__(self, connection: Connection, leases: KubernetesLeases) -> None:
        self._connection = connection
        self._leases = leases
        self._leader: str | None = None
        self._seen_backends: set[str] = set()
        namespace, client = connection.namespace, connection.api_client
        core = CoreV1Api(client)
        self._pods = ObjectCache(connection, "pods", partial(core.list_namespaced_pod, namespace), parse_pod)
        self._nodes = ObjectCache(connection, "nodes", core.list_node, is_node_ready)
        self._slices = ObjectCache(
            connection,
            "endpointslices",
            partial(DiscoveryV1Api(client).list_namespaced_endpoint_slice, namespace),
            parse_endpoints,
        )
        selector = f"{INSTANCE_LABEL}={connection.instance}"
        self._lease_objects = ObjectCache[JsonObject](
            connection,
            "leases",
            partial(CoordinationV1Api(client).list_namespaced_lease, namespace, label_selector=selector),
            lambda lease: lease,
        )

    @contextmanager
    def watch(
        self,
        *,
        on_change: Callable[[], None],
        on_leases: Callable[[Mapping[ReplicaId, RenewalMark]], None],
        on_leader: Callable[[], None],
    ) -> Iterator[None]:
        """Watch the cluster for the duration of the block.

        This method can be called only once. The callbacks must return quickly.

        Args:
            on_change: A function that is called after a change of pods, nodes or EndpointSlices.
            on_leases: A function that is called with the gateways' leases after one of them has changed.
            on_leader: A function that is called when the holder of the reapers' Lease has changed.
        """
        with ExitStack() as stack:
            for cache in (self._pods, self._nodes, self._slices):
                stack.enter_context(cache.watch(on_change))
            stack.enter_context(self._lease_objects.watch(partial(self._leases_changed, on_leases, on_leader)))
            yield

    def hosts(self) -> Hosts:
        """Return the known state of the hosts of all replicas in the last list of leases."""
        return hosts_of(self._leases.pods(), self._pods.values(), self._nodes.values())

    def availability(self, address: str) -> Availability | None:
        """Return the availability of a backend, or None if it is unknown."""
        pods = self._pods.values()
        namespace = Namespace(self._connection.namespace, pods, self._nodes.values(), self._slices.values())
        found = availability(address, namespace)
        if found is not None:
            self._seen_backends.add(address)
        elif address in self._seen_backends and pods is not None and namespace.slices is not None:
            return Availability(False, "PodGone", "The pod or Service behind the backend's address no longer exists.")
        return found

    def _leases_changed(
        self, on_leases: Callable[[Mapping[ReplicaId, RenewalMark]], None], on_leader: Callable[[], None]
    ) -> None:
        leases = dict(self._lease_objects.values() or {})
        leader = leases.pop(lease_name(self._connection.instance), None)
        holder = None if leader is None else (leader.get("spec") or {}).get("holderIdentity")
        if holder != self._leader:
            self._leader = holder
            on_leader()
        if leases:
            on_leases(self._leases.marks_of(leases.values()))
