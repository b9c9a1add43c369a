"""Statements that one gateway takes over from another one. Sessions, leases and the backend are fakes.

The simulation runs the same code in random histories. These histories are too rare for it.
"""

import asyncio
import json
import threading
import uuid
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import pytest
from pyspark.sql.types import StructType

from gateway.blocking_work.storage import Storage
from gateway.errors import GatewayError, fenced
from gateway.messages.identity import Identity
from gateway.operations.drain import Drain
from gateway.sessions.adoption import find_abandoned
from gateway.stored_tables.table_plans import row_count_name
from gateway.tables.execution import StatementExecutor
from gateway.tables.followed_statements import FollowedStatements
from gateway.tables.permanent_tables import PermanentTables
from gateway.tables.table_errors import ChangeTakenError
from tests.records import a_record
from workspace.files.leases import FileLeases
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import Principal, ReplicaId, TableUuid
from workspace.record_changes import put_table
from workspace.record_store import RecordsUnavailableError
from workspace.records import NO_REPLICA, PendingDrop, PendingWrite, TableState, TemporaryTable
from workspace.workspaces import Workspace

SCHEMA = json.dumps(StructType().add("id", "long").jsonValue())
FIRST, SECOND = ReplicaId("first"), ReplicaId("second")


class CountedRecords(FileSessionRecords):
    """Session records in files that count reads, whose replacements can wait, and which can be unavailable."""

    reads = 0
    are_unavailable = False

    def __init__(self, root):
        super().__init__(root)
        self.has_replaced = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def read(self, name):
        self.reads += 1
        self._check()
        return super().read(name)

    def _check(self):
        if self.are_unavailable:
            raise RecordsUnavailableError(None, "The records are away.")

    def replace(self, record, version):
        self._check()
        stored = super().replace(record, version)
        self.has_replaced.set()
        self.go_on.wait()
        return stored


class Site:
    """The storage of a session with one table, which two gateways share."""

    def __init__(self, root):
        self.root = root
        self.records, self.leases, self.locations = CountedRecords(root), FileLeases(root), FileSessionLocations(root)
        self.locations.initialise()
        directory = TableUuid(str(uuid.uuid4()))
        self.table = TemporaryTable("t", directory, TableState.READY, "parquet", (directory,), rows=1)
        record = replace(a_record(1), holders=frozenset({FIRST, SECOND}), tables=(self.table,))
        self.record = self.records.create(record).record
        self.location = self.locations.create(self.record.session_uuid)
        (self.location / directory).mkdir()

    def change(self, table):
        stored = self.records.read(self.record.name)
        self.records.replace(put_table(stored.record, table), stored.version)
        self.records.has_replaced.clear()

    def begin_drop(self, replica):
        drop = PendingDrop("the drop", replica, SCHEMA)
        self.change(replace(self.table, state=TableState.DROPPING, drop=drop))
        return drop

    def begin_insert(self, replica):
        write = PendingWrite(TableUuid(str(uuid.uuid4())), "the insert", replica, SCHEMA)
        self.change(replace(self.table, writes=(write,)))
        return write

    def publish_insert(self, replica):
        write = replace(self.begin_insert(replica), is_published=True, rows=1)
        (self.location / write.directory).mkdir()
        self.change(replace(self.table, parts=(*self.table.parts, write.directory), rows=2, writes=(write,)))
        return write

    def now(self):
        """Return the table in the record; None if it does not exist."""
        return next(iter(self.records.read(self.record.name).record.tables), None)


class Gateway:
    """A gateway for which the other one is lost."""

    def __init__(self, site, name):
        self.storage = Storage(site.records, site.leases, site.locations)
        self.session = mock.Mock(
            uuid=site.record.session_uuid,
            record_name=site.record.name,
            lock=asyncio.Lock(),
            track_request=mock.Mock(side_effect=nullcontext),
        )
        self.is_fenced = False
        self.sessions = mock.Mock()
        self.sessions.lease.require_joined = self._require_joined
        self.sessions.joins.ensure_joined = self._ensure_joined
        self.sessions.find.return_value = self.session
        self.sessions.peers = mock.Mock(lost={FIRST, SECOND} - {name}, observe=mock.AsyncMock())
        self.executor = StatementExecutor(name, self.storage, self.sessions, Drain())
        self.sessions.locations.create = mock.AsyncMock(return_value=site.location)
        workspaces = SimpleNamespace(now=SimpleNamespace(temporary=Workspace("tmp", site.root)))
        self.permanent = PermanentTables(
            name,
            self.storage,
            self.sessions,
            self.executor,
            workspaces=workspaces,
            authorization=mock.Mock(),
            audit=mock.Mock(),
            drain=Drain(),
        )
        self.statements = FollowedStatements(
            replica=name,
            storage=self.storage,
            sessions=self.sessions,
            operations=mock.Mock(),
            tables=mock.Mock(),
            permanent=self.permanent,
            executor=self.executor,
            lease_seconds=15.0,
            drain=Drain(),
            work=mock.Mock(),
        )

    def _require_joined(self, session):
        if self.is_fenced:
            raise fenced()

    async def _ensure_joined(self, session):
        self._require_joined(session)

    def execution(self, change):
        operations = mock.Mock(execute=mock.AsyncMock(), release=mock.AsyncMock())
        backend = mock.Mock(operations=operations, drop_temp_view=mock.AsyncMock())
        operation = SimpleNamespace(id=change.operation_id, executes=True, progress=None, is_relation=False)
        return mock.Mock(session=self.session, operation=operation, backend=backend)


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def test_statement_that_another_gateway_undid_fails(site):
    """The first gateway is paused before it changes the view. The backend refuses the change of the second one."""

    async def run():
        first, second = Gateway(site, FIRST), Gateway(site, SECOND)
        drop = PendingDrop("the drop", FIRST, SCHEMA)
        dropping = replace(site.table, state=TableState.DROPPING, drop=drop)
        async with first.session.lock:
            statement = asyncio.create_task(
                first.executor.execute_drop(
                    first.execution(drop), site.table, drop, lambda record: put_table(record, dropping)
                )
            )
            await asyncio.to_thread(site.records.has_replaced.wait)
            execution = second.execution(drop)
            execution.backend.drop_temp_view.side_effect = GatewayError("LODGE_BACKEND_LOST", "08006", "gone")
            with pytest.raises(GatewayError, match="LODGE_BACKEND_LOST"):
                await second.executor.complete_for(execution, dropping, drop)
            assert site.now() == site.table
        with pytest.raises(GatewayError, match="LODGE_STATEMENT_LOST"):
            await statement
        assert site.now() == site.table

    asyncio.run(run())


@pytest.mark.parametrize("begin", [Site.begin_drop, Site.begin_insert])
def test_fenced_gateway_waits_before_it_takes_over(site, begin):
    """It reads the record once a second, and can be interrupted."""

    async def run():
        gateway = Gateway(site, SECOND)
        gateway.is_fenced = True
        execution = gateway.execution(begin(site, NO_REPLICA))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(gateway.statements.follow(execution), 0.5)
        assert site.records.reads < 10
        gateway.is_fenced = False

    asyncio.run(run())
    assert len(site.now().pending_changes) == 1


def test_gateway_completes_what_it_follows_when_it_is_no_longer_fenced(site):
    async def run():
        gateway = Gateway(site, SECOND)
        gateway.is_fenced = True
        following = asyncio.create_task(gateway.statements.follow(gateway.execution(site.begin_drop(NO_REPLICA))))
        await asyncio.sleep(0)
        gateway.is_fenced = False
        await following

    asyncio.run(run())
    assert site.now() is None


def test_session_is_busy_only_while_the_gateway_completes_a_statement(site):
    """Another gateway can give a statement up, and must not keep its session alive with it."""

    async def run():
        gateway = Gateway(site, SECOND)
        gateway.sessions.peers.lost = set()
        following = asyncio.create_task(gateway.statements.follow(gateway.execution(site.begin_drop(FIRST))))
        while site.records.reads < 2:  # noqa: ASYNC110 - records are read in a thread
            await asyncio.sleep(0.01)
        gateway.session.track_request.assert_not_called()
        gateway.sessions.peers.lost = {FIRST}
        await following
        gateway.session.track_request.assert_called_once()

    asyncio.run(run())
    assert site.now() is None


def test_statement_that_is_interrupted_while_it_is_taken_over_is_undone(site):
    """A change of a living gateway that works on it no longer would be pending for ever."""

    async def run():
        gateway = Gateway(site, SECOND)
        execution = gateway.execution(site.begin_drop(NO_REPLICA))
        site.records.go_on.clear()
        following = asyncio.create_task(gateway.statements.follow(execution))
        await asyncio.to_thread(site.records.has_replaced.wait)
        following.cancel()
        await asyncio.sleep(0)
        site.records.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await following

    asyncio.run(run())
    assert site.now() == site.table


def test_gateway_releases_no_result_that_another_one_needs(site):
    async def run():
        first, second = Gateway(site, FIRST), Gateway(site, SECOND)
        write = site.begin_insert(NO_REPLICA)
        is_followed, resumes = asyncio.Event(), asyncio.Event()

        async def follow(directory, on_progress):
            is_followed.set()
            await asyncio.Event().wait()

        async def fail(directory, on_progress):
            await resumes.wait()
            raise GatewayError("LODGE_LEASE_LOST", "58000", "paused")

        taking_over, paused = second.execution(write), first.execution(write)
        taking_over.backend.operations.follow, paused.backend.operations.follow = follow, fail
        begun = asyncio.create_task(first.executor.take_over(paused, site.table, write, None))
        await asyncio.to_thread(site.records.has_replaced.wait)
        (own,) = site.now().writes
        other = asyncio.create_task(second.executor.take_over(taking_over, site.table, own, None))
        await is_followed.wait()
        resumes.set()
        with pytest.raises(ChangeTakenError):
            await begun
        await first.executor.stop()
        paused.backend.operations.release.assert_not_called()
        other.cancel()
        with pytest.raises(asyncio.CancelledError):
            await other
        await second.executor.stop()
        taking_over.backend.operations.release.assert_called_once_with(write.directory)

    asyncio.run(run())
    assert site.now() == site.table


@pytest.mark.parametrize("shows_result", [True, False])
@pytest.mark.parametrize("begin", [Site.begin_drop, Site.publish_insert])
def test_change_that_can_be_neither_completed_nor_undone_goes_on_as_the_table_shows(site, begin, shows_result):
    """The records disappear after the view was changed. A client is then told to check the table."""

    async def run():
        gateway = Gateway(site, SECOND)
        change, table = begin(site, NO_REPLICA), site.now()
        execution = gateway.execution(change)
        backend = execution.backend

        async def change_view(*arguments):
            site.records.are_unavailable = True

        backend.drop_temp_view.side_effect = backend.operations.execute.side_effect = change_view
        backend.table_exists = mock.AsyncMock(return_value=isinstance(change, PendingWrite) or not shows_result)
        shown = getattr(change, "directory", "") if shows_result else site.table.uuid
        backend.list_input_files = mock.AsyncMock(return_value=[f"file:///tmp/{shown}/part-0"])
        with pytest.raises(GatewayError, match="LODGE_STATEMENT_UNFINISHED"):
            await gateway.executor.complete_for(execution, table, change)
        backend.drop_temp_view.side_effect = backend.operations.execute.side_effect = None
        site.records.are_unavailable = False
        await gateway.executor._undo._retries.wait()

    asyncio.run(run())
    table = site.now()
    if not shows_result:
        assert table == site.table
    elif begin is Site.begin_drop:
        assert table is None
    else:
        assert (len(table.parts), table.writes) == (2, ())


class Creation:
    """The creation of a permanent table by the first gateway, which can be paused."""

    def __init__(self, site, workspace):
        self.site, self.workspace = site, Workspace("dfs", workspace, is_writable=True)
        self.first, self.second = Gateway(site, FIRST), Gateway(site, SECOND)
        self.change = SimpleNamespace(operation_id="the creation")
        self.executes, self.resumes = asyncio.Event(), asyncio.Event()

    async def run(self):
        execution = self.first.execution(self.change)
        execution.identity = Identity(Principal("alice"))
        execution.session.key.principal = Principal("alice")
        execution.backend.operations.execute = self._execute
        new = mock.Mock(
            if_not_exists=False, schema=mock.AsyncMock(return_value=StructType()), plan=lambda path: path, options=()
        )
        new.name, new.storage.name = "permanent", "parquet"
        return await self.first.permanent.create(execution, self.workspace, new)

    async def follow(self):
        return await self.second.statements.follow(self.second.execution(self.change))

    async def _execute(self, path, *, operation_id, on_progress):
        (self.site.location / operation_id).mkdir()
        self.executes.set()
        await self.resumes.wait()
        return SimpleNamespace(server_side_session_id="", observed={row_count_name(operation_id): 0})

    @property
    def writes(self):
        return self.site.records.read(self.site.record.name).record.writes


def test_permanent_table_does_not_appear_after_its_statement_was_lost(site, tmp_path_factory):
    async def run():
        creation = Creation(site, tmp_path_factory.mktemp("workspace"))
        statement = asyncio.create_task(creation.run())
        await creation.executes.wait()
        with pytest.raises(GatewayError, match="LODGE_STATEMENT_LOST"):
            await creation.follow()
        assert creation.writes == ()
        creation.resumes.set()
        with pytest.raises(GatewayError, match="LODGE_STATEMENT_LOST"):
            await statement
        assert not list(creation.workspace.root.iterdir())

    asyncio.run(run())


@pytest.mark.parametrize("is_moved", [True, False])
def test_permanent_table_may_exist_if_its_gateway_was_lost_in_the_last_step(site, tmp_path_factory, is_moved):
    async def run():
        creation = Creation(site, tmp_path_factory.mktemp("workspace"))
        moves, goes_on = asyncio.Event(), asyncio.Event()
        move = creation.first.storage.change_workspace

        async def move_and_pause(*arguments):
            if is_moved:
                await move(*arguments)
            moves.set()
            await goes_on.wait()
            if not is_moved:
                await move(*arguments)

        creation.first.storage.change_workspace = move_and_pause
        creation.resumes.set()
        statement = asyncio.create_task(creation.run())
        await moves.wait()
        for _ in range(2):
            with pytest.raises(GatewayError, match="LODGE_STATEMENT_UNFINISHED"):
                await creation.follow()
        assert creation.writes == ()
        goes_on.set()
        if is_moved:
            await statement
        else:
            with pytest.raises(FileNotFoundError):
                await statement
        assert bool(list(creation.workspace.root.iterdir())) is is_moved

    asyncio.run(run())


def test_gateways_end_the_creation_of_a_permanent_table_that_may_have_appeared(site):
    write = PendingWrite(TableUuid(str(uuid.uuid4())), "the creation", FIRST)
    published = replace(write, is_published=True)
    stored = site.records.read(site.record.name)
    abandoned = find_abandoned(replace(stored, record=replace(stored.record, writes=(write, published))), {FIRST})
    assert abandoned == [published]
