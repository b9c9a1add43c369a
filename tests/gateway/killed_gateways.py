"""Gateways that are killed, and whose lease ends at once, so that no test needs a short lease."""

import json
import signal
from pathlib import Path

from tests.conftest import LodgeProcess
from workspace.files.leases import FileLeases
from workspace.identifiers import ReplicaId


def kill(gateway: LodgeProcess, home: Path | None = None) -> None:
    """Kill a gateway, and end its lease, as if the lease duration had passed since its last renewal.

    Tests in which the lease must lapse by itself kill the process only.

    Args:
        gateway: The gateway.
        home: The home of its temporary workspace, if the test has configured its own workspaces.
    """
    gateway.signal(signal.SIGKILL)
    gateway.process.wait()
    (started,) = [json.loads(line) for line in gateway.log().splitlines() if '"gateway_started"' in line]
    FileLeases(home or gateway.root).stop(ReplicaId(started["replica"]))
