"""Leases as objects (guarantees: workspace.kubernetes.leases)."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from kubernetes.client import CoordinationV1Api

from workspace.identifiers import ReplicaId
from workspace.kubernetes.connection import Connection
from workspace.kubernetes.leases import KubernetesLeases, PodIdentity
from workspace.leases import STOPPED

A, B = ReplicaId("gateway-a.1"), ReplicaId("gateway-b")
POD = PodIdentity("gateway-0", "c0ffee", "node-1")


def test_kubectl_shows_holder_duration_and_times_of_a_lease(connection: Connection, administrator: Connection) -> None:
    leases = KubernetesLeases(connection, POD, lease_duration_seconds=14.2)
    leases.renew(A)
    first = _lease(administrator, A)
    leases.renew(A)
    second = _lease(administrator, A)
    assert second.spec.holder_identity == A
    assert second.spec.lease_duration_seconds == 15
    assert second.spec.acquire_time == first.spec.acquire_time
    assert second.spec.renew_time > first.spec.renew_time
    assert datetime.now(UTC) - second.spec.renew_time < timedelta(minutes=1)
    assert second.metadata.labels == {
        "app.kubernetes.io/instance": connection.instance,
        "app.kubernetes.io/managed-by": "lodge",
        "app.kubernetes.io/component": "gateway",
    }


def test_list_returns_the_pod_of_each_replica(connection: Connection) -> None:
    KubernetesLeases(connection, POD).renew(A)
    KubernetesLeases(connection).renew(B)
    leases = KubernetesLeases(connection)
    assert not leases.pods()
    assert leases.list().keys() == {A, B}
    assert leases.pods() == {A: POD}


def test_guarantee_1_other_change_of_a_lease_is_no_renewal(connection: Connection, administrator: Connection) -> None:
    leases = KubernetesLeases(connection)
    leases.renew(A)
    before = leases.list()
    patch = {"metadata": {"annotations": {"note": "mine"}}, "spec": {"renewTime": "2030-01-01T00:00:00.000000Z"}}
    CoordinationV1Api(administrator.api_client).patch_namespaced_lease(
        f"{connection.instance}-{A}", connection.namespace, patch
    )
    assert leases.list() == before


def test_guarantee_3_list_ignores_leases_of_others(connection: Connection, administrator: Connection) -> None:
    leases = KubernetesLeases(connection)
    leases.renew(A)
    api = CoordinationV1Api(administrator.api_client)
    api.create_namespaced_lease(connection.namespace, {"metadata": {"name": f"{connection.instance}-reaper"}})
    longer = Connection(administrator.api_client, administrator.namespace, f"{connection.instance}-b")
    KubernetesLeases(longer).renew(B)
    assert leases.list().keys() == {A}
    assert KubernetesLeases(longer).list().keys() == {B}


def test_guarantee_3_replica_cannot_use_the_lease_of_the_reapers(connection: Connection) -> None:
    with pytest.raises(ValueError, match=re.escape("The replica id 'reaper' is not valid")):
        KubernetesLeases(connection).renew(ReplicaId("reaper"))


def test_renewal_restores_a_removed_label(connection: Connection, administrator: Connection) -> None:
    leases = KubernetesLeases(connection)
    leases.renew(A)
    CoordinationV1Api(administrator.api_client).patch_namespaced_lease(
        f"{connection.instance}-{A}", connection.namespace, {"metadata": {"labels": None}}
    )
    assert not leases.list()
    leases.renew(A)
    assert leases.list().keys() == {A}


def test_guarantee_2_renewal_is_one_request(connection: Connection) -> None:
    requests: list[str] = []
    call = connection.api_client.call_api

    def counting(method: str, *arguments: Any, **options: Any) -> Any:
        requests.append(method)
        return call(method, *arguments, **options)

    with mock.patch.object(connection.api_client, "call_api", counting):
        leases = KubernetesLeases(connection)
        leases.renew(A)
        leases.renew(A)
    assert requests == ["PATCH", "PATCH"]


def _lease(connection: Connection, replica: ReplicaId) -> Any:
    api = CoordinationV1Api(connection.api_client)
    return api.read_namespaced_lease(f"{connection.instance}-{replica}", connection.namespace)


def test_guarantee_4_stopped_lease_has_no_holder(connection: Connection, administrator: Connection) -> None:
    leases = KubernetesLeases(connection, POD)
    leases.renew(A)
    leases.stop(A)
    stopped = _lease(administrator, A)
    assert not stopped.spec.holder_identity
    assert stopped.metadata.annotations["sparklodge.io/renewal"] == "stopped"
    assert leases.list() == {A: STOPPED}
    assert leases.pods() == {A: POD}


def test_guarantee_4_lease_without_holder_is_not_stopped(connection: Connection, administrator: Connection) -> None:
    leases = KubernetesLeases(connection)
    leases.renew(A)
    before = leases.list()
    _patch(administrator, A, {"spec": {"holderIdentity": ""}})
    assert leases.list() == before
    leases.renew(A)
    assert leases.list() != before
    assert _lease(administrator, A).spec.holder_identity == A


def test_renewal_succeeds_after_others_changed_its_fields(connection: Connection, administrator: Connection) -> None:
    leases = KubernetesLeases(connection)
    leases.renew(A)
    _patch(administrator, A, {"metadata": {"annotations": {"sparklodge.io/renewal": "x"}}, "spec": {"renewTime": None}})
    for _ in range(2):
        leases.renew(A)
        assert leases.list()[A] not in ("x", STOPPED)


def _patch(connection: Connection, replica: ReplicaId, patch: object) -> None:
    CoordinationV1Api(connection.api_client).patch_namespaced_lease(
        f"{connection.instance}-{replica}", connection.namespace, patch
    )
