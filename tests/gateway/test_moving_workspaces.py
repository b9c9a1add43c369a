"""A gateway whose workspaces change while it runs [temporary-tables §5.1.5]."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gateway.config import GatewayConfig
from gateway.server import Gateway
from tests.gateway.loop_clock import LoopClock
from workspace.files.leases import FileLeases
from workspace.files.roots import home_of
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import ReplicaId
from workspace.root_identities import HomeMovedError, RootTakenError
from workspace.workspaces import Workspaces

LEASE_SECONDS = 30.0


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    return tmp_path / "first", tmp_path / "second"


@pytest_asyncio.fixture
async def new_gateway() -> AsyncIterator[Callable[[Path], Gateway]]:
    """Create gateways on one root. All are stopped in the end."""
    made: list[Gateway] = []

    def make(root: Path) -> Gateway:
        locations = FileSessionLocations(root, home_of(root))
        locations.initialise()
        config = GatewayConfig(
            listen="127.0.0.1:0",
            backends=("sc://127.0.0.1:1",),
            workspaces=in_root(root),
            session_idle_timeout_seconds=60,
            lease_duration_seconds=LEASE_SECONDS,
        )
        made.append(Gateway(config, FileSessionRecords(locations.home), FileLeases(locations.home), locations))
        return made[-1]

    yield make
    for gateway in made:
        if hasattr(gateway, "_server"):
            await gateway.stop(0)


def in_root(root: Path) -> Workspaces:
    return Workspaces.from_uris({"dfs.tmp": root.as_uri()}, "dfs.tmp")


async def test_moved_workspace_keeps_its_former_root(roots: tuple[Path, Path], new_gateway: Any) -> None:
    first, second = roots
    gateway = new_gateway(first)
    await gateway.start()
    assert gateway.workspaces.temporary_roots == (first,)
    await gateway.reload(in_root(second))
    assert gateway.workspaces.temporary_roots == (second, first)
    await gateway.reload(in_root(first))
    assert gateway.workspaces.temporary_roots == (first, second)


async def test_refused_move_changes_nothing(roots: tuple[Path, Path], new_gateway: Any) -> None:
    first, second = roots
    FileSessionLocations(second).initialise()
    FileLeases(second).renew(ReplicaId("another-lodge"))
    gateway = new_gateway(first)
    await gateway.start()
    with pytest.raises(RootTakenError):
        await gateway.reload(in_root(second))
    assert gateway.workspaces.temporary_roots == (first,)


async def test_other_replicas_read_the_new_root(roots: tuple[Path, Path], new_gateway: Any) -> None:
    first, second = roots
    reloaded, other = new_gateway(first), new_gateway(first)
    await reloaded.start()
    await other.start()
    await reloaded.reload(in_root(second))
    clock = LoopClock()
    async with asyncio.timeout(60 * LEASE_SECONDS):
        while other.workspaces.temporary_roots != (first, second):
            await clock.skip(LEASE_SECONDS / 3)  # a replica reads the roots whenever its lease is renewed
            await asyncio.sleep(0.2)
    assert other.workspaces.temporary_roots == (first, second)
    late = new_gateway(second)
    await late.start()
    assert late.workspaces.temporary_roots == (second, first)


async def test_gateway_does_not_start_after_its_root_joined_another_home(
    roots: tuple[Path, Path], new_gateway: Any
) -> None:
    first, second = roots
    early = new_gateway(second)
    gateway = new_gateway(first)
    await gateway.start()
    await gateway.reload(in_root(second))
    with pytest.raises(HomeMovedError, match="Restart this process"):
        await early.start()
    assert not FileLeases(second).list()
