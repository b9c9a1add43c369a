"""The adoption of the sessions of a killed gateway, with the real API server (gateway.sessions.adopter)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gateway.sessions.adopting_replicas import AdoptingReplicas, adopt_sessions_of_killed_replica
from workspace.files.session_locations import FileSessionLocations
from workspace.leases import Leases
from workspace.record_store import SessionRecords

SESSIONS = 100

pytestmark = pytest.mark.slow


async def test_sessions_of_killed_replica_are_adopted_once_each(
    open_records: Callable[[], SessionRecords], open_leases: Callable[[], Leases], tmp_path: Path
) -> None:
    locations = FileSessionLocations(tmp_path)
    locations.initialise()
    async with AdoptingReplicas(
        open_records, open_leases(), locations, lease_seconds=20.0, patience_seconds=60.0
    ) as replicas:
        await adopt_sessions_of_killed_replica(replicas, sessions=SESSIONS)
