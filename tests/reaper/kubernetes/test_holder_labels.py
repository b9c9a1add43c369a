"""Holder labels that the reaper adds to records of older releases, on a real API server."""

from collections.abc import Callable

import pytest
from kubernetes.client import CustomObjectsApi

from reaper.kubernetes.holder_labels import HolderLabels
from tests.fixture_types import WaitUntil
from tests.reaper.kubernetes.conftest import KubernetesWorld
from workspace.identifiers import ReplicaId
from workspace.kubernetes.connect_session_objects import API_VERSION, GROUP, PLURAL, object_name
from workspace.record_store import StoredRecord

HOLDER = "sparklodge.io/holder"


@pytest.fixture
def world(new_world: Callable[..., KubernetesWorld]) -> KubernetesWorld:
    return new_world()


def test_leader_adds_missing_labels(world: KubernetesWorld, wait_until: WaitUntil) -> None:
    held, left, labelled = world.start_session("gateway-a"), world.start_session(), world.start_session("gateway-a")
    _set_labels(world, held, {HOLDER: None})
    _set_labels(world, left, None)
    _set_labels(world, labelled, {HOLDER: "gateway-x"})
    leads = False
    with HolderLabels(world.connection, lambda: leads, period_seconds=0.1):
        assert not world.records.list_held(ReplicaId("gateway-a"))
        leads = True
        wait_until(lambda: _labels(world, left).get(HOLDER) == "none", "the session without holders has a label")
        wait_until(lambda: world.records.list_held(ReplicaId("gateway-a")) == [held], "the held session has a label")
        later = world.start_session("gateway-b")
        _set_labels(world, later, {HOLDER: None})
        wait_until(lambda: world.records.list_held(ReplicaId("gateway-b")) == [later], "the later session has a label")
    assert len(_labels(world, left)) == len(_labels(world, held)), "all labels are restored"
    assert _labels(world, labelled)[HOLDER] == "gateway-x", "only missing labels are added"


def test_label_is_not_added_to_a_record_that_has_changed(world: KubernetesWorld) -> None:
    stored = world.start_session("gateway-a")
    _set_labels(world, stored, {HOLDER: None})

    def change() -> bool:
        world.records.replace(stored.record, stored.version)
        return False

    assert world.records.add_holder_labels(change) == 0
    assert world.records.add_holder_labels() == 0
    assert _labels(world, stored)[HOLDER] == "gateway-a"


def _place(world: KubernetesWorld, stored: StoredRecord) -> dict[str, str]:
    name = object_name("lodge", stored.record.name)
    return {"group": GROUP, "version": API_VERSION, "namespace": world.namespace, "plural": PLURAL, "name": name}


def _set_labels(world: KubernetesWorld, stored: StoredRecord, labels: object) -> None:
    api = CustomObjectsApi(world.cluster.client)
    api.patch_namespaced_custom_object(
        **_place(world, stored), body={"metadata": {"labels": labels}}, _content_type="application/merge-patch+json"
    )


def _labels(world: KubernetesWorld, stored: StoredRecord) -> dict[str, str]:
    found = CustomObjectsApi(world.cluster.client).get_namespaced_custom_object(**_place(world, stored))
    return dict(found["metadata"].get("labels") or {})
