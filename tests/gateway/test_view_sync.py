"""The view of a temporary table after a change was undone (guarantee: gateway.tables.view_sync)."""

import asyncio
import dataclasses
import uuid
from pathlib import Path
from unittest import mock

import pytest

from gateway.blocking_work.storage import Storage
from gateway.tables.view_sync import ViewSync
from tests.records import a_record
from workspace.files.leases import FileLeases
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import ReplicaId, TableUuid
from workspace.records import PendingDrop, TableState, TemporaryTable


@pytest.mark.parametrize(
    ("state", "drops"), [(TableState.READY, False), (TableState.CREATING, True), (TableState.DROPPING, True)]
)
async def test_undone_drop_of_a_table_whose_view_did_not_exist_keeps_a_later_view(
    tmp_path: Path, state: TableState, drops: bool
) -> None:
    """The statement that creates the table creates its view after the table can be dropped."""
    storage = Storage(FileSessionRecords(tmp_path), FileLeases(tmp_path), FileSessionLocations(tmp_path))
    table = TemporaryTable("t", TableUuid(str(uuid.uuid4())), state, "parquet")
    record = dataclasses.replace(a_record(1), tables=(table,))
    execution = mock.Mock()
    execution.backend.drop_temp_view = mock.AsyncMock()
    drop = PendingDrop(str(uuid.uuid4()), ReplicaId("r1"), schema="")
    await ViewSync(storage).synchronise(execution, record, table, drop)
    assert execution.backend.drop_temp_view.called == drops
    await storage.close()


async def test_request_of_a_cancelled_statement_arrives_before_the_statement_ends(tmp_path: Path) -> None:
    """Otherwise the backend could drop the view after the undo has created it again (simulation, seed 944633)."""
    storage = Storage(FileSessionRecords(tmp_path), FileLeases(tmp_path), FileSessionLocations(tmp_path))
    table = TemporaryTable("t", TableUuid(str(uuid.uuid4())), TableState.DROPPING, "parquet")
    record = dataclasses.replace(a_record(1), tables=(table,))
    sent, arrives, arrived = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def drop_temp_view(_: str) -> None:
        sent.set()
        await arrives.wait()
        arrived.set()

    execution = mock.Mock()
    execution.backend.drop_temp_view = drop_temp_view
    drop = PendingDrop(str(uuid.uuid4()), ReplicaId("r1"), schema="{}")
    statement = asyncio.create_task(ViewSync(storage).synchronise(execution, record, table, drop))
    await sent.wait()
    statement.cancel()
    await asyncio.wait([statement], timeout=0.05)
    assert not statement.done()
    arrives.set()
    with pytest.raises(asyncio.CancelledError):
        await statement
    assert arrived.is_set()
    await storage.close()
