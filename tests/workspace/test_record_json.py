"""Records as JSON (guarantees: workspace.record_json)."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.records import a_record
from workspace.identifiers import ClientSessionId, Principal, ReplicaId, SessionUuid, TableUuid
from workspace.record_json import decode_record, encode_record
from workspace.records import (
    PendingDrop,
    Phase,
    Refusal,
    SessionRecord,
    SuspectedRequest,
    TableState,
    TemporaryTable,
)

TEXT = st.text(max_size=20)
UUIDS = st.uuids().map(str)
DROPS = st.builds(PendingDrop, TEXT, TEXT.map(ReplicaId), TEXT)
TABLES = st.builds(TemporaryTable, TEXT, UUIDS, st.sampled_from(TableState), TEXT, drop=st.none() | DROPS)
SUSPECTS = st.builds(SuspectedRequest, TEXT, TEXT, st.integers(0, 2**40), st.sampled_from(Refusal), TEXT)
RECORDS = st.builds(
    SessionRecord,
    UUIDS.map(SessionUuid),
    TEXT.map(Principal),
    TEXT.map(ClientSessionId),
    TEXT,
    st.sampled_from(Phase),
    TEXT,
    st.frozensets(TEXT, max_size=3),
    st.lists(TABLES, max_size=3).map(tuple),
    suspects=st.lists(SUSPECTS, max_size=2).map(tuple),
    relations=st.lists(TEXT, max_size=2).map(tuple),
)


@given(RECORDS)
def test_guarantee_1_decoding_reverses_encoding(record: SessionRecord) -> None:
    assert decode_record(encode_record(record)) == record


@given(st.binary(max_size=200))
def test_guarantee_2_any_invalid_content_raises_value_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_record(content)


JSON = st.recursive(st.none() | st.booleans() | st.integers() | TEXT, lambda inner: st.lists(inner, max_size=3))


@given(data=st.data(), value=JSON)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_guarantee_2_changed_record_is_refused_or_has_the_right_types(data: st.DataObject, value: Any) -> None:
    document = json.loads(encode_record(a_record()))
    part = data.draw(st.sampled_from(sorted(document["record"])))
    document["record"][part] = value
    try:
        record = decode_record(json.dumps(document).encode())
    except ValueError:
        return
    assert encode_record(record)


def test_guarantee_3_a_drop_is_stored_as_a_published_write() -> None:
    uuid = TableUuid("00000000-0000-4000-8000-000000000001")
    drop = PendingDrop("operation", ReplicaId("a"), "{}")
    record = a_record(tables=(TemporaryTable("t", uuid, TableState.DROPPING, "parquet", drop=drop),))
    document = json.loads(encode_record(record))
    (stored,) = document["record"]["tables"]
    (write,) = stored["writes"]
    assert "drop" not in stored
    assert (write["kind"], write["is_published"], write["operation_id"]) == ("Drop", True, "operation")
    assert write["directory"] != uuid
    write["directory"] = "00000000-0000-4000-8000-000000000002"  # earlier releases chose it at random
    assert decode_record(json.dumps(document).encode()) == record
    stored["writes"].append(write)
    with pytest.raises(ValueError, match="more than one pending drop"):
        decode_record(json.dumps(document).encode())


def test_guarantee_4_relations_are_stored_if_there_are_any() -> None:
    assert "relations" not in json.loads(encode_record(a_record()))["record"]
    assert json.loads(encode_record(a_record(relations=("operation",))))["record"]["relations"] == ["operation"]


def test_guarantee_4_suspects_are_stored_if_there_are_any() -> None:
    assert "suspects" not in json.loads(encode_record(a_record()))["record"]
    suspected = a_record(suspects=(SuspectedRequest("operation", "digest", 1, Refusal.REQUEST, "loss"),))
    (stored,) = json.loads(encode_record(suspected))["record"]["suspects"]
    assert stored == {
        "operation_id": "operation",
        "digest": "digest",
        "losses": 1,
        "refusal": "Request",
        "last_loss": "loss",
    }
