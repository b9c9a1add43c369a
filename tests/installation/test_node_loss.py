"""A node with a gateway, the acting reaper and sessions on it is lost: its power and its network, at once.

Spark runs on the other node, because a session ends with its Spark server.
"""

import time
from collections.abc import Iterator, Sequence

import pytest
from pyspark.sql.connect.session import SparkSession

from tests.chaos.checking_clients import CheckingClient
from tests.cluster.machines.machine import Machine
from tests.cluster.nodes import is_ready as is_node_ready
from tests.installation.installation import Installation, wait_until

SECONDS = 120.0


@pytest.fixture(scope="module")
def nodes(installation: Installation) -> Sequence[Machine]:
    """The node that is lost, and the one with Spark."""
    return installation.cluster.machines


@pytest.fixture(scope="module")
def bystander(installation: Installation, nodes: Sequence[Machine]) -> Iterator[CheckingClient]:
    """A client of the gateway on the other node, which works without pause and checks each result."""
    client = CheckingClient(installation.connect("bystander", machines=nodes[1:]), "bystander")
    client.start()
    yield client
    client.ask_to_stop()
    client.wait_until_stopped(time.monotonic() + SECONDS)


def create_session(installation: Installation, machine: Machine) -> SparkSession:
    """Return a session that the gateway on a node serves, with a table of one row, which names the node."""
    session = installation.connect(machines=[machine])
    session.sql(f"create temporary table t as select '{machine.name}' as node").collect()
    return session


def move_leader(installation: Installation, machine: Machine) -> None:
    """Let the reaper on a node be the one that acts: another one that acts hands over when it stops."""

    def is_on_node() -> bool:
        leader = installation.leader()
        if leader is not None and leader.spec.node_name != machine.name:
            # the pod in its place can take over too, and then has to stop as well
            installation.kubectl("delete", "pod", "--ignore-not-found", leader.metadata.name)
        return leader is not None and leader.spec.node_name == machine.name

    wait_until(is_on_node, "the leader is on the node", SECONDS)
    installation.wait_until_ready()


def gateway_leases(installation: Installation) -> int:
    selector = "app.kubernetes.io/component=gateway"
    return len(installation.leases.list_namespaced_lease(installation.namespace, label_selector=selector).items)


def test_sessions_of_a_lost_node_continue_or_are_removed(
    installation: Installation, nodes: Sequence[Machine], bystander: CheckingClient
) -> None:
    lost, other = nodes
    move_leader(installation, lost)
    before = session_ids(installation)
    returning, silent = (create_session(installation, lost) for _ in range(2))
    assert session_ids(installation) == before | {returning.session_id, silent.session_id}
    answers = len(bystander.pauses)
    silent.client.close()

    lost.kill()
    try:
        lost_at = time.monotonic()
        back = installation.connect(session_id=returning.session_id, machines=[other])
        assert back.table("t").collect() == [(lost.name,)]
        back_seconds = time.monotonic() - lost_at
        wait_until(lambda: is_removed(installation, silent, back), "the silent session is removed", SECONDS)
        removed_seconds = time.monotonic() - lost_at
        print(f"back after {back_seconds:.1f} s, removed after {removed_seconds:.1f} s")
        assert back.table("t").collect() == [(lost.name,)]
        wait_until(lambda: bystander.problem or len(bystander.pauses) > answers, "the bystander works", SECONDS)
        assert bystander.problem is None

        back.stop()
    finally:
        lost.start()
    wait_until(lambda: is_node_ready(installation.core.read_node_status(lost.name)), "the node is ready again", SECONDS)
    installation.wait_until_ready()
    assert session_ids(installation) == before
    wait_until(lambda: len(installation.session_locations()) == len(before), "no other files remain", SECONDS)
    wait_until(lambda: gateway_leases(installation) == len(installation.pods("gateway")), "no lease remains", SECONDS)


def session_ids(installation: Installation) -> set[str]:
    return {session["spec"]["clientSessionId"] for session in installation.sessions()}


def is_removed(installation: Installation, silent: SparkSession, other: SparkSession) -> bool:
    """Return whether a session is over. Its question keeps the other session from ending."""
    other.sql("select 1").collect()
    return silent.session_id not in session_ids(installation)
