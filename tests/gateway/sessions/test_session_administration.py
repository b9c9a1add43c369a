"""Who sees and closes which sessions, and what closing does to the record."""

import asyncio
import io
import uuid
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
import pytest_asyncio

from gateway.auditing.audit import Audit
from gateway.authorization.authorization import Authorization
from gateway.backends.backend_session import BackendSession
from gateway.backends.backends import Backends
from gateway.backends.session_settings import SessionSettings
from gateway.blocking_work.storage import Storage
from gateway.errors import GatewayError
from gateway.messages.identity import Identity
from gateway.messages.requests import SessionKey
from gateway.messages.statement_request import StatementRequest
from gateway.operations.operations import Operation, Operations
from gateway.operations.responses import Response
from gateway.sessions.registry import Sessions
from gateway.sessions.session import Session
from gateway.tables.session_administration import SessionAdministration
from gateway.tables.statement_context import Execution
from workspace.files.leases import FileLeases
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import ClientSessionId, Principal, ReplicaId, SessionUuid
from workspace.records import Phase, SessionRecord

pytestmark = pytest.mark.asyncio
SHARED_ID = str(uuid.uuid4())


class ActsAudit(Audit):
    def __init__(self) -> None:
        super().__init__()
        self.acts: list[tuple[str, str, str]] = []

    def administrative_act(
        self, act: str, *, target: str = "", owner: str = "", details: Mapping[str, object] | None = None
    ) -> None:
        self.acts.append((act, target, owner))


class World:
    """A replica with one session of each of ada and bob, and a record of a session at another replica."""

    def __init__(self, sessions: Sessions, storage: Storage) -> None:
        self.sessions = sessions
        self.storage = storage
        self.audit = ActsAudit()
        self.administration = SessionAdministration(
            storage, sessions, Operations(60), Authorization(["ops"]), self.audit
        )

    async def open(self, principal: str, client_session_id: str = "") -> Session:
        key = SessionKey(Principal(principal), ClientSessionId(client_session_id or str(uuid.uuid4())))
        return await self.sessions.open(key)

    def remote(self, principal: str) -> SessionRecord:
        """Return the record of a session that another replica serves."""
        record = SessionRecord(
            SessionUuid(str(uuid.uuid4())),
            Principal(principal),
            ClientSessionId(str(uuid.uuid4())),
            "sc://127.0.0.1:1",
            Phase.ACTIVE,
            "2026-11-22T10:00:00+00:00",
            frozenset({ReplicaId("r2")}),
        )
        return self.storage.records.create(record).record

    def execution(self, session: Session, *, is_authenticated: bool = True) -> Execution:
        request = StatementRequest.of_principal(*session.key, "")
        identity = Identity(session.key.principal, method="tokens") if is_authenticated else None
        backend = BackendSession(session.backend, request, ())
        return Execution(session, Operation(request), backend, SessionSettings(), identity)

    async def rows(self, session: Session, *, is_authenticated: bool = True) -> list[dict[str, object]]:
        shown = await self.administration.show(self.execution(session, is_authenticated=is_authenticated))
        return _rows(shown)

    async def close(self, session: Session, session_id: str) -> Response:
        return await self.administration.close(self.execution(session), session_id)


def _rows(response: Response) -> list[dict[str, object]]:
    data = response.sql_command_result.relation.local_relation.data
    with pa.ipc.open_stream(io.BytesIO(data)) as reader:
        return reader.read_all().to_pylist()


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    locations = FileSessionLocations(tmp_path)
    locations.initialise()
    storage = Storage(FileSessionRecords(tmp_path), FileLeases(tmp_path), locations)
    backends = Backends(["sc://127.0.0.1:1"])  # nothing listens there: the release of a session fails
    sessions = Sessions(
        replica=ReplicaId("r1"),
        storage=storage,
        backends=backends,
        idle_timeout_seconds=60,
        lease_duration_seconds=60,
    )
    await sessions.renew_lease()
    world = World(sessions, storage)
    yield world
    await asyncio.wait_for(world.administration.stop(), 30)
    await backends.close()
    await storage.close()


async def test_principals_see_their_own_sessions_and_administrators_all(world: World) -> None:
    ada, bob, ops = [await world.open(name) for name in ("ada", "bob", "ops")]
    remote = world.remote("ada")
    (first, second) = sorted(await world.rows(ada), key=lambda row: not row["is_current"])
    assert first["session_id"] == ada.uuid
    assert first["client_session_id"] == ada.key.client_session_id
    assert first["replicas"] == ["r1"]
    assert first["last_active_at"] is not None
    assert second["session_id"] == remote.session_uuid
    assert (second["phase"], second["replicas"], second["last_active_at"]) == ("Active", ["r2"], None)
    assert [row["session_id"] for row in await world.rows(bob)] == [bob.uuid]
    assert {row["principal"] for row in await world.rows(ops)} == {"ada", "bob", "ops"}
    assert world.audit.acts == [("list_sessions", "", "")]


async def test_client_session_ids_are_hidden_without_authentication(world: World) -> None:
    one, two = await world.open("ada"), await world.open("ada")
    rows = await world.rows(one, is_authenticated=False)
    assert {row["session_id"]: row["client_session_id"] for row in rows} == {
        one.uuid: one.key.client_session_id,
        two.uuid: None,
    }


async def test_user_id_of_an_administrator_has_no_rights_without_authentication(world: World) -> None:
    await world.open("ada")
    claimed = await world.open("ops")
    assert [row["principal"] for row in await world.rows(claimed, is_authenticated=False)] == ["ops"]


async def test_closed_session_of_this_replica_ends(world: World) -> None:
    one, two = await world.open("ada"), await world.open("ada")
    await world.close(one, two.uuid.upper())
    await world.administration.stop()
    assert world.sessions.find(two.key) is None
    assert [each.record.session_uuid for each in world.storage.records.list()] == [one.uuid]
    assert world.audit.acts == [("close_session", two.uuid, "ada")]


async def test_session_of_another_replica_is_marked_for_its_replica(world: World) -> None:
    ops, remote = await world.open("ops"), world.remote("ada")
    await world.close(ops, remote.session_uuid)
    await world.close(ops, remote.session_uuid)  # again, because the other replica has not ended it yet
    assert world.storage.records.read(remote.name).record.phase is Phase.ENDING


async def test_session_that_may_not_be_closed_is_reported_as_missing(world: World) -> None:
    ada, bob = await world.open("ada"), await world.open("bob")
    messages = set()
    for session_id in (bob.uuid, bob.key.client_session_id, str(uuid.uuid4())):
        with pytest.raises(GatewayError) as raised:
            await world.close(ada, session_id)
        assert raised.value.condition == "LODGE_SESSION_NOT_FOUND"
        messages.add(str(raised.value).replace(session_id, "ID"))
    assert len(messages) == 1
    assert world.sessions.find(bob.key) is bob
    assert world.audit.acts == []


async def test_shared_client_session_id_is_ambiguous_for_administrators(world: World) -> None:
    ada, _, ops = await world.open("ada", SHARED_ID), await world.open("bob", SHARED_ID), await world.open("ops")
    with pytest.raises(GatewayError, match="Several sessions"):
        await world.close(ops, SHARED_ID)
    await world.close(ops, ada.uuid)
    own = await world.open("ada")
    with pytest.raises(GatewayError, match="cannot close the session in which it runs"):
        await world.close(own, own.key.client_session_id)


async def test_statements_at_the_same_time_share_a_listing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    listings = 0
    read = world.storage.records.list

    def count() -> object:
        nonlocal listings
        listings += 1
        return read()

    monkeypatch.setattr(world.storage.records, "list", count)
    ada = await world.open("ada")
    listings = 0
    shown = await asyncio.gather(*(world.rows(ada) for _ in range(20)))
    assert listings <= 2
    assert all([row["session_id"] for row in rows] == [ada.uuid] for rows in shown)
    remote = world.remote("ada")
    assert remote.session_uuid in {row["session_id"] for row in await world.rows(ada)}


async def test_long_listing_is_complete(world: World) -> None:
    ada = await world.open("ada")
    for _ in range(201):
        world.remote("ada")
    assert len(await world.rows(ada)) >= 202
