"""The network between the control plane and the nodes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.machines.network import Network, has_own_namespace, run_command
from tests.cluster.processes import Process

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("machine_programs")]

LOWEST = "02:00:00:00:00:00"


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    with Network(tmp_path) as network:
        yield network


@pytest.fixture
def namespace(tmp_path: Path) -> Iterator[Process]:
    """A process with a network namespace of its own, like that of a machine."""
    process = Process(
        ["unshare", "--net", "sleep", "infinity"],
        tmp_path / "namespace.log",
        is_ready=lambda: has_own_namespace(process.pid, "net"),
    )
    process.start()
    yield process
    process.kill()


def hardware_address(network: Network) -> str:
    """Return the address to which machines send what is for the control plane."""
    (bridge,) = json.loads(run_command(*network.prefix_command, "ip", "-json", "link", "show", "bridge"))
    return str(bridge["address"])


def test_hardware_address_of_the_control_plane_does_not_depend_on_machines(
    network: Network, namespace: Process
) -> None:
    before = hardware_address(network)
    network.connect(1, namespace.pid)
    run_command(*network.prefix_command, "ip", "link", "set", "node-1", "address", LOWEST)
    assert hardware_address(network) == before
