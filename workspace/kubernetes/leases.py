"""Leases as objects of the Kubernetes API: one for each gateway replica, with the pod that it runs in.

Why it exists: an operator sees with ``kubectl get leases`` which gateways live, and a reaper that knows a gateway's pod
and node hears of their end from the kubelet, before the lease lapses.

Guarantees beside those of :mod:`workspace.leases`:

1. The renewal mark is random, so it differs after each renewal whatever clocks do, and no one else's change of the
   object looks like a renewal.
2. A renewal is one request; one whose answer was lost may be made again without harm.
3. Only leases of this Lodge's gateways are listed: never that of the reapers' leader election, nor another Lodge's.

Times in the objects are for people. Source: coordination.k8s.io/v1.
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

from workspace.identifiers import check_replica_id, is_replica_id
from workspace.kubernetes.api_server import ApiServer, ApiStatusError, JsonObject, RetryPolicy
from workspace.kubernetes.connection import Connection
from workspace.kubernetes.labels import labels_of, selector_of
from workspace.leases import RenewalMark
from workspace.records import ReplicaId

COMPONENT = "gateway"

_MARK = "sparklodge.io/renewal"
_POD = "sparklodge.io/pod"
_POD_UID = "sparklodge.io/pod-uid"
_NODE = "sparklodge.io/node"
_OWNER = "lodge"
_APPLY = "application/apply-patch+yaml"
_PATIENCE = RetryPolicy(timeout_seconds=(2.0, 4.0), repeat_seconds=2.0)
_RESERVED = frozenset({"reaper"})


@dataclass(frozen=True, slots=True)
class PodIdentity:
    """Where a gateway replica runs.

    Attributes:
        name: Of its pod.
        uid: Of its pod, which a successor of the same name does not have.
        node: The name of the pod's node.
    """

    name: str
    uid: str
    node: str


class KubernetesLeases:
    """Implements :class:`workspace.leases.Leases`; safe to share between threads.

    Args:
        connection: Where they are.
        pod: The pod of the replica that renews; None if it runs elsewhere, or only looks.
        lease_duration_seconds: As configured; for people who look at the leases.
        patience: How long a request may take.
    """

    def __init__(
        self,
        connection: Connection,
        pod: PodIdentity | None = None,
        lease_duration_seconds: float = 15.0,
        patience: RetryPolicy = _PATIENCE,
    ) -> None:
        self._namespace = connection.namespace
        self._instance = connection.instance
        self._pod = pod
        self._lease_duration_seconds = max(1, ceil(lease_duration_seconds))
        self._server = ApiServer(connection, "gateways' leases", "leases", patience)
        self._api = CoordinationV1Api(connection.api_client)
        self._acquired: dict[ReplicaId, str] = {}
        self._pods: Mapping[ReplicaId, PodIdentity] = {}

    def renew(self, replica: ReplicaId) -> None:
        body = self._lease(replica)
        try:
            self._server.request(
                partial(
                    self._api.patch_namespaced_lease,
                    body["metadata"]["name"],
                    self._namespace,
                    body,
                    field_manager=_OWNER,
                    force=True,
                    _content_type=_APPLY,
                )
            )
        except ApiStatusError as error:
            raise self._server.unavailable(error.message, "Look after the API server.") from error

    def list(self) -> Mapping[ReplicaId, RenewalMark]:
        found, _ = self._server.list_all(
            partial(
                self._api.list_namespaced_lease, self._namespace, label_selector=selector_of(self._instance, COMPONENT)
            )
        )
        leases = self._by_replica(found)
        self._pods = {replica: pod for replica, lease in leases.items() if (pod := _pod(lease)) is not None}
        return self.marks_of(found)

    def marks_of(self, found: Iterable[JsonObject]) -> Mapping[ReplicaId, RenewalMark]:
        """What :meth:`list` tells, of objects that somebody else read."""
        return {
            replica: RenewalMark(_annotations(lease).get(_MARK, ""))
            for replica, lease in self._by_replica(found).items()
        }

    def pods(self) -> Mapping[ReplicaId, PodIdentity]:
        """The pods of the replicas that were last listed, as far as they run in one."""
        return self._pods

    def delete(self, replica: ReplicaId) -> None:
        try:
            self._server.request(partial(self._api.delete_namespaced_lease, self._name(replica), self._namespace))
        except ApiStatusError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise self._server.unavailable(error.message, "Look after the API server.") from error

    def _lease(self, replica: ReplicaId) -> Any:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        annotations = {_MARK: secrets.token_hex(16)}
        if self._pod is not None:
            annotations |= {_POD: self._pod.name, _POD_UID: self._pod.uid, _NODE: self._pod.node}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
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
            raise ValueError(f"Not a replica id: {replica!r} is the name of another lease")
        return f"{self._instance}-{check_replica_id(replica)}"

    def _by_replica(self, found: Iterable[JsonObject]) -> Mapping[ReplicaId, JsonObject]:
        return {replica: lease for lease in found if (replica := self._replica(lease)) is not None}

    def _replica(self, lease: JsonObject) -> ReplicaId | None:
        prefix, name = f"{self._instance}-", str(lease["metadata"]["name"])
        replica = name.removeprefix(prefix)
        return ReplicaId(replica) if name.startswith(prefix) and is_replica_id(replica) else None


def _pod(lease: JsonObject) -> PodIdentity | None:
    annotations = _annotations(lease)
    if _POD not in annotations:
        return None
    return PodIdentity(annotations[_POD], annotations.get(_POD_UID, ""), annotations.get(_NODE, ""))


def _annotations(lease: JsonObject) -> Mapping[str, str]:
    return lease["metadata"].get("annotations") or {}
