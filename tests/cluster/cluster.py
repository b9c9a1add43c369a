"""A real Kubernetes cluster, with simulated nodes on loopback, or with real nodes in namespaces of their own.

Guarantees:

1. When the context ends, all its processes have ended, and its directory is removed. This also holds if SIGKILL ends
   the test run.
2. It keeps its address and its objects when its API server stops and starts again.
3. Only the administrator may do everything. Any other account has the permissions that it was granted (RBAC).

Without real nodes, it has no containers (a pod on a simulated node only reports that it runs), no pod network, and no
working Services. With real nodes, it has all of them, names of Services, a default storage class whose volumes all
nodes share, and it enforces NetworkPolicies.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from kubernetes import config
from kubernetes.client import ApiClient, CoreV1Api
from kubernetes.client.exceptions import ApiException

from tests.cluster import manifests
from tests.cluster.accounts import ServiceAccount
from tests.cluster.control_plane import LOOPBACK, ControlPlane
from tests.cluster.directories import owned_directory
from tests.cluster.kubeconfig import Server
from tests.cluster.machines.machine import Machine
from tests.cluster.machines.machines import Machines
from tests.cluster.nodes import READY_SECONDS, Node, is_ready
from tests.cluster.processes import REQUEST_SECONDS, ClusterError, Process, wait_until

NAMESPACE_SECONDS = 90.0


class Cluster:
    """A context manager of a cluster: etcd, the API server and the controller manager.

    Args:
        scheduler: Whether to start a scheduler, which tests of Deployments need. Pods of `Node.pod` need none.
        machines: The number of real nodes. They need root, and a scheduler runs in any case.
        images: Archives of images that the real nodes have from the start.
        directory: The directory of its files and logs; None for a temporary one. It is removed at the end.

    Attributes:
        directory: The directory of its files and logs.
        machines: The real nodes.
    """

    def __init__(
        self,
        *,
        scheduler: bool = False,
        machines: int = 0,
        images: Sequence[Path] = (),
        directory: Path | None = None,
    ) -> None:
        self._has_scheduler = scheduler or machines > 0
        self._machine_count = machines
        self._images = images
        self.machines: Sequence[Machine] = ()
        self._place = directory
        self._processes: list[Process] = []
        self._paused: list[Process] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.directory = stack.enter_context(owned_directory(self._place))
            machines = (
                stack.enter_context(Machines(self._machine_count, self.directory, self._images))
                if self._machine_count
                else None
            )
            self._plane = ControlPlane(self.directory, machines.place if machines else LOOPBACK)
            self._processes = [self._plane.etcd, self._plane.api_server, self._plane.controller_manager]
            if self._has_scheduler:
                self._processes.append(self._plane.scheduler)
            for process in self._processes:
                stack.callback(process.kill)
                process.start()
            if machines is not None:
                self.apply(machines.objects())
                self.machines = machines.start(self._plane.server)
                self._wait_for_machines()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def kubeconfig(self) -> Path:
        """The address and certificate authority for the administrator."""
        return self._plane.kubeconfig

    @property
    def server(self) -> Server:
        """The address of the API and the file of its certificate authority."""
        return self._plane.server

    @property
    def api_server(self) -> Process:
        """The API server's process. Tests may stop or pause it; stored objects remain."""
        return self._plane.api_server

    @property
    def etcd(self) -> Process:
        """etcd's process. While a test pauses it, the API server answers with errors."""
        return self._plane.etcd

    def read_only(self) -> AbstractContextManager[None]:
        """Return a block in which the API server answers reads, and refuses writes."""
        return self._plane.read_only()

    @property
    def client(self) -> ApiClient:
        """An API client of the administrator. A paused cluster continues."""
        self.resume()
        return self._client

    @cached_property
    def _client(self) -> ApiClient:
        return config.new_client_from_config(str(self.kubeconfig))

    def pause(self) -> None:
        """Pause the control plane, so that it needs no processor time."""
        self._paused = [process for process in self._processes if process.is_running()]
        for process in self._paused:
            process.pause()

    def resume(self) -> None:
        """Let a paused control plane continue, and wait until it is ready. Does nothing if it is not paused."""
        paused, self._paused = self._paused, []
        for process in paused:
            process.resume()
        for process in paused:
            process.wait_until_ready()

    def apply(self, objects: Iterable[Mapping[str, Any]], namespace: str | None = None) -> None:
        """Apply manifests in order.

        Waits for the definition of a custom resource, so that objects of its kind can follow at once.

        Args:
            objects: The manifests.
            namespace: The namespace of manifests that name none.
        """
        manifests.apply(self.client, objects, namespace, self.directory / "discovery.json")

    def try_to_apply(self, objects: Iterable[Mapping[str, Any]], namespace: str) -> None:
        """Let the API server check manifests as `apply` does, without a change."""
        manifests.apply(self.client, objects, namespace, self.directory / "discovery.json", dry_run="All")

    def namespace(self, prefix: str = "test") -> str:
        """Create a namespace and return its name."""
        core = CoreV1Api(self.client)
        name = f"{prefix}-{secrets.token_hex(4)}"
        core.create_namespace({"metadata": {"name": name}})
        wait_until(lambda: self._has_default_account(core, name), f"namespace {name} is complete", NAMESPACE_SECONDS)
        return name

    def delete_namespace(self, name: str) -> None:
        """Start the deletion of a namespace and everything in it, without waiting."""
        CoreV1Api(self.client).delete_namespace(name)

    def service_account(self, namespace: str, name: str) -> ServiceAccount:
        """Return the account of this name. A new account has no permissions."""
        try:
            CoreV1Api(self.client).create_namespaced_service_account(namespace, {"metadata": {"name": name}})
        except ApiException as error:
            if error.status != 409:
                raise
        return ServiceAccount(namespace, name, self.client, self.server, self.directory)

    def node(self, name: str | None = None) -> Node:
        """Return a ready node. It exists until `Node.remove` or the end of the cluster."""
        node = Node(name or f"node-{secrets.token_hex(4)}", self.client, self.kubeconfig, self.directory)
        self._stack.callback(node.kill)
        node.start()
        return node

    def _wait_for_machines(self) -> None:
        core = CoreV1Api(self.client)
        ready: set[str] = set()

        def are_ready() -> bool:
            ready.update(node.metadata.name for node in core.list_node().items if is_ready(node))
            return len(ready) == self._machine_count

        try:
            wait_until(are_ready, "all nodes are ready", READY_SECONDS, REQUEST_SECONDS)
        except ClusterError as error:
            states = [f"{node.metadata.name}: {node.status.conditions}" for node in core.list_node().items]
            logs = [machine.log_ends() for machine in self.machines if machine.name not in ready]
            raise ClusterError("\n".join([str(error), *states, *logs])) from None

    @staticmethod
    def _has_default_account(core: CoreV1Api, namespace: str) -> bool:
        accounts = core.list_namespaced_service_account(namespace).items
        return any(account.metadata.name == "default" for account in accounts)
