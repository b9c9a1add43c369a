"""Sessions as a reaper sees them: a record, and a location with a table."""

import uuid
from pathlib import Path

from tests.records import a_record
from workspace.files.session_locations import FileSessionLocations
from workspace.identifiers import SessionUuid, TableUuid
from workspace.record_store import SessionRecords, StoredRecord
from workspace.records import Phase, TableState, TemporaryTable

TABLE = TableUuid("00000000-0000-4000-8000-0000000000aa")


def create_record(
    records: SessionRecords, *holders: str, phase: Phase = Phase.ACTIVE, backend: str = "sc://backend:15002"
) -> StoredRecord:
    """Create the record of a session with one table."""
    record = a_record(
        client_session_id=str(uuid.uuid4()),
        backend=backend,
        phase=phase,
        holders=frozenset(holders),
        tables=(TemporaryTable("t", TABLE, TableState.READY, "parquet", parts=(TABLE,)),),
    )
    return records.create(record)


def create_location(locations: FileSessionLocations, session_uuid: SessionUuid) -> Path:
    """Create a session location with the files of one table."""
    location = locations.create(session_uuid)
    (location / TABLE).mkdir()
    (location / TABLE / "data").write_text("data")
    return location
