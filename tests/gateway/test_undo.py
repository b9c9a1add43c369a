"""The view of a table whose change is undone (module: gateway.tables.undo)."""

import asyncio
import dataclasses
import json
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from pyspark.sql.connect.proto import base_pb2
from pyspark.sql.types import StructType

from gateway.blocking_work.storage import Storage
from gateway.messages.requests import SessionKey
from gateway.sessions.session import Session
from gateway.tables.deletion import DirectoryDeletion
from gateway.tables.undo import Undo, UndoPendingError
from gateway.tables.view_sync import ViewSync
from tests.records import a_record
from workspace.files.leases import FileLeases
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import ClientSessionId, Principal, ReplicaId, TableUuid
from workspace.record_store import RecordsUnavailableError
from workspace.records import PendingWrite, TableState, TemporaryTable

SCHEMA = json.dumps(StructType().add("id", "long").jsonValue())
OWN = ReplicaId("r1")


class LostAnswer(FileSessionRecords):
    """Real records. A change takes effect, but its answer is lost if the attribute is set."""

    loses_answer = False

    def replace(self, record: Any, version: Any) -> Any:
        changed = super().replace(record, version)
        if self.loses_answer:
            self.loses_answer = False
            raise RecordsUnavailableError(None, "The answer was lost.")
        return changed


@pytest.mark.parametrize("loses_answer", [False, True])
async def test_view_of_an_undone_insertion_does_not_read_its_rows(tmp_path: Path, loses_answer: bool) -> None:
    records, locations = LostAnswer(tmp_path), FileSessionLocations(tmp_path)
    locations.initialise()
    storage = Storage(records, FileLeases(tmp_path), locations)
    first, second = (TableUuid(str(uuid.uuid4())) for _ in range(2))
    write = PendingWrite(second, str(uuid.uuid4()), OWN, SCHEMA, is_published=True, rows=1)
    table = TemporaryTable("t", first, TableState.READY, "parquet", (first, second), rows=2, writes=(write,))
    record = records.create(dataclasses.replace(a_record(1), tables=(table,))).record
    location = locations.create(record.session_uuid)
    for directory in (first, second):
        (location / directory).mkdir()

    views: list[tuple[list[str], bool]] = []

    async def execute(plan: base_pb2.Plan) -> None:
        paths = plan.command.create_dataframe_view.input.project.input.read.data_source.paths
        is_in_record = bool(records.read(record.name).record.tables[0].writes)
        views.append(([Path(path).name for path in paths], is_in_record))

    session = mock.Mock(spec=Session, uuid=record.session_uuid, record_name=record.name, lock=asyncio.Lock())
    session.key = SessionKey(Principal(record.principal), ClientSessionId(record.client_session_id))
    execution = mock.Mock(session=session)
    execution.operation.id = write.operation_id
    execution.backend.operations.execute = execute
    sessions = mock.Mock()
    sessions.find.return_value = session
    deletion = DirectoryDeletion(storage)
    undo = Undo(storage, sessions, ViewSync(storage), deletion, complete=mock.AsyncMock(side_effect=AssertionError))
    records.loses_answer = loses_answer
    with suppress(UndoPendingError):
        await undo.undo(execution, table, write)
    async with asyncio.timeout(60):
        while len(list(location.iterdir())) > 1:  # noqa: ASYNC110 - the undo is retried in the background
            await asyncio.sleep(0.05)
    assert views == [([first], True)], "the view comes first, so that an interrupted undo is not forgotten"
    [kept] = records.read(record.name).record.tables
    assert (kept.parts, kept.writes, kept.rows) == ((first,), (), 1)
    await deletion.wait()
    await storage.close()
