"""A gateway that cannot start leaves nothing behind that looks like a living replica."""

import socket
from pathlib import Path

import pytest

from gateway.config import GatewayConfig
from gateway.connections.listener import ListenError
from gateway.server import Gateway
from workspace.files.leases import FileLeases
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.workspaces import Workspaces


async def test_gateway_without_an_address_leaves_no_lease(tmp_path: Path) -> None:
    locations = FileSessionLocations(tmp_path)
    locations.initialise()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = GatewayConfig(
            listen=f"127.0.0.1:{taken.getsockname()[1]}",
            backends=("sc://127.0.0.1:1",),
            workspaces=Workspaces.from_uris({"dfs.tmp": tmp_path.as_uri()}, "dfs.tmp"),
            session_idle_timeout_seconds=60,
            lease_duration_seconds=60,
        )
        leases = FileLeases(tmp_path)
        with pytest.raises(ListenError):
            await Gateway(config, FileSessionRecords(tmp_path), leases, locations).start()
    assert leases.list() == {}
