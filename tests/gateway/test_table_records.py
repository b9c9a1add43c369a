"""Changes of session records by statements (guarantees: gateway.tables.records)."""

import dataclasses
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from unittest import mock

import pytest
import pytest_asyncio

from gateway.blocking_work.storage import Storage
from gateway.errors import GatewayError
from gateway.messages.requests import SessionKey
from gateway.sessions.session import Session
from gateway.tables.records import MAX_RECORD_BYTES, TableRecords
from tests.records import a_record
from workspace.files.leases import FileLeases
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import ClientSessionId, Principal, ReplicaId, TableUuid
from workspace.record_changes import put_table
from workspace.records import PendingDrop, SessionRecord, TableState, TemporaryTable


@pytest_asyncio.fixture
async def storage(tmp_path: Path) -> AsyncIterator[Storage]:
    locations = FileSessionLocations(tmp_path)
    locations.initialise()
    storage = Storage(FileSessionRecords(tmp_path), FileLeases(tmp_path), locations)
    yield storage
    await storage.close()


def with_table(record: SessionRecord, characters: int) -> SessionRecord:
    table = TemporaryTable(
        f"t{len(record.tables)}",
        TableUuid(str(uuid.uuid4())),
        TableState.READY,
        "csv",
        options=(("x" * characters, ""),),
    )
    return dataclasses.replace(record, tables=(*record.tables, table))


async def test_guarantee_2_no_change_makes_a_record_too_large(storage: Storage) -> None:
    record = storage.records.create(with_table(a_record(1), 2 * MAX_RECORD_BYTES)).record
    key = SessionKey(Principal(record.principal), ClientSessionId(record.client_session_id))
    session = mock.Mock(spec=Session, key=key, uuid=record.session_uuid, record_name=record.name)
    records = TableRecords(storage)
    with pytest.raises(GatewayError, match=r"2 temporary tables would have 8,\d+,\d+ bytes") as raised:
        await records.change(session, lambda record: with_table(record, 1))
    assert raised.value.condition == "LODGE_SESSION_RECORD_TOO_LARGE"
    assert await records.read(session) == record
    drop = PendingDrop(str(uuid.uuid4()), ReplicaId("r1"), "x" * 1000)
    table = record.tables[0]
    await records.change(session, lambda record: put_table(record, dataclasses.replace(table, drop=drop)))
    await records.change(session, lambda record: dataclasses.replace(record, tables=()))
    half = await records.change(session, lambda record: with_table(record, MAX_RECORD_BYTES // 2))
    with pytest.raises(GatewayError, match=r"LODGE_SESSION_RECORD_TOO_LARGE"):
        await records.change(session, lambda record: with_table(record, MAX_RECORD_BYTES // 2))
    assert await records.read(session) == half
