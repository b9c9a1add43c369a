"""Session records as objects (guarantees: workspace.kubernetes.connect_session_objects)."""

import json
import re
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.records import a_record
from workspace.identifiers import ClientSessionId, Principal, ReplicaId, SessionUuid, TableUuid
from workspace.kubernetes.connect_session_objects import new_object, spec_of, stored_record
from workspace.record_store import SessionRecords
from workspace.records import (
    Answer,
    PendingDrop,
    PendingWrite,
    Phase,
    Refusal,
    Replacement,
    SessionRecord,
    SuspectedRequest,
    TableDefinition,
    TableState,
    TemporaryTable,
    WriteKind,
)

REVISION = "0123456789abcdef"
TEXT = st.text(max_size=20)
COUNTS = st.integers(0, 2**63 - 1)
TABLE_UUIDS = st.uuids().map(str).map(TableUuid)
REPLICAS = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True).map(ReplicaId)
UUID_LISTS = st.lists(TABLE_UUIDS, max_size=3).map(tuple)
PARTITIONS = st.lists(TEXT, max_size=2).map(tuple)
REPLACEMENTS = st.lists(st.builds(Replacement, part=TABLE_UUIDS, partitions=PARTITIONS), max_size=2).map(tuple)
DEFINITIONS = st.builds(
    TableDefinition,
    storage_format=TEXT,
    created_at=TEXT,
    partition_columns=st.lists(TEXT, max_size=2).map(tuple),
    options=st.lists(st.tuples(TEXT, TEXT), max_size=2).map(tuple),
    replacements=REPLACEMENTS,
    schema=TEXT,
    properties=st.lists(st.tuples(TEXT, TEXT), max_size=2).map(tuple),
)
WRITES = st.lists(
    st.builds(
        PendingWrite,
        directory=TABLE_UUIDS,
        operation_id=TEXT,
        replica=REPLICAS,
        schema=TEXT,
        kind=st.sampled_from(WriteKind),
        is_published=st.booleans(),
        rows=COUNTS,
        size_bytes=COUNTS,
        replaced=UUID_LISTS,
        replaced_rows=COUNTS,
        replaced_bytes=COUNTS,
        partitions=PARTITIONS,
        former_schema=TEXT,
        definition=st.none() | DEFINITIONS,
        is_overtaken=st.booleans(),
        other_name=TEXT,
    ),
    max_size=2,
).map(tuple)
TABLES = st.lists(
    st.builds(
        TemporaryTable,
        name=TEXT,
        uuid=TABLE_UUIDS,
        state=st.sampled_from(TableState),
        storage_format=TEXT,
        parts=UUID_LISTS,
        rows=COUNTS,
        size_bytes=st.integers(0, 2**60),
        created_at=TEXT,
        partition_columns=st.lists(TEXT, max_size=2).map(tuple),
        options=st.lists(st.tuples(TEXT, TEXT), max_size=2).map(tuple),
        writes=WRITES,
        drop=st.none() | st.builds(PendingDrop, operation_id=TEXT, replica=REPLICAS, schema=TEXT),
        schema=TEXT,
        properties=st.lists(st.tuples(TEXT, TEXT), max_size=2).map(tuple),
        replacements=REPLACEMENTS,
    ),
    max_size=3,
).map(tuple)
VALUES = st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT
ANSWERS = st.lists(
    st.builds(Answer, operation_id=TEXT, values=st.lists(st.tuples(TEXT, VALUES), max_size=2).map(tuple)), max_size=2
).map(tuple)
SUSPECTS = st.lists(
    st.builds(
        SuspectedRequest,
        operation_id=TEXT,
        digest=TEXT,
        losses=COUNTS,
        refusal=st.sampled_from(Refusal),
        last_loss=TEXT,
    ),
    max_size=2,
).map(tuple)
RECORDS = st.builds(
    SessionRecord,
    session_uuid=st.uuids().map(str).map(SessionUuid),
    principal=TEXT.map(Principal),
    client_session_id=TEXT.map(ClientSessionId),
    backend=TEXT,
    phase=st.sampled_from(Phase),
    created_at=TEXT,
    holders=st.frozensets(REPLICAS, max_size=3),
    tables=TABLES,
    answers=ANSWERS,
    writes=WRITES,
    suspects=SUSPECTS,
    relations=st.lists(TEXT, max_size=2).map(tuple),
)


def as_stored(record: SessionRecord) -> dict[str, Any]:
    """Return an object in the form in which the API server answers it."""
    found: dict[str, Any] = json.loads(json.dumps(new_object(record, "lodge", REVISION)))
    found["metadata"] |= {"uid": "u", "generation": 1, "resourceVersion": "1"}
    return found


@pytest.mark.slow
@given(RECORDS)
@settings(max_examples=100)
def test_guarantee_1_record_survives_conversion_to_an_object(record: SessionRecord) -> None:
    assert stored_record(as_stored(record), "lodge").record == record


@pytest.mark.slow
@given(RECORDS)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_guarantee_1_api_server_stores_the_same_record(records: SessionRecords, record: SessionRecord) -> None:
    stored = records.create(record)
    try:
        assert stored.record == record
        assert records.read(record.name) == stored
    finally:
        records.delete(record.name, stored.version)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_guarantee_1_number_that_the_api_would_round_is_refused(number: int) -> None:
    answer = Answer("operation", (("count", number),))
    with pytest.raises(ValueError, match=str(number)):
        spec_of(a_record(answers=(answer,)), "lodge", REVISION)


def test_keys_are_in_camel_case() -> None:
    write = PendingWrite(TableUuid("00000000-0000-4000-8000-000000000001"), "operation", ReplicaId("a"))
    table = TemporaryTable("t", TableUuid("00000000-0000-4000-8000-000000000001"), TableState.READY, "parquet")
    spec = spec_of(a_record(tables=(table,), writes=(write,)), "lodge", REVISION)
    assert spec["tables"][0].keys() >= {"storageFormat", "sizeBytes", "partitionColumns"}
    for part in (spec, spec["tables"][0], spec["writes"][0]):
        assert all(re.fullmatch("[a-z][a-zA-Z]*", key) for key in part)


def test_printer_columns_show_values_of_the_record() -> None:
    tables = tuple(
        TemporaryTable(f"t{n}", TableUuid(f"00000000-0000-4000-8000-{n:012}"), TableState.READY, "csv", size_bytes=n)
        for n in (1, 2)
    )
    record = a_record(holders=frozenset({ReplicaId("b"), ReplicaId("a")}), tables=tables)
    assert spec_of(record, "lodge", REVISION)["summary"] == {"gateway": "a,b", "tables": 2, "bytes": 3}


JSON = st.recursive(st.none() | st.booleans() | st.integers() | TEXT, lambda inner: st.lists(inner, max_size=3))


@given(data=st.data(), value=JSON)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_guarantee_3_changed_object_is_refused_or_has_the_right_types(data: st.DataObject, value: Any) -> None:
    found = as_stored(a_record())
    part = data.draw(st.sampled_from(sorted(found["spec"])))
    if data.draw(st.booleans()):
        found["spec"][part] = value
    else:
        del found["spec"][part]
    try:
        record = stored_record(found, "lodge").record
    except ValueError:
        return
    assert spec_of(record, "lodge", REVISION)


def test_guarantee_3_object_of_another_session_or_lodge_is_refused() -> None:
    found = as_stored(a_record())
    with pytest.raises(ValueError, match="another session"):
        stored_record(found, "other")
    found["spec"]["principal"] = "eve"
    with pytest.raises(ValueError, match="another session"):
        stored_record(found, "lodge")


def test_builder_sets_every_part_of_a_record() -> None:
    """A new part of a record must be added to the strategies above and to the definition."""
    tried = {
        SessionRecord: 12,
        TemporaryTable: 15,
        PendingWrite: 16,
        TableDefinition: 7,
        Replacement: 2,
        PendingDrop: 3,
        Answer: 2,
        SuspectedRequest: 5,
    }
    assert {kind: len(fields(kind)) for kind in tried if is_dataclass(kind)} == tried
