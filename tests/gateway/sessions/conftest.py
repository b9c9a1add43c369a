"""Fixtures of several test files."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from grpc import aio

from gateway.backends.backends import Backends
from gateway.blocking_work.storage import Storage
from gateway.sessions.registry import Sessions
from tests.gateway.sessions.faulty_replica import LEASE_SECONDS, OWN, FaultyRecords, IdleBackend, Replica
from tests.gateway.sessions.lease_clock import LeaseClock
from workspace.files.leases import FileLeases
from workspace.files.session_locations import FileSessionLocations


@pytest_asyncio.fixture
async def replica(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Replica]:
    """A replica. The parameter, if any, is the idle timeout of its sessions in seconds."""
    clock = LeaseClock(monkeypatch)
    locations = FileSessionLocations(tmp_path)
    locations.initialise()
    records = FaultyRecords(tmp_path)
    storage = Storage(records, FileLeases(tmp_path), locations)
    server = aio.server()
    backend = IdleBackend()
    server.add_generic_rpc_handlers((backend,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    backends = Backends([f"sc://127.0.0.1:{port}"])
    sessions = Sessions(
        replica=OWN,
        storage=storage,
        backends=backends,
        idle_timeout_seconds=getattr(request, "param", 0.0),
        lease_duration_seconds=LEASE_SECONDS,
    )
    await sessions.renew_lease()
    yield Replica(sessions, records, locations, backend, clock)
    await sessions.leave_all(end=False)
    await backends.close()
    await server.stop(None)
    await storage.close()
