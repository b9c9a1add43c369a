"""Leases as Kubernetes objects, one for each gateway replica.

An operator can see with ``kubectl get leases`` which gateways are alive. A lease contains the names of the gateway's
pod and node. With these, the reaper can learn from the kubelet that the gateway is gone before its lease expires.

Guarantees in addition to those of :mod:`workspace.leases`:

1. The renewal mark is random. Therefore, it changes with each renewal, independent of clocks, and no other change of
   the object is mistaken for a renewal.
2. A renewal is a single request. If the response was lost, the request can be repeated.
3. Only the leases of gateways of this Lodge installation are listed. The lease of the reapers' leader election and the
   leases of other installations are not listed.
4. A stopped lease has no holder, and its renewal mark is ``stopped``. Only the mark counts, because people and other
   programs may change the holder. A stop has its own field manager, and a renewal never takes a field from another
   manager without looking at the lease. Therefore, the API server refuses a renewal of a stopped lease.

The times in the objects are only for people to read.

Source: [kubernetes-leases], [kubernetes-api "Server-side apply"].
"""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from math import ceil
from typing import Any

from kubernetes.client import CoordinationV1Api

from workspace.identifiers import ReplicaId, check_replica_id, is_replica_id
from workspace.kubernetes.api_server import CHECK_API_SERVER, ApiServer, ApiStatusError, JsonObject, RetryPolicy
from workspace.kubernetes.connection import Connection
from workspace.kubernetes.labels import labels_of, selector_of
from workspace.leases import STOPPED, LeaseStoppedError, RenewalMark

COMPONENT = "gateway"

_MARK = "sparklodge.io/renewal"
_POD = "sparklodge.io/pod"
_POD_UID = "sparklodge.io/pod-uid"
_NODE = "sparklodge.io/node"
_OWNER = "lodge"
_STOPPING_OWNER = "lodge-stop"
_APPLY = "application/apply-patch+yaml"
_RETRY_POLICY = RetryPolicy(timeout_seconds=(2.0, 4.0), repeat_seconds=2.0)
_RESERVED = frozenset({"reaper"})
_TYPE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class PodIdentity:
    """The pod and the node of a gateway replica.

    Attributes:
        name: The name of the pod.
        uid: The UID of the pod. If the pod is replaced by a pod with the same name, the UID is different.
        node: The name of the node.
    """

    name: str
    uid: str
    node: str


class KubernetesLeases:
    """An implementation of ``Leases`` on Kubernetes.

    It is safe for use by several threads.

    Args:
        connection: The connection to the API server.
        pod: The pod of the replica that renews its lease. None if the replica runs outside Kubernetes, or if leases
            are only read.
        lease_duration_seconds: The configured lease duration. It is written to the objects for people to read.
        retry_policy: The time limits for requests.
    """

    def __init__(
        self,
        connection: Connection,
        pod: PodIdentity | None = None,
        lease_duration_seconds: float = 15.0,
        retry_policy: RetryPolicy = _RETRY_POLICY,
    ) -> None:
        self._namespace = connection.namespace
        self._instance = connection.instance
        self._pod = pod
        self._lease_duration_seconds = max(1, ceil(lease_duration_seconds))
        self._server = ApiServer(connection, "gateways' leases", "leases", retry_policy)
        self._api = CoordinationV1Api(connection.api_client)
        self._acquired: dict[ReplicaId, str] = {}
        self._pods: Mapping[ReplicaId, PodIdentity] = {}

    def renew(self, replica: ReplicaId) -> None:
        """Create the lease of a replica or, if it exists, change its renewal mark."""
        body = self._lease(replica)
        for _ in range(_ATTEMPTS):
            try:
                self._apply(body, _OWNER)
            except ApiStatusError as error:
                if error.status != HTTPStatus.CONFLICT:
                    raise self._server.unavailable(error.message, CHECK_API_SERVER) from error
                reason = error.message
            else:
                return
            if self._reclaim(replica, body):
                return
        raise self._server.unavailable(reason, "Check which other program changes the lease.")

    def stop(self, replica: ReplicaId) -> None:
        """Mark the lease of a replica that has ended."""
        body = {
            **_TYPE,
            "metadata": {
                "name": self._name(replica),
                "labels": labels_of(self._instance, COMPONENT),
                "annotations": {_MARK: STOPPED},
            },
            "spec": {"holderIdentity": "", "renewTime": _now()},
        }
        try:
            self._apply(body, _STOPPING_OWNER, force=True)
        except ApiStatusError as error:
            raise self._server.unavailable(error.message, CHECK_API_SERVER) from error

    def list(self) -> Mapping[ReplicaId, RenewalMark]:
        """Return the renewal mark of each lease, by replica."""
        found, _ = self._server.list_all(
            partial(
                self._api.list_namespaced_lease, self._namespace, label_selector=selector_of(self._instance, COMPONENT)
            )
        )
        leases = self._by_replica(found)
        self._pods = {replica: pod for replica, lease in leases.items() if (pod := _pod(lease)) is not None}
        return self.marks_of(found)

    def marks_of(self, found: Iterable[JsonObject]) -> Mapping[ReplicaId, RenewalMark]:
        """Return the renewal marks in Lease objects that the caller has read."""
        return {
            replica: RenewalMark(_annotations(lease).get(_MARK, ""))
            for replica, lease in self._by_replica(found).items()
        }

    def pods(self) -> Mapping[ReplicaId, PodIdentity]:
        """Return the pods of the replicas in the last list of leases.

        Replicas outside Kubernetes are not included.
        """
        return self._pods

    def delete(self, replica: ReplicaId) -> None:
        """Delete the lease of a replica, if it exists."""
        try:
            self._server.request(partial(self._api.delete_namespaced_lease, self._name(replica), self._namespace))
        except ApiStatusError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise self._server.unavailable(error.message, CHECK_API_SERVER) from error

    def check_writable(self) -> None:
        """Do nothing. A reaper on Kubernetes knows from its leader election whether writes are possible."""

    def _apply(self, body: Any, owner: str, *, force: bool = False) -> None:
        """Apply fields to a lease. Unless forced, a conflict with other managers of the fields is an error."""
        self._server.request(
            partial(
                self._api.patch_namespaced_lease,
                body["metadata"]["name"],
                self._namespace,
                body,
                field_manager=owner,
                force=force,
                _content_type=_APPLY,
            )
        )

    def _reclaim(self, replica: ReplicaId, body: Any) -> bool:
        """Renew a lease of which another program has changed fields.

        Returns:
            False if the lease has changed concurrently.

        Raises:
            LeaseStoppedError: If the lease has been stopped.
            RecordsUnavailableError: If the server cannot answer now.
        """
        # The gateway's role allows lists, but not reads of single leases.
        found, _ = self._server.list_all(
            partial(
                self._api.list_namespaced_lease,
                self._namespace,
                field_selector=f"metadata.name={body['metadata']['name']}",
            )
        )
        try:
            for lease in found:
                if _annotations(lease).get(_MARK) == STOPPED:
                    raise LeaseStoppedError(replica)
                state = {key: lease["metadata"][key] for key in ("uid", "resourceVersion")}
                self._apply({**body, "metadata": body["metadata"] | state}, _OWNER, force=True)
        except ApiStatusError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise self._server.unavailable(error.message, CHECK_API_SERVER) from error
            return False
        return bool(found)

    def _lease(self, replica: ReplicaId) -> Any:
        now = _now()
        annotations = {_MARK: secrets.token_hex(16)}
        if self._pod is not None:
            annotations |= {_POD: self._pod.name, _POD_UID: self._pod.uid, _NODE: self._pod.node}
        return {
            **_TYPE,
            "metadata": {
                "name": self._name(replica),
                "labels": labels_of(self._instance, COMPONENT),
                "annotations": annotations,
            },
            "spec": {
                "holderIdentity": replica,
                "leaseDurationSeconds": self._lease_duration_seconds,
                "acquireTime": self._acquired.setdefault(replica, now),
                "renewTime": now,
            },
        }

    def _name(self, replica: ReplicaId) -> str:
        if replica in _RESERVED:
            raise ValueError(f"The replica id {replica!r} is not valid: another lease has this name.")
        return f"{self._instance}-{check_replica_id(replica)}"

    def _by_replica(self, found: Iterable[JsonObject]) -> Mapping[ReplicaId, JsonObject]:
        return {replica: lease for lease in found if (replica := self._replica(lease)) is not None}

    def _replica(self, lease: JsonObject) -> ReplicaId | None:
        prefix, name = f"{self._instance}-", str(lease["metadata"]["name"])
        replica = name.removeprefix(prefix)
        return ReplicaId(replica) if name.startswith(prefix) and is_replica_id(replica) else None


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _pod(lease: JsonObject) -> PodIdentity | None:
    annotations = _annotations(lease)
    if _POD not in annotations:
        return None
    return PodIdentity(annotations[_POD], annotations.get(_POD_UID, ""), annotations.get(_NODE, ""))


def _annotations(lease: JsonObject) -> Mapping[str, str]:
    return lease["metadata"].get("annotations") or {}
