"""Real ``lodge reap`` processes on a real API server, with the rights of their service account."""

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from kubernetes.client import CoreV1Api, DiscoveryV1Api

from tests.fixture_types import WaitUntil
from workspace.identifiers import SessionUuid
from workspace.kubernetes.leases import PodIdentity


@pytest.mark.slow
def test_session_of_dead_gateway_ends_with_status_event_log_and_metric(
    new_world: Callable[..., Any], wait_until: WaitUntil
) -> None:
    """Concurrently, a live gateway has the grace period after the deletion of a ConnectSession."""
    world = new_world(grace_seconds=8.0)
    alive, dead = world.start_gateway("alive"), world.start_gateway("dead")
    kept, stored, unwanted = world.start_session("alive"), world.start_session("dead"), world.start_session("alive")
    reaper = world.start_reaper()
    for session in (stored, unwanted):
        wait_until(lambda session=session: world.conditions(session).get("Owned") == ("True", "Held"), "it is held")
    dead.stop()
    asked = time.monotonic()
    world.ask_to_delete(unwanted)
    for session, reason in ((stored, "HolderGone"), (unwanted, "DeletionRequested")):
        wait_until(
            lambda session=session, reason=reason: world.conditions(session).get("Owned") == ("False", reason),
            f"the status shows {reason}",
        )
    wait_until(lambda: world.is_gone(unwanted), "the session whose deletion was requested is gone")
    assert time.monotonic() - asked >= world.grace_seconds
    wait_until(lambda: world.is_gone(stored), "the session of the dead gateway is gone")
    location = world.locations.path(stored.record.session_uuid)
    note = f"Deleted session temporary location [{location}] from file system [file:///]"
    name = f"lodge-{stored.record.name}"
    wait_until(lambda: (name, note) in world.notes("LocationDeleted"), "an Event tells of it")
    assert note in [event["message"] for event in reaper.events("session_location_deleted")]
    wait_until(lambda: "dead" not in world.leases.list(), "the dead gateway's lease is gone")
    assert world.is_there(kept)
    wait_until(lambda: not world.locations.trash(), "the trash is empty")
    _, metrics = reaper.get("/metrics")
    assert 'lodge_reaper_sessions_reaped_total{reason="holders_lost"} 1.0' in metrics
    assert 'lodge_reaper_sessions_reaped_total{reason="deletion_requested"} 1.0' in metrics
    assert 'lodge_reaper_removed_total{what="session_location"} 2.0' in metrics
    alive.die()


@pytest.mark.slow
def test_reaper_without_access_to_nodes_logs_it_once_and_works(
    new_world: Callable[..., Any], cluster: Any, node: Any, wait_until: WaitUntil
) -> None:
    """It removes an orphan each time a late writer creates it, and believes the kubelet that a gateway is gone."""
    world = new_world(lease_seconds=3600.0, sees_nodes=False)
    pod = node.pod(world.namespace, "gateway-0")
    gateway = world.start_gateway("gateway", PodIdentity("gateway-0", pod.metadata.uid, node.name))
    stored = world.start_session("gateway")
    reaper = world.start_reaper()
    wait_until(lambda: world.conditions(stored).get("Owned") == ("True", "Held"), "the status is written")
    orphan = SessionUuid(str(uuid.uuid4()))
    for times in (1, 2):
        location = world.make_location(orphan)
        wait_until(lambda path=location: not path.exists(), "the orphan is gone")
        note = f"Deleted session temporary location [{location}] from file system [file:///]"
        expected = [("lodge-reaper", note)] * times
        wait_until(
            lambda expected=expected: world.notes("OrphanLocationDeleted") == expected,
            "Events at the reapers' Lease show it",
        )
    assert world.is_there(stored)
    gateway.die()
    now = "2026-01-01T00:00:00Z"
    terminated = {"exitCode": 137, "reason": "OOMKilled", "startedAt": now, "finishedAt": now}
    container = {
        "name": "main",
        "image": "lodge.test/simulated",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": terminated},
    }
    CoreV1Api(cluster.client).patch_namespaced_pod_status(
        "gateway-0", world.namespace, {"status": {"phase": "Failed", "containerStatuses": [container]}}
    )
    wait_until(lambda: world.is_gone(stored), "the session is gone long before its lease expires")
    assert [line["resource"] for line in reaper.events("objects_not_watched")] == ["nodes"]


@pytest.mark.slow
def test_lost_node_shortens_neither_lease_nor_grace_period(
    new_world: Callable[..., Any], cluster: Any, node: Any, wait_until: WaitUntil
) -> None:
    """A silent gateway can work on, and another one can adopt its sessions until the end of the grace period."""
    world = new_world(lease_seconds=20.0, grace_seconds=12.0)
    pod = node.pod(world.namespace, "gateway-0")
    identity = PodIdentity("gateway-0", pod.metadata.uid, node.name)
    gateway = world.start_gateway("gateway", identity)
    stored = world.start_session("gateway")
    reaper = world.start_reaper()
    wait_until(lambda: world.conditions(stored).get("Owned") == ("True", "Held"), "the status is written")
    died = time.monotonic()
    gateway.die()
    node.fail()
    condition = ("Unknown", "HolderInDoubt")
    wait_until(lambda: world.conditions(stored).get("Owned") == condition, "the gateway is doubted")
    wait_until(
        lambda: world.conditions(stored).get("Owned") != condition, "the lease has expired, or the session is gone"
    )
    expired = time.monotonic()
    wait_until(lambda: world.is_gone(stored), "the session is gone")
    gone = time.monotonic()
    assert gone - died >= world.lease_seconds, "a lost node does not prove the end"
    assert gone - expired > world.grace_seconds / 2, "the grace period begins when the lease has expired"
    wait_until(lambda: reaper.has_logged("session_reaped"), "the end of the session is logged")
    node.recover()


@pytest.mark.slow
def test_status_shows_backend_availability_and_nothing_is_deleted(
    new_world: Callable[..., Any], cluster: Any, wait_until: WaitUntil
) -> None:
    world = new_world()
    gateway = world.start_gateway("alive")
    stored = world.start_session("alive", backend=f"sc://spark.{world.namespace}.svc:15002")
    elsewhere = world.start_session("alive", backend="sc://spark.example.com:15002")
    slices = DiscoveryV1Api(cluster.client)
    body = {
        "metadata": {"name": "spark-1", "labels": {"kubernetes.io/service-name": "spark"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}],
    }
    slices.create_namespaced_endpoint_slice(world.namespace, body)
    world.start_reaper()
    wait_until(
        lambda: world.conditions(stored).get("BackendAvailable") == ("True", "PodReady"), "the backend is available"
    )
    slices.patch_namespaced_endpoint_slice("spark-1", world.namespace, {"endpoints": []})
    wait_until(
        lambda: world.conditions(stored).get("BackendAvailable") == ("False", "NoPod"), "the backend is not available"
    )
    assert "BackendAvailable" not in world.conditions(elsewhere)
    assert world.is_there(stored)
    gateway.die()


@pytest.mark.slow
def test_mass_expiry_waits_for_the_token_at_the_lease_but_requested_deletion_does_not(
    new_world: Callable[..., Any], wait_until: WaitUntil
) -> None:
    world = new_world()
    world.start_gateway("dead").stop()
    sessions = [world.start_session("dead") for _ in range(6)]
    options = ("--mass-expiry-share=0.5", "--mass-expiry-minimum=5")
    first = world.start_reaper(*options)
    wait_until(lambda: first.has_logged("reaper_held_back"), "the reaper warns")
    (warning,) = first.events("reaper_held_back")
    assert (warning["kind"], warning["sessions"], warning["of_sessions"]) == ("mass_expiry", 6, 6)
    ready, details = first.get("/readyz")
    assert ready == 200
    assert warning["confirm_with"] in details
    wait_until(lambda: world.conditions(sessions[0]).get("Owned") == ("False", "MassExpiry"), "the status shows it")
    wait_until(lambda: world.notes("HeldBackMassExpiry"), "an Event says it")
    assert 'lodge_reaper_held_back{kind="mass_expiry"} 1.0' in first.get("/metrics")[1]
    one_more = world.start_session("dead")
    world.ask_to_delete(one_more)
    wait_until(lambda: world.is_gone(one_more), "a requested deletion does not wait")
    wait_until(lambda: first.has_logged("session_reaped"), "the end of the session is logged")
    assert [line["reason"] for line in first.events("session_reaped")] == ["deletion_requested"]
    assert all(world.is_there(stored) for stored in sessions)

    first.stop()
    second = world.start_reaper(*options)
    wait_until(lambda: second.has_logged("reaper_held_back"), "the next reaper warns as well")
    assert second.events("reaper_held_back")[0]["confirm_with"] == warning["confirm_with"], (
        "each leader has the same token"
    )
    assert all(world.is_there(stored) for stored in sessions)
    world.annotate_leader_lease("sparklodge.io/confirm-mass-expiry", warning["confirm_with"])
    wait_until(lambda: all(world.is_gone(stored) for stored in sessions), "the sessions are gone")
    assert second.has_logged("mass_expiry_confirmed")


@pytest.mark.slow
def test_api_requests_do_not_grow_with_the_number_of_sessions(
    new_own_world: Callable[..., Any], own_cluster: Any, wait_until: WaitUntil
) -> None:
    world = new_own_world()
    gateway = world.start_gateway("alive")
    asked = []

    def wait_for_passes(reaper: Any, count: int) -> None:
        before = reaper.passes()
        wait_until(lambda: reaper.passes() >= before + count, f"{count} passes")

    for more, together in ((3, 3), (27, 30)):
        for _ in range(more):
            world.start_session("alive")
        reaper = world.start_reaper()
        wait_until(lambda all_of=together: world.owned_sessions() == all_of, "every status is written", 60)
        wait_for_passes(reaper, 2)  # until the API server has counted these requests
        before = _requests(own_cluster, "connectsessions")
        wait_for_passes(reaper, 10)
        asked.append(_requests(own_cluster, "connectsessions") - before)
        reaper.stop()
    assert max(asked) <= 4, asked
    gateway.die()


def _requests(cluster: Any, resource: str) -> int:
    """Return the number of requests for a resource that the API server has answered."""
    client = cluster.client
    answer = client.call_api(*client.param_serialize("GET", "/metrics", auth_settings=["BearerToken"]))
    lines = answer.read().decode().splitlines()
    counted = [line for line in lines if line.startswith("apiserver_request_total{")]
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in counted if f'resource="{resource}"' in line)
