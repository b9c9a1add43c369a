"""Session locations of the gateway's own OS user and of a principal's."""

import os
import pwd
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import structlog

from gateway.backends.backends import Backends
from gateway.blocking_work.storage import Storage
from gateway.errors import GatewayError
from gateway.messages.requests import SessionKey
from gateway.sessions.registry import Sessions
from workspace.files.leases import FileLeases
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import ClientSessionId, Principal, ReplicaId
from workspace.records import Phase
from workspace.session_end import end_session

as_root = pytest.mark.needs_root
OTHER = pwd.getpwuid(65534)
NO_USER = "no-such-user"
OWN = "sc://own:1"


@pytest_asyncio.fixture
async def open_sessions(tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Create registries of replicas on one storage."""
    locations = FileSessionLocations(tmp_path)
    locations.initialise()
    storage = Storage(FileSessionRecords(tmp_path), FileLeases(tmp_path), locations)
    opened: list[Backends] = []

    async def open_one(*, impersonation: bool, leased: bool = True) -> Sessions:
        own = {Principal(name): OWN for name in (OTHER.pw_name, NO_USER, "\0", "a/b")}
        opened.append(Backends(["sc://shared:1"], own, own_only=impersonation))
        sessions = Sessions(
            replica=ReplicaId(f"r{len(opened)}"),
            storage=storage,
            backends=opened[-1],
            idle_timeout_seconds=60,
            lease_duration_seconds=60,
            impersonation=impersonation,
        )
        if leased:
            await sessions.renew_lease()
        return sessions

    yield open_one
    for backends in opened:
        await backends.close()
    await storage.close()


def move(source: Path, target: Path) -> None:
    source.rename(target)


def names_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def new_key(principal: str) -> SessionKey:
    return SessionKey(Principal(principal), ClientSessionId(str(uuid.uuid4())))


@as_root
async def test_location_belongs_to_the_os_user_with_impersonation(open_sessions: Any) -> None:
    sessions = await open_sessions(impersonation=True)
    session = await sessions.open(new_key(OTHER.pw_name))
    assert session.backend.address == OWN
    path = await sessions.locations.create(session)
    status = path.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (OTHER.pw_uid, OTHER.pw_gid, 0o700)
    assert await sessions.locations.create(session) == path


async def test_location_belongs_to_the_gateway_user_without_impersonation(open_sessions: Any) -> None:
    sessions = await open_sessions(impersonation=False)
    session = await sessions.open(new_key("nobody-in-particular"))
    assert session.backend.address == "sc://shared:1"
    status = (await sessions.locations.create(session)).stat()
    assert (status.st_uid, status.st_mode & 0o777) == (os.geteuid(), 0o700)


@pytest.mark.parametrize(
    ("principal", "reason"),
    [
        (NO_USER, "no OS user"),
        ("\0", "no OS user"),
        ("a/b", "no OS user"),
        ("root", "no backend"),
        ("", "no backend"),
        ("eve", "no backend"),
    ],
)
async def test_principal_without_os_user_or_backend_is_refused_without_a_trace(
    open_sessions: Any, tmp_path: Path, principal: str, reason: str
) -> None:
    sessions = await open_sessions(impersonation=True)
    key = new_key(principal)
    for _ in range(2):
        with pytest.raises(GatewayError, match=reason) as refused:
            await sessions.open(key)
        assert (refused.value.condition, refused.value.sql_state) == ("LODGE_IMPERSONATION", "28000")
    assert not FileSessionRecords(tmp_path).list()
    assert names_in(tmp_path) == [".lodge"]


async def test_request_without_session_never_reaches_a_shared_backend(open_sessions: Any) -> None:
    sessions = await open_sessions(impersonation=True)
    with pytest.raises(GatewayError, match="LODGE_IMPERSONATION"):
        sessions.route(new_key("eve"))
    assert sessions.route(new_key(OTHER.pw_name)).address == OWN


@as_root
async def test_location_from_before_impersonation_is_refused(open_sessions: Any) -> None:
    before = await open_sessions(impersonation=False)
    key = new_key(OTHER.pw_name)
    await before.locations.create(await before.open(key))
    after = await open_sessions(impersonation=True)
    session = await after.open(key)
    assert session.backend.address == OWN
    with pytest.raises(GatewayError, match=r"LODGE_IMPERSONATION.*Start a new session"):
        await after.locations.create(session)


async def test_end_interrupted_by_the_storage_is_left_to_the_reaper(open_sessions: Any, tmp_path: Path) -> None:
    sessions = await open_sessions(impersonation=False)
    session = await sessions.open(new_key("ada"))
    location = await sessions.locations.create(session)
    move(tmp_path / ".lodge" / "trash", tmp_path / ".lodge" / "elsewhere")
    with structlog.testing.capture_logs() as logs:
        await sessions.leave_all(end=True)
    assert [log["event"] for log in logs] == ["session_end_left_to_reaper"]
    move(tmp_path / ".lodge" / "elsewhere", tmp_path / ".lodge" / "trash")
    (stored,) = FileSessionRecords(tmp_path).list()
    assert stored.record.phase is Phase.ENDING
    done = end_session(FileSessionRecords(tmp_path), FileSessionLocations(tmp_path), stored)
    assert done is not None
    assert done.locations == (location,)


async def test_guarantee_4_replica_without_lease_creates_no_location(open_sessions: Any, tmp_path: Path) -> None:
    leased = await open_sessions(impersonation=False)
    session = await leased.open(new_key("ada"))
    unleased = await open_sessions(impersonation=False, leased=False)
    with pytest.raises(GatewayError, match="LODGE_LEASE_LOST"):
        await unleased.locations.create(session)
    assert names_in(tmp_path) == [".lodge"]
