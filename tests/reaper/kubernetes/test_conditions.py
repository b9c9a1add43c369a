"""The conditions of a session, and the Events for reports."""

import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reaper.decisions import Snapshot
from reaper.kubernetes.backends import Availability
from reaper.kubernetes.conditions import Condition, FailedRemoval, conditions_of
from reaper.kubernetes.events import events_for
from reaper.reports import ActionFailed, HoldBegan, OrphanRemoved, PassResult, SessionReaped, WritesUndone
from tests.records import a_record
from workspace.identifiers import ReplicaId, SessionUuid
from workspace.record_store import StoredRecord, Version
from workspace.records import Phase

A, B = ReplicaId("a"), ReplicaId("b")
SESSION = SessionUuid(str(uuid.UUID(int=1)))
NOBODY = frozenset[ReplicaId]()


def a_stored(*holders: ReplicaId, phase: Phase = Phase.ACTIVE) -> StoredRecord:
    return StoredRecord(a_record(1, phase=phase, holders=frozenset(holders)), Version("uid.1"))


def conditions(
    stored: StoredRecord,
    *,
    lost: frozenset[ReplicaId] = NOBODY,
    doubted: frozenset[ReplicaId] = NOBODY,
    before: Mapping[str, Condition] | None = None,
    **parts: Any,
) -> Mapping[str, Condition]:
    snapshot = Snapshot(frozenset(), (stored,), frozenset(), lost, (), 0.0, 0.0, doubted=doubted)
    defaults: dict[str, Any] = {"held": frozenset(), "availability": None, "failed": None}
    return conditions_of(stored, snapshot, before=before or {}, **(defaults | parts))


@pytest.mark.parametrize(
    ("stored", "parts", "owned"),
    [
        (a_stored(A), {}, ("True", "Held")),
        (a_stored(A, B), {"lost": frozenset({A})}, ("True", "Held")),
        (a_stored(A), {"doubted": frozenset({A})}, ("Unknown", "HolderInDoubt")),
        (a_stored(A), {"lost": frozenset({A})}, ("False", "HolderGone")),
        (a_stored(), {}, ("False", "NoHolder")),
        (a_stored(A), {"lost": frozenset({A}), "held": frozenset({SESSION})}, ("False", "MassExpiry")),
        (replace(a_stored(A), is_deletion_requested=True), {}, ("False", "DeletionRequested")),
        (a_stored(A, phase=Phase.ENDING), {"failed": FailedRemoval("change_record", "", 1)}, ("False", "Ending")),
    ],
)
def test_owned_condition_explains_the_state(
    stored: StoredRecord, parts: dict[str, Any], owned: tuple[str, str]
) -> None:
    found = conditions(stored, **parts)
    assert found.keys() == {"Owned"}
    assert (found["Owned"].status, found["Owned"].reason) == owned


def test_ending_session_without_failure_gets_no_new_condition() -> None:
    known = conditions(a_stored(A))
    assert conditions(a_stored(A, phase=Phase.ENDING), before=known) == known


def test_unknown_condition_keeps_its_value() -> None:
    known = conditions(a_stored(A), availability=Availability(False, "NoPod", "There is none."))
    assert known["BackendAvailable"] == Condition("BackendAvailable", "False", "NoPod", "There is none.")
    assert conditions(a_stored(A), before=known) == known


def test_failed_removal_shows_reason_and_attempts() -> None:
    failed = FailedRemoval("end_session", "Permission denied", 3)
    found = conditions(a_stored(phase=Phase.ENDING), failed=failed)["LocationRemoved"]
    assert found == Condition("LocationRemoved", "False", "RemovalFailed", "Attempt 3: Permission denied")
    assert "LocationRemoved" not in conditions(a_stored(A), failed=FailedRemoval("change_record", "down", 1))


def test_removed_leftovers_turn_the_condition_true() -> None:
    stored = a_stored(A)
    assert "LeftoversRemoved" not in conditions(stored)
    failed = conditions(stored, failed=FailedRemoval("remove_orphan_table", "Device or resource busy", 1))
    assert failed["LeftoversRemoved"].status == "False"
    after = conditions(stored, before=failed)
    assert after["LeftoversRemoved"].status == "True"
    assert conditions(stored, before=after) == after


def test_failed_removal_disappears_from_active_session() -> None:
    failed = conditions(a_stored(A), failed=FailedRemoval("end_session", "The API server does not answer", 1))
    assert failed["LocationRemoved"].status == "False"
    assert conditions(a_stored(B), before=failed).keys() == {"Owned"}
    ending = conditions(a_stored(phase=Phase.ENDING), before=failed)
    assert ending["LocationRemoved"] == failed["LocationRemoved"], "the end has not succeeded yet"


def test_long_message_is_truncated() -> None:
    found = conditions(a_stored(), failed=FailedRemoval("end_session", "x" * 100_000, 1))
    assert len(found["LocationRemoved"].message) <= 32768


def test_removal_event_has_the_required_message() -> None:
    stored, location = a_stored(A), Path("/tmp/dfs") / SESSION
    note = f"Deleted session temporary location [{location}] from file system [file:///]"
    (event,) = events_for(SessionReaped(stored, "holders_lost", (location,)))
    assert (event.about, event.reason, event.note, event.is_warning) == (stored, "LocationDeleted", note, False)
    (event,) = events_for(OrphanRemoved(SESSION, f"s3://bucket/{SESSION}"))
    assert event.about is None
    assert event.note == f"Deleted session temporary location [s3://bucket/{SESSION}] from file system [s3://bucket]"
    (event,) = events_for(SessionReaped(stored, "holders_lost", ()))
    assert "had no session location" in event.note


def test_failures_are_warnings_and_passes_are_no_events() -> None:
    stored = a_stored(A)
    reports = [
        ActionFailed("end_session", "Permission denied", stored),
        HoldBegan("records", "down"),
        WritesUndone(stored, frozenset({A}), ("half",)),
    ]
    assert [(one.reason, one.is_warning) for report in reports for one in events_for(report)] == [
        ("RemovalFailed", True),
        ("HeldBackRecords", True),
        ("WritesUndone", True),
    ]
    snapshot = Snapshot(frozenset(), (), frozenset(), frozenset(), (), 0.0, 0.0)
    assert not list(events_for(PassResult(snapshot, frozenset(), 1.0)))
